"""AddPartitionsToTxn (API 24): a producer, or its broker (from version 4 on), adds partitions to a transaction."""

from kshark.schema import api, array, boolean, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

topic = struct(string("name"), array("partitions", int32()))
transaction = struct(
    string("transactional_id"),
    int64("producer_id"),
    int16("producer_epoch"),
    boolean("verify_only"),
    array("topics", topic),
)
partition_result = struct(int32("partition_index"), int16("partition_error_code", enum=ErrorCode))
topic_result = struct(string("name"), array("results_by_partition", partition_result))

DISSECTOR = api(
    24,
    "AddPartitionsToTxn",
    versions="0-5",
    flexible="3+",
    kip="KIP-98",
    request=struct(
        array("transactions", transaction, versions="4+"),
        string("v3_and_below_transactional_id", versions="0-3"),
        int64("v3_and_below_producer_id", versions="0-3"),
        int16("v3_and_below_producer_epoch", versions="0-3"),
        array("v3_and_below_topics", topic, versions="0-3"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", versions="4+", enum=ErrorCode),
        array(
            "results_by_transaction",
            struct(string("transactional_id"), array("topic_results", topic_result)),
            versions="4+",
        ),
        array("results_by_topic_v3_and_below", topic_result, versions="0-3"),
    ),
)
