"""The protocol of classic consumer groups: what a member tells the leader in JoinGroup, and what the leader tells it in
SyncGroup.

Kafka: ConsumerProtocol, StickyAssignor, CooperativeStickyAssignor; KIP-429 (owned partitions), KIP-792 (generation),
KIP-881 (rack)."""

from kshark.places import OpaqueField, Structure
from kshark.schema import array, bytes_, int32, layout, string, struct

topic_partitions = struct(string("topic"), array("partitions", int32()))

CONSUMER_PROTOCOL_SUBSCRIPTION = layout(
    "ConsumerProtocolSubscription",
    versions="0-3",
    flexible="none",
    fields=struct(
        array("topics", string()),
        bytes_("user_data", nullable="0+", about="whatever the assignor wants to tell its leader"),
        array("owned_partitions", topic_partitions, versions="1+"),
        int32("generation_id", versions="2+", default=-1),
        string("rack_id", versions="3+", nullable="3+"),
    ),
)

CONSUMER_PROTOCOL_ASSIGNMENT = layout(
    "ConsumerProtocolAssignment",
    versions="0-3",
    flexible="none",
    fields=struct(array("assigned_partitions", topic_partitions), bytes_("user_data", nullable="0+")),
)

STICKY_USER_DATA = layout(
    "StickyAssignorUserData",
    versions="0-1",
    flexible="none",
    fields=struct(array("previous_assignment", topic_partitions), int32("generation", versions="1+", default=-1)),
)

COOPERATIVE_STICKY_USER_DATA = layout(
    "CooperativeStickyAssignorUserData",
    versions="0",
    flexible="none",
    fields=struct(int32("generation", default=-1)),
)

#: `assignor` is what the places of the subscription call the field that names the chosen or offered assignor.
SUBSCRIPTION = Structure(
    CONSUMER_PROTOCOL_SUBSCRIPTION,
    inside=(
        OpaqueField(
            "user_data",
            {
                "sticky": Structure(STICKY_USER_DATA, "length"),
                "cooperative-sticky": Structure(COOPERATIVE_STICKY_USER_DATA, "length"),
            },
            by=("assignor",),
            certain=False,
        ),
    ),
)

ASSIGNMENT = Structure(CONSUMER_PROTOCOL_ASSIGNMENT)
