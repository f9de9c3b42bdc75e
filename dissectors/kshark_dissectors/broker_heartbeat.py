"""BrokerHeartbeat (API 63): a broker says to the controller that it lives, or that it wants to stop."""

from kshark.schema import api, array, boolean, int16, int32, int64, struct, uuid
from kshark_dissectors.enums import ErrorCode

DISSECTOR = api(
    63,
    "BrokerHeartbeat",
    versions="0-2",
    flexible="0+",
    kip="KIP-631",
    request=struct(
        int32("broker_id"),
        int64("broker_epoch", default=-1),
        int64("current_metadata_offset"),
        boolean("want_fence"),
        boolean("want_shut_down"),
        array("offline_log_dirs", uuid(), versions="1+", tag=0),
        array("cordoned_log_dirs", uuid(), versions="2+", nullable="2+", tag=1),
    ),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        boolean("is_caught_up"),
        boolean("is_fenced", default=True),
        boolean("should_shut_down"),
    ),
)
