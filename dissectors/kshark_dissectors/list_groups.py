"""ListGroups (API 16): the groups that this broker coordinates."""

from kshark.schema import api, array, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

listed_group = struct(
    string("group_id"),
    string("protocol_type"),
    string("group_state", versions="4+"),
    string("group_type", versions="5+"),
)

DISSECTOR = api(
    16,
    "ListGroups",
    versions="0-5",
    flexible="3+",
    request=struct(
        array("states_filter", string(), versions="4+"),
        array("types_filter", string(), versions="5+"),
    ),
    response=struct(
        int32("throttle_time_ms", versions="1+"),
        int16("error_code", enum=ErrorCode),
        array("groups", listed_group),
    ),
)
