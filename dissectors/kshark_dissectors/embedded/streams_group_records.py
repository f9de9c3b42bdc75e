"""Records of `__consumer_offsets` about Kafka Streams groups (KIP-1071), types 17 and 19 to 23. Kafka:
StreamsCoordinatorRecordHelpers."""

from typing import Final

from kshark.places import Structure
from kshark.schema import array, int8, int16, int32, int64, layout, string, struct, uint16
from kshark_dissectors.embedded.states import StreamsMemberState

group_key = struct(string("group_id"))
member_key = struct(string("group_id"), string("member_id"))
key_value = struct(string("key"), string("value"))

METADATA_KEY = layout("StreamsGroupMetadataKey", versions="0", flexible="none", fields=group_key)

METADATA_VALUE = layout(
    "StreamsGroupMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(
        int32("epoch"),
        int64("metadata_hash", about="of the topology's topics (KIP-1101)"),
        int32("validated_topology_epoch", tag=0, default=-1),
        array("last_assignment_configs", key_value, nullable="0+", tag=1),
        int32("stored_description_topology_epoch", tag=2, default=-1),
        int32("failed_description_topology_epoch", tag=3, default=-1),
    ),
)

MEMBER_METADATA_KEY = layout("StreamsGroupMemberMetadataKey", versions="0", flexible="none", fields=member_key)

MEMBER_METADATA_VALUE = layout(
    "StreamsGroupMemberMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(
        string("instance_id", nullable="0+"),
        string("rack_id", nullable="0+"),
        string("client_id"),
        string("client_host"),
        int32("rebalance_timeout_ms", default=-1),
        int32("topology_epoch"),
        string("process_id"),
        struct(string("host"), uint16("port"), name="user_endpoint", nullable="0+"),
        array("client_tags", key_value),
    ),
)

TARGET_METADATA_KEY = layout("StreamsGroupTargetAssignmentMetadataKey", versions="0", flexible="none", fields=group_key)

TARGET_METADATA_VALUE = layout(
    "StreamsGroupTargetAssignmentMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(int32("assignment_epoch"), int64("assignment_timestamp", tag=0)),
)

task_ids = struct(string("subtopology_id"), array("partitions", int32()))

TARGET_MEMBER_KEY = layout("StreamsGroupTargetAssignmentMemberKey", versions="0", flexible="none", fields=member_key)

TARGET_MEMBER_VALUE = layout(
    "StreamsGroupTargetAssignmentMemberValue",
    versions="0",
    flexible="0+",
    fields=struct(
        array("active_tasks", task_ids),
        array("standby_tasks", task_ids),
        array("warmup_tasks", task_ids),
    ),
)

assigned_tasks = struct(
    string("subtopology_id"),
    array("partitions", int32()),
    array("assignment_epochs", int32(), nullable="0+", tag=0),
)

CURRENT_ASSIGNMENT_KEY = layout(
    "StreamsGroupCurrentMemberAssignmentKey", versions="0", flexible="none", fields=member_key
)

CURRENT_ASSIGNMENT_VALUE = layout(
    "StreamsGroupCurrentMemberAssignmentValue",
    versions="0",
    flexible="0+",
    fields=struct(
        int32("member_epoch"),
        int32("previous_member_epoch"),
        int8("state", enum=StreamsMemberState),
        array("active_tasks", assigned_tasks),
        array("standby_tasks", assigned_tasks),
        array("warmup_tasks", assigned_tasks),
        array("active_tasks_pending_revocation", assigned_tasks),
        array("standby_tasks_pending_revocation", assigned_tasks),
        array("warmup_tasks_pending_revocation", assigned_tasks),
    ),
)

topic = struct(
    string("name"),
    int32("partitions"),
    int16("replication_factor"),
    array("topic_configs", key_value),
)

subtopology = struct(
    string("subtopology_id"),
    array("source_topics", string()),
    array("source_topic_regex", string()),
    array("state_changelog_topics", topic),
    array("repartition_sink_topics", string()),
    array("repartition_source_topics", topic),
    array(
        "copartition_groups",
        struct(
            array("source_topics", int16(), about="positions in the subtopology's source_topics"),
            array("source_topic_regex", int16()),
            array("repartition_source_topics", int16()),
        ),
    ),
)

TOPOLOGY_KEY = layout("StreamsGroupTopologyKey", versions="0", flexible="none", fields=group_key)

TOPOLOGY_VALUE = layout(
    "StreamsGroupTopologyValue",
    versions="0",
    flexible="0+",
    fields=struct(int32("epoch"), array("subtopologies", subtopology)),
)

TYPES: Final = {
    17: (METADATA_KEY, Structure(METADATA_VALUE)),
    19: (MEMBER_METADATA_KEY, Structure(MEMBER_METADATA_VALUE)),
    20: (TARGET_METADATA_KEY, Structure(TARGET_METADATA_VALUE)),
    21: (TARGET_MEMBER_KEY, Structure(TARGET_MEMBER_VALUE)),
    22: (CURRENT_ASSIGNMENT_KEY, Structure(CURRENT_ASSIGNMENT_VALUE)),
    23: (TOPOLOGY_KEY, Structure(TOPOLOGY_VALUE)),
}
