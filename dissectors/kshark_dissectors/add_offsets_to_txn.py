"""AddOffsetsToTxn (API 25): a producer adds a group's offsets to a transaction."""

from kshark.schema import api, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    25,
    "AddOffsetsToTxn",
    versions="0-4",
    flexible="3+",
    kip="KIP-98",
    request=struct(
        string("transactional_id"),
        int64("producer_id"),
        int16("producer_epoch"),
        string("group_id"),
    ),
    response=struct(int32("throttle_time_ms"), int16("error_code", enum=ErrorCode)),
)
