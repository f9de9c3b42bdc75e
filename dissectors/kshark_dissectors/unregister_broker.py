"""UnregisterBroker (API 64): an administrator takes a broker out of the cluster for good."""

from kshark.schema import api, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    64,
    "UnregisterBroker",
    versions="0",
    flexible="0+",
    kip="KIP-631",
    request=struct(int32("broker_id")),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
    ),
)
