"""TxnOffsetCommit (API 28): a producer commits a group's offsets inside its transaction."""

from kshark.schema import api, array, int16, int32, int64, string, struct, uuid
from kshark_dissectors.enums import ErrorCode

request_partition = struct(
    int32("partition_index"),
    int64("committed_offset"),
    int32("committed_leader_epoch", versions="2+", default=-1),
    string("committed_metadata", nullable="0+"),
)
request_topic = struct(
    string("name", versions="0-5"),
    uuid("topic_id", versions="6+"),
    array("partitions", request_partition),
)
response_topic = struct(
    string("name", versions="0-5"),
    uuid("topic_id", versions="6+"),
    array("partitions", struct(int32("partition_index"), int16("error_code", enum=ErrorCode))),
)

DISSECTOR = api(
    28,
    "TxnOffsetCommit",
    versions="0-6",
    flexible="3+",
    kip="KIP-98",
    request=struct(
        string("transactional_id"),
        string("group_id"),
        int64("producer_id"),
        int16("producer_epoch"),
        int32("generation_id_or_member_epoch", versions="3+", default=-1),
        string("member_id", versions="3+"),
        string("group_instance_id", versions="3+", nullable="3+"),
        array("topics", request_topic),
    ),
    response=struct(int32("throttle_time_ms"), array("topics", response_topic)),
)
