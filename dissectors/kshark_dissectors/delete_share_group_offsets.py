"""DeleteShareGroupOffsets (API 92): an administrator forgets topics of a share group."""

from kshark.schema import api, array, int16, int32, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

response_topic = struct(
    string("topic_name"),
    uuid("topic_id", name_in="topic_name"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)

DISSECTOR = api(
    92,
    "DeleteShareGroupOffsets",
    versions="0",
    flexible="0+",
    kip="KIP-932",
    request=struct(string("group_id"), array("topics", struct(string("topic_name")))),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        array("responses", response_topic),
    ),
)
