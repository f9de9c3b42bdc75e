"""AllocateProducerIds (API 67): a broker gets a block of producer ids to hand out."""

from kshark.schema import api, int16, int32, int64, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    67,
    "AllocateProducerIds",
    versions="0",
    flexible="0+",
    kip="KIP-730",
    request=struct(int32("broker_id"), int64("broker_epoch", default=-1)),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        int64("producer_id_start"),
        int32("producer_id_len"),
    ),
)
