"""JoinGroup (API 11): a member enters a classic consumer group and learns its generation."""

from kshark.schema import api, array, boolean, bytes_, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

member = struct(
    string("member_id"),
    string("group_instance_id", versions="5+", nullable="5+"),
    bytes_("metadata"),
)

DISSECTOR = api(
    11,
    "JoinGroup",
    versions="0-9",
    flexible="6+",
    request=struct(
        string("group_id"),
        int32("session_timeout_ms"),
        int32("rebalance_timeout_ms", versions="1+", default=-1),
        string("member_id"),
        string("group_instance_id", versions="5+", nullable="5+"),
        string("protocol_type"),
        array("protocols", struct(string("name"), bytes_("metadata"))),
        string("reason", versions="8+", nullable="8+"),
    ),
    response=struct(
        int32("throttle_time_ms", versions="2+"),
        int16("error_code", enum=ErrorCode),
        int32("generation_id", default=-1),
        string("protocol_type", versions="7+", nullable="7+"),
        string("protocol_name", nullable="7+"),
        string("leader"),
        boolean("skip_assignment", versions="9+"),
        string("member_id"),
        array("members", member),
    ),
)
