"""Records of `__consumer_offsets`: committed offsets, and groups of all kinds, by the type that begins the key.

Until 4.0 Kafka calls the type the key's version. Type 18 was never used. Kafka: GroupCoordinatorRecordSerde,
CoordinatorRecordType."""

from kshark.places import Log, Numbers, OpaqueField, Structure
from kshark.schema import array, bytes_, int32, int64, layout, string, struct, uuid
from kshark_dissectors.embedded import consumer_group_records as consumer
from kshark_dissectors.embedded import share_group_records as share
from kshark_dissectors.embedded import streams_group_records as streams
from kshark_dissectors.embedded.group_protocols import ASSIGNMENTS, SUBSCRIPTIONS

offset_key = struct(string("group"), string("topic"), int32("partition"))

LEGACY_OFFSET_COMMIT_KEY = layout("LegacyOffsetCommitKey", versions="0", flexible="none", fields=offset_key)

LEGACY_OFFSET_COMMIT_VALUE = layout(
    "LegacyOffsetCommitValue",
    versions="0",
    flexible="none",
    fields=struct(int64("offset"), string("metadata"), int64("commit_timestamp")),
)

OFFSET_COMMIT_KEY = layout("OffsetCommitKey", versions="0", flexible="none", fields=offset_key)

OFFSET_COMMIT_VALUE = layout(
    "OffsetCommitValue",
    versions="0-4",
    flexible="4+",
    fields=struct(
        int64("offset"),
        int32("leader_epoch", versions="3+", default=-1),
        string("metadata"),
        int64("commit_timestamp"),
        int64("expire_timestamp", versions="1", default=-1),
        uuid("topic_id", versions="4+", tag=0),
    ),
)

GROUP_METADATA_KEY = layout("GroupMetadataKey", versions="0", flexible="none", fields=struct(string("group")))

member = struct(
    string("member_id"),
    string("group_instance_id", versions="3+", nullable="3+"),
    string("client_id"),
    string("client_host"),
    int32("rebalance_timeout", versions="1+", default=-1),
    int32("session_timeout"),
    bytes_("subscription"),
    bytes_("assignment"),
)

GROUP_METADATA_VALUE = layout(
    "GroupMetadataValue",
    versions="0-4",
    flexible="4+",
    fields=struct(
        string("protocol_type"),
        int32("generation"),
        string("protocol", nullable="0+"),
        string("leader", nullable="0+"),
        int64("current_state_timestamp", versions="2+", default=-1),
        array("members", member),
    ),
)

GROUP_METADATA = Structure(
    GROUP_METADATA_VALUE,
    inside=(
        OpaqueField("members.subscription", SUBSCRIPTIONS, by=("protocol_type",), call={"assignor": "protocol"}),
        OpaqueField("members.assignment", ASSIGNMENTS, by=("protocol_type",)),
    ),
)

CONSUMER_OFFSETS = Log(
    {
        0: (LEGACY_OFFSET_COMMIT_KEY, Structure(LEGACY_OFFSET_COMMIT_VALUE)),
        1: (OFFSET_COMMIT_KEY, Structure(OFFSET_COMMIT_VALUE)),
        2: (GROUP_METADATA_KEY, GROUP_METADATA),
        **consumer.TYPES,
        **share.TYPES,
        **streams.TYPES,
    },
    key=Numbers(("type",)),
)
