"""DescribeTopicPartitions (API 75): the partitions of topics, page by page."""

from kshark.schema import api, array, boolean, int16, int32, string, struct, uuid
from kshark_dissectors.enums import AclOperation, ErrorCode

partition = struct(
    int16("error_code", enum=ErrorCode),
    int32("partition_index"),
    int32("leader_id"),
    int32("leader_epoch", default=-1),
    array("replica_nodes", int32()),
    array("isr_nodes", int32()),
    array("eligible_leader_replicas", int32(), nullable="0+"),
    array("last_known_elr", int32(), nullable="0+"),
    array("offline_replicas", int32()),
)
response_topic = struct(
    int16("error_code", enum=ErrorCode),
    string("name", nullable="0+"),
    uuid("topic_id", name_in="name"),
    boolean("is_internal"),
    array("partitions", partition),
    int32("topic_authorized_operations", default=-2147483648, enum=AclOperation, bits=True),
)

DISSECTOR = api(
    75,
    "DescribeTopicPartitions",
    versions="0",
    flexible="0+",
    kip="KIP-966",
    request=struct(
        array("topics", struct(string("name"))),
        int32("response_partition_limit", default=2000),
        struct(string("topic_name"), int32("partition_index"), name="cursor", nullable="0+"),
    ),
    response=struct(
        int32("throttle_time_ms"),
        array("topics", response_topic),
        struct(string("topic_name"), int32("partition_index"), name="next_cursor", nullable="0+"),
    ),
)
