"""OffsetCommit (API 8): a consumer group stores how far it has read."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

request_partition = struct(
    int32("partition_index"),
    int64("committed_offset"),
    int32("committed_leader_epoch", versions="6+", default=-1),
    int64("commit_timestamp", versions="1", default=-1),
    string("committed_metadata", nullable="0+"),
)
request_topic = struct(
    string("name", versions="0-9"),
    uuid("topic_id", versions="10+"),
    array("partitions", request_partition),
)
response_topic = struct(
    string("name", versions="0-9"),
    uuid("topic_id", versions="10+"),
    array("partitions", struct(int32("partition_index"), int16("error_code", enum=ErrorCode))),
)

DISSECTOR = api(
    8,
    "OffsetCommit",
    versions="0-10",
    flexible="8+",
    request=struct(
        string("group_id"),
        int32("generation_id_or_member_epoch", versions="1+", default=-1),
        string("member_id", versions="1+"),
        string("group_instance_id", versions="7+", nullable="7+"),
        int64("retention_time_ms", versions="2-4", default=-1),
        array("topics", request_topic),
    ),
    response=struct(int32("throttle_time_ms", versions="3+"), array("topics", response_topic)),
)
