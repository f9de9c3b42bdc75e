"""FindCoordinator (API 10): which broker coordinates a group, a transactional id or a share partition."""

from kshark.schema import api, array, int8, int16, int32, string, struct
from kshark_dissectors.enums import CoordinatorType, ErrorCode

coordinator = struct(
    string("key"),
    int32("node_id"),
    string("host"),
    int32("port"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="4+"),
)

DISSECTOR = api(
    10,
    "FindCoordinator",
    versions="0-6",
    flexible="3+",
    request=struct(
        string("key", versions="0-3"),
        int8("key_type", versions="1+", enum=CoordinatorType),
        array("coordinator_keys", string(), versions="4+"),
    ),
    response=struct(
        int32("throttle_time_ms", versions="1+"),
        int16("error_code", versions="0-3", enum=ErrorCode),
        string("error_message", versions="1-3", nullable="1-3"),
        int32("node_id", versions="0-3"),
        string("host", versions="0-3"),
        int32("port", versions="0-3"),
        array("coordinators", coordinator, versions="4+"),
    ),
)
