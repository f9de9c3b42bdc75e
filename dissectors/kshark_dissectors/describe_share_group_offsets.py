"""DescribeShareGroupOffsets (API 90): how far share groups have read."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

request_group = struct(
    string("group_id"),
    array("topics", struct(string("topic_name"), array("partitions", int32())), nullable="0+"),
)
partition = struct(
    int32("partition_index"),
    int64("start_offset"),
    int32("leader_epoch"),
    int64("lag", versions="1+", default=-1),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)
response_group = struct(
    string("group_id"),
    array(
        "topics", struct(string("topic_name"), uuid("topic_id", name_in="topic_name"), array("partitions", partition))
    ),
    int16("error_code", enum=ErrorCode),
    string("error_message", nullable="0+"),
)

DISSECTOR = api(
    90,
    "DescribeShareGroupOffsets",
    versions="0-1",
    flexible="0+",
    kip="KIP-932",
    request=struct(array("groups", request_group)),
    response=struct(int32("throttle_time_ms"), array("groups", response_group)),
)
