"""ListTransactions (API 66): the transactions that this broker coordinates."""

from kshark.schema import api, array, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    66,
    "ListTransactions",
    versions="0-2",
    flexible="0+",
    kip="KIP-664",
    request=struct(
        array("state_filters", string()),
        array("producer_id_filters", int64()),
        int64("duration_filter", versions="1+", default=-1),
        string("transactional_id_pattern", versions="2+", nullable="2+"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        array("unknown_state_filters", string()),
        array(
            "transaction_states", struct(string("transactional_id"), int64("producer_id"), string("transaction_state"))
        ),
    ),
)
