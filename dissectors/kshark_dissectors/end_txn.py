"""EndTxn (API 26): a producer commits or aborts its transaction."""

from kshark.schema import api, boolean, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    26,
    "EndTxn",
    versions="0-5",
    flexible="3+",
    kip="KIP-98",
    request=struct(
        string("transactional_id"),
        int64("producer_id"),
        int16("producer_epoch"),
        boolean("committed"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        int64("producer_id", versions="5+", default=-1),
        int16("producer_epoch", versions="5+", default=-1),
    ),
)
