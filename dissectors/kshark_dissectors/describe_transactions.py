"""DescribeTransactions (API 65): state and partitions of transactions."""

from kshark.schema import api, array, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

transaction_state = struct(
    int16("error_code", enum=ErrorCode),
    string("transactional_id"),
    string("transaction_state"),
    int32("transaction_timeout_ms"),
    int64("transaction_start_time_ms"),
    int64("producer_id"),
    int16("producer_epoch"),
    array("topics", struct(string("topic"), array("partitions", int32()))),
)

DISSECTOR = api(
    65,
    "DescribeTransactions",
    versions="0",
    flexible="0+",
    kip="KIP-664",
    request=struct(array("transactional_ids", string())),
    response=struct(int32("throttle_time_ms"), array("transaction_states", transaction_state)),
)
