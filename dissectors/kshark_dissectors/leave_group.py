"""LeaveGroup (API 13): members leave a classic consumer group."""

from kshark.schema import api, array, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

member_identity = struct(
    string("member_id"),
    string("group_instance_id", nullable="3+"),
    string("reason", versions="5+", nullable="5+"),
)
member = struct(
    string("member_id"),
    string("group_instance_id", nullable="3+"),
    int16("error_code", enum=ErrorCode),
)

DISSECTOR = api(
    13,
    "LeaveGroup",
    versions="0-5",
    flexible="4+",
    request=struct(
        string("group_id"),
        string("member_id", versions="0-2"),
        array("members", member_identity, versions="3+"),
    ),
    response=struct(
        int32("throttle_time_ms", versions="1+"),
        int16("error_code", enum=ErrorCode),
        array("members", member, versions="3+"),
    ),
)
