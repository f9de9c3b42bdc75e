"""Records of `__consumer_offsets` about share groups (KIP-932), types 9 to 15. Kafka: GroupCoordinatorRecordHelpers."""

from typing import Final

from kshark.places import Structure
from kshark.schema import array, int8, int32, int64, layout, string, struct, uuid
from kshark_dissectors.embedded.states import MemberState

group_key = struct(string("group_id"))
member_key = struct(string("group_id"), string("member_id"))

#: Only 3.9 and 4.0 wrote type 9; KIP-932 was not released then, and its layout changed in between.
PARTITION_METADATA_KEY = layout("ShareGroupPartitionMetadataKey", versions="0", flexible="none", fields=group_key)

topic_partitions = struct(uuid("topic_id", name_in="topic_name"), string("topic_name"), array("partitions", int32()))
topic = struct(uuid("topic_id", name_in="topic_name"), string("topic_name"))

PARTITION_METADATA_VALUE = layout(
    "ShareGroupPartitionMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(
        array(
            "topics",
            struct(
                uuid("topic_id", name_in="topic_name"),
                string("topic_name"),
                int32("num_partitions"),
                array("partition_metadata", struct(int32("partition"), array("racks", string()))),
            ),
        )
    ),
    older={0: struct(array("initialized_topics", topic_partitions), array("deleting_topics", topic))},  # 3.9
)

MEMBER_METADATA_KEY = layout("ShareGroupMemberMetadataKey", versions="0", flexible="none", fields=member_key)

MEMBER_METADATA_VALUE = layout(
    "ShareGroupMemberMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(
        string("rack_id", nullable="0+"),
        string("client_id"),
        string("client_host"),
        array("subscribed_topic_names", string()),
    ),
)

METADATA_KEY = layout("ShareGroupMetadataKey", versions="0", flexible="none", fields=group_key)

METADATA_VALUE = layout(
    "ShareGroupMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(int32("epoch"), int64("metadata_hash", about="of the topics subscribed to (KIP-1101)")),
    older={0: struct(int32("epoch"))},  # 3.9 and 4.0
)

TARGET_METADATA_KEY = layout("ShareGroupTargetAssignmentMetadataKey", versions="0", flexible="none", fields=group_key)

TARGET_METADATA_VALUE = layout(
    "ShareGroupTargetAssignmentMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(int32("assignment_epoch"), int64("assignment_timestamp", tag=0)),
)

TARGET_MEMBER_KEY = layout("ShareGroupTargetAssignmentMemberKey", versions="0", flexible="none", fields=member_key)

TARGET_MEMBER_VALUE = layout(
    "ShareGroupTargetAssignmentMemberValue",
    versions="0",
    flexible="0+",
    fields=struct(array("topic_partitions", struct(uuid("topic_id"), array("partitions", int32())))),
)

CURRENT_ASSIGNMENT_KEY = layout(
    "ShareGroupCurrentMemberAssignmentKey", versions="0", flexible="none", fields=member_key
)

CURRENT_ASSIGNMENT_VALUE = layout(
    "ShareGroupCurrentMemberAssignmentValue",
    versions="0",
    flexible="0+",
    fields=struct(
        int32("member_epoch"),
        int32("previous_member_epoch"),
        int8("state", enum=MemberState),
        array("assigned_partitions", struct(uuid("topic_id"), array("partitions", int32()))),
    ),
)

STATE_PARTITION_METADATA_KEY = layout(
    "ShareGroupStatePartitionMetadataKey", versions="0", flexible="none", fields=group_key
)

STATE_PARTITION_METADATA_VALUE = layout(
    "ShareGroupStatePartitionMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(
        array("initializing_topics", topic_partitions),
        array("initialized_topics", topic_partitions),
        array("deleting_topics", topic),
    ),
    older={0: struct(array("initialized_topics", topic_partitions), array("deleting_topics", topic))},  # 4.0
)

TYPES: Final = {
    9: (PARTITION_METADATA_KEY, Structure(PARTITION_METADATA_VALUE)),
    10: (MEMBER_METADATA_KEY, Structure(MEMBER_METADATA_VALUE)),
    11: (METADATA_KEY, Structure(METADATA_VALUE)),
    12: (TARGET_METADATA_KEY, Structure(TARGET_METADATA_VALUE)),
    13: (TARGET_MEMBER_KEY, Structure(TARGET_MEMBER_VALUE)),
    14: (CURRENT_ASSIGNMENT_KEY, Structure(CURRENT_ASSIGNMENT_VALUE)),
    15: (STATE_PARTITION_METADATA_KEY, Structure(STATE_PARTITION_METADATA_VALUE)),
}
