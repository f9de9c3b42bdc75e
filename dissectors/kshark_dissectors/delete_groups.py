"""DeleteGroups (API 42): an administrator deletes groups."""

from kshark.schema import api, array, int16, int32, string, struct
from kshark_dissectors.enums import ErrorCode

deletable_group_result = struct(
    string("group_id"),
    int16("error_code", enum=ErrorCode),
    string("error_message", versions="3+", nullable="3+"),
)

DISSECTOR = api(
    42,
    "DeleteGroups",
    versions="0-3",
    flexible="2+",
    kip="KIP-229",
    request=struct(array("groups_names", string())),
    response=struct(int32("throttle_time_ms"), array("results", deletable_group_result)),
)
