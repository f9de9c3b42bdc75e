"""Produce (API 0): a producer appends record batches; without acks nobody answers."""

from kshark.schema import api, array, int16, int32, int64, records, string, struct, uuid
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.structs import node_endpoint

topic_produce_data = struct(
    string("name", versions="0-12"),
    uuid("topic_id", versions="13+"),
    array("partition_data", struct(int32("index"), records("records", nullable="0+"))),
)
partition_produce = struct(
    int32("index"),
    int16("error_code", enum=ErrorCode),
    int64("base_offset"),
    int64("log_append_time_ms", versions="2+", default=-1),
    int64("log_start_offset", versions="5+", default=-1),
    array(
        "record_errors", struct(int32("batch_index"), string("batch_index_error_message", nullable="8+")), versions="8+"
    ),
    string("error_message", versions="8+", nullable="8+"),
    struct(
        int32("leader_id", default=-1), int32("leader_epoch", default=-1), name="current_leader", versions="10+", tag=0
    ),
)
topic_produce = struct(
    string("name", versions="0-12"),
    uuid("topic_id", versions="13+"),
    array("partition_responses", partition_produce),
)

DISSECTOR = api(
    0,
    "Produce",
    versions="0-13",
    flexible="9+",
    one_way=("acks", 0),
    request=struct(
        string("transactional_id", versions="3+", nullable="3+"),
        int16("acks", about="0: no answer, 1: the leader, -1: all in-sync replicas"),
        int32("timeout_ms"),
        array("topic_data", topic_produce_data),
    ),
    response=struct(
        array("responses", topic_produce),
        int32("throttle_time_ms", versions="1+"),
        array("node_endpoints", node_endpoint, versions="10+", tag=0),
    ),
)
