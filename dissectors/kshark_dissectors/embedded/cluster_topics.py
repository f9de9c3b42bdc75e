"""Records of `__cluster_metadata` about topics, partitions and configurations. Kafka:
org.apache.kafka.common.metadata."""

from kshark.schema import array, int8, int32, layout, string, struct, uuid
from kshark_dissectors.enums import ConfigResourceType, LeaderRecoveryState
from kshark_dissectors.sensitive import SENSITIVE_CONFIG

TOPIC = layout(
    "TopicRecord", versions="0", flexible="0+", fields=struct(string("name"), uuid("topic_id", name_in="name"))
)

REMOVE_TOPIC = layout("RemoveTopicRecord", versions="0", flexible="0+", fields=struct(uuid("topic_id")))

PARTITION = layout(
    "PartitionRecord",
    versions="0-2",
    flexible="0+",
    fields=struct(
        int32("partition_id", default=-1),
        uuid("topic_id"),
        array("replicas", int32()),
        array("isr", int32()),
        array("removing_replicas", int32()),
        array("adding_replicas", int32()),
        int32("leader", default=-1),
        int8("leader_recovery_state", tag=0, enum=LeaderRecoveryState),
        int32("leader_epoch", default=-1),
        int32("partition_epoch", default=-1),
        array("directories", uuid(), versions="1+"),
        array("eligible_leader_replicas", int32(), versions="2+", nullable="2+", tag=1),
        array("last_known_elr", int32(), versions="2+", nullable="2+", tag=2),
    ),
)

PARTITION_CHANGE = layout(
    "PartitionChangeRecord",
    versions="0-2",
    flexible="0+",
    fields=struct(
        int32("partition_id", default=-1),
        uuid("topic_id"),
        array("isr", int32(), nullable="0+", tag=0),
        int32("leader", tag=1, default=-2, about="-1: no leader, -2 (or absent): the same as before"),
        array("replicas", int32(), nullable="0+", tag=2),
        array("removing_replicas", int32(), nullable="0+", tag=3),
        array("adding_replicas", int32(), nullable="0+", tag=4),
        int8("leader_recovery_state", tag=5, default=-1, enum=LeaderRecoveryState),
        array("directories", uuid(), versions="1+", nullable="1+", tag=8),
        array("eligible_leader_replicas", int32(), versions="2+", nullable="2+", tag=6),
        array("last_known_elr", int32(), versions="2+", nullable="2+", tag=7),
    ),
)

CLEAR_ELR = layout(
    "ClearElrRecord", versions="0", flexible="0+", fields=struct(string("topic_name", about="empty: of all topics"))
)

CONFIG = layout(
    "ConfigRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        int8("resource_type", enum=ConfigResourceType),
        string("resource_name"),
        string("name"),
        string("value", nullable="0+", about="null: back to the default", secret=SENSITIVE_CONFIG),
    ),
)
