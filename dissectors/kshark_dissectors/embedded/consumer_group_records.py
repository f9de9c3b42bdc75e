"""Records of `__consumer_offsets` about consumer groups of KIP-848, types 3 to 8 and 16. Kafka:
GroupCoordinatorRecordHelpers."""

from typing import Final

from kshark.places import OpaqueField, Structure
from kshark.schema import array, bytes_, int8, int32, int64, layout, string, struct, uuid
from kshark_dissectors.embedded import consumer_protocol
from kshark_dissectors.embedded.states import MemberState

group_key = struct(string("group_id"))
member_key = struct(string("group_id"), string("member_id"))

METADATA_KEY = layout("ConsumerGroupMetadataKey", versions="0", flexible="none", fields=group_key)

METADATA_VALUE = layout(
    "ConsumerGroupMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(int32("epoch"), int64("metadata_hash", tag=0, about="of the topics subscribed to (KIP-1101)")),
)

PARTITION_METADATA_KEY = layout("ConsumerGroupPartitionMetadataKey", versions="0", flexible="none", fields=group_key)

PARTITION_METADATA_VALUE = layout(
    "ConsumerGroupPartitionMetadataValue",
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
)

MEMBER_METADATA_KEY = layout("ConsumerGroupMemberMetadataKey", versions="0", flexible="none", fields=member_key)

MEMBER_METADATA_VALUE = layout(
    "ConsumerGroupMemberMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(
        string("instance_id", nullable="0+"),
        string("rack_id", nullable="0+"),
        string("client_id"),
        string("client_host"),
        array("subscribed_topic_names", string()),
        string("subscribed_topic_regex", nullable="0+"),
        int32("rebalance_timeout_ms", default=-1),
        string("server_assignor", nullable="0+"),
        struct(
            int32("session_timeout_ms"),
            array("supported_protocols", struct(string("name"), bytes_("metadata"))),
            name="classic_member_metadata",
            nullable="0+",
            tag=0,
            about="of a member that still speaks the classic protocol",
        ),
    ),
)

TARGET_METADATA_KEY = layout(
    "ConsumerGroupTargetAssignmentMetadataKey", versions="0", flexible="none", fields=group_key
)

TARGET_METADATA_VALUE = layout(
    "ConsumerGroupTargetAssignmentMetadataValue",
    versions="0",
    flexible="0+",
    fields=struct(int32("assignment_epoch"), int64("assignment_timestamp", tag=0)),
)

TARGET_MEMBER_KEY = layout("ConsumerGroupTargetAssignmentMemberKey", versions="0", flexible="none", fields=member_key)

TARGET_MEMBER_VALUE = layout(
    "ConsumerGroupTargetAssignmentMemberValue",
    versions="0",
    flexible="0+",
    fields=struct(array("topic_partitions", struct(uuid("topic_id"), array("partitions", int32())))),
)

assigned = struct(
    uuid("topic_id"),
    array("partitions", int32()),
    array("assignment_epochs", int32(), nullable="0+", tag=0),
)

CURRENT_ASSIGNMENT_KEY = layout(
    "ConsumerGroupCurrentMemberAssignmentKey", versions="0", flexible="none", fields=member_key
)

CURRENT_ASSIGNMENT_VALUE = layout(
    "ConsumerGroupCurrentMemberAssignmentValue",
    versions="0",
    flexible="0+",
    fields=struct(
        int32("member_epoch"),
        int32("previous_member_epoch"),
        int8("state", enum=MemberState),
        array("assigned_partitions", assigned),
        array("partitions_pending_revocation", assigned),
    ),
)

REGULAR_EXPRESSION_KEY = layout(
    "ConsumerGroupRegularExpressionKey",
    versions="0",
    flexible="none",
    fields=struct(string("group_id"), string("regular_expression")),
)

REGULAR_EXPRESSION_VALUE = layout(
    "ConsumerGroupRegularExpressionValue",
    versions="0",
    flexible="0+",
    fields=struct(array("topics", string()), int64("version"), int64("timestamp")),
)

MEMBER_METADATA = Structure(
    MEMBER_METADATA_VALUE,
    inside=(
        OpaqueField(
            "classic_member_metadata.supported_protocols.metadata",
            {"": consumer_protocol.SUBSCRIPTION},
            call={"assignor": "name"},
        ),
    ),
)

TYPES: Final = {
    3: (METADATA_KEY, Structure(METADATA_VALUE)),
    4: (PARTITION_METADATA_KEY, Structure(PARTITION_METADATA_VALUE)),
    5: (MEMBER_METADATA_KEY, MEMBER_METADATA),
    6: (TARGET_METADATA_KEY, Structure(TARGET_METADATA_VALUE)),
    7: (TARGET_MEMBER_KEY, Structure(TARGET_MEMBER_VALUE)),
    8: (CURRENT_ASSIGNMENT_KEY, Structure(CURRENT_ASSIGNMENT_VALUE)),
    16: (REGULAR_EXPRESSION_KEY, Structure(REGULAR_EXPRESSION_VALUE)),
}
