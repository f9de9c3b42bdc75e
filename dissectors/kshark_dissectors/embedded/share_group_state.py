"""Records of `__share_group_state`: in-flight records of share partitions as their coordinator keeps them (KIP-932,
KIP-1226).

Kafka: ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue. A snapshot without value deletes the
share partition."""

from kshark.places import Log, Numbers, Structure
from kshark.schema import array, int32, int64, layout, string, struct, uint16, uuid
from kshark_dissectors.structs import state_batch

share_partition = struct(string("group_id"), uuid("topic_id"), int32("partition"))

SHARE_SNAPSHOT_KEY = layout("ShareSnapshotKey", versions="0", flexible="none", fields=share_partition)

SHARE_SNAPSHOT_VALUE = layout(
    "ShareSnapshotValue",
    versions="0",
    flexible="0+",
    fields=struct(
        int32("snapshot_epoch"),
        int32("state_epoch"),
        int32("leader_epoch"),
        int64("start_offset"),
        int32("delivery_complete_count", tag=0, default=-1),
        int64("create_timestamp"),
        int64("write_timestamp"),
        array("state_batches", state_batch),
    ),
    older={  # 4.0
        0: struct(
            uint16("snapshot_epoch"),
            int32("state_epoch"),
            int32("leader_epoch"),
            int64("start_offset"),
            array("state_batches", state_batch),
        )
    },
)

SHARE_UPDATE_KEY = layout("ShareUpdateKey", versions="0", flexible="none", fields=share_partition)

SHARE_UPDATE_VALUE = layout(
    "ShareUpdateValue",
    versions="0",
    flexible="0+",
    fields=struct(
        int32("snapshot_epoch"),
        int32("leader_epoch"),
        int64("start_offset"),
        int32("delivery_complete_count", tag=0, default=-1),
        array("state_batches", state_batch),
    ),
    older={  # 4.0
        0: struct(
            uint16("snapshot_epoch"),
            int32("leader_epoch"),
            int64("start_offset"),
            array("state_batches", state_batch),
        )
    },
)

SHARE_GROUP_STATE = Log(
    {
        0: (SHARE_SNAPSHOT_KEY, Structure(SHARE_SNAPSHOT_VALUE)),
        1: (SHARE_UPDATE_KEY, Structure(SHARE_UPDATE_VALUE)),
    },
    key=Numbers(("type",)),
)
