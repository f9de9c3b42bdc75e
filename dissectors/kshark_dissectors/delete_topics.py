"""DeleteTopics (API 20): an administrator deletes topics."""

from kshark.schema import api, array, int16, int32, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

deletable_topic_result = struct(
    string("name", nullable="6+"),
    uuid("topic_id", versions="6+", name_in="name"),
    int16("error_code", enum=ErrorCode),
    string("error_message", versions="5+", nullable="5+"),
)

DISSECTOR = api(
    20,
    "DeleteTopics",
    versions="0-6",
    flexible="4+",
    kip="KIP-4",
    request=struct(
        array("topics", struct(string("name", nullable="6+"), uuid("topic_id")), versions="6+"),
        array("topic_names", string(), versions="0-5"),
        int32("timeout_ms"),
    ),
    response=struct(int32("throttle_time_ms", versions="1+"), array("responses", deletable_topic_result)),
)
