"""UnregisterController (API 94): an administrator takes a controller out of the cluster for good."""

from kshark.schema import api, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    94,
    "UnregisterController",
    versions="0",
    flexible="0+",
    request=struct(int32("controller_id")),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
    ),
)
