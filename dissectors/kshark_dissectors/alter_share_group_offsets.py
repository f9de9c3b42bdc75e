"""AlterShareGroupOffsets (API 91): an administrator moves the start offsets of a share group."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

request_topic = struct(
    string("topic_name"),
    array("partitions", struct(int32("partition_index"), int64("start_offset"))),
)
response_partition = struct(
    int32("partition_index"),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)

DISSECTOR = api(
    91,
    "AlterShareGroupOffsets",
    versions="0",
    flexible="0+",
    kip="KIP-932",
    request=struct(string("group_id"), array("topics", request_topic)),
    response=struct(
        int32("throttle_time_ms"),
        int16("error_code", enum=ErrorCode),
        string("error_message", nullable="0+"),
        array(
            "responses",
            struct(
                string("topic_name"), uuid("topic_id", name_in="topic_name"), array("partitions", response_partition)
            ),
        ),
    ),
)
