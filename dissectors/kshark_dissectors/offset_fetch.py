"""OffsetFetch (API 9): how far consumer groups have read."""

from kshark.schema import api, array, boolean, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

request_topics = struct(
    string("name", versions="8-9"),
    uuid("topic_id", versions="10+"),
    array("partition_indexes", int32()),
)
request_group = struct(
    string("group_id"),
    string("member_id", versions="9+", nullable="9+"),
    int32("member_epoch", versions="9+", default=-1),
    array("topics", request_topics, nullable="8+"),
)
partition = struct(
    int32("partition_index"),
    int64("committed_offset"),
    int32("committed_leader_epoch", versions="5+", default=-1),
    string("metadata", nullable="0+"),
    int16("error_code", enum=ErrorCode),
)
partitions = struct(
    int32("partition_index"),
    int64("committed_offset"),
    int32("committed_leader_epoch", default=-1),
    string("metadata", nullable="8+"),
    int16("error_code", enum=ErrorCode),
)
response_topics = struct(
    string("name", versions="8-9"),
    uuid("topic_id", versions="10+"),
    array("partitions", partitions),
)
response_group = struct(string("group_id"), array("topics", response_topics), int16("error_code", enum=ErrorCode))

DISSECTOR = api(
    9,
    "OffsetFetch",
    versions="0-10",
    flexible="6+",
    request=struct(
        string("group_id", versions="0-7"),
        array("topics", struct(string("name"), array("partition_indexes", int32())), versions="0-7", nullable="2+"),
        array("groups", request_group, versions="8+"),
        boolean("require_stable", versions="7+"),
    ),
    response=struct(
        int32("throttle_time_ms", versions="3+"),
        array("topics", struct(string("name"), array("partitions", partition)), versions="0-7"),
        int16("error_code", versions="2-7", enum=ErrorCode),
        array("groups", response_group, versions="8+"),
    ),
)
