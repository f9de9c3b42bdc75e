"""InitProducerId (API 22): a producer gets its id and epoch."""

from kshark.schema import api, boolean, int16, int32, int64, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    22,
    "InitProducerId",
    versions="0-6",
    flexible="2+",
    kip="KIP-98",
    request=struct(
        string("transactional_id", nullable="0+"),
        int32("transaction_timeout_ms"),
        int64("producer_id", versions="3+", default=-1),
        int16("producer_epoch", versions="3+", default=-1),
        boolean("enable2_pc", versions="6+"),
        boolean("keep_prepared_txn", versions="6+"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        int64("producer_id", default=-1),
        int16("producer_epoch"),
        int64("ongoing_txn_producer_id", versions="6+", default=-1),
        int16("ongoing_txn_producer_epoch", versions="6+", default=-1),
    ),
)
