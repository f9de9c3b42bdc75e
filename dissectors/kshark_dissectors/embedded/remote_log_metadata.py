"""Records of `__remote_log_metadata`: segments in remote storage, and where they stand (KIP-405). Kafka:
RemoteLogMetadataSerde."""

from kshark.places import Log, Numbers, Structure
from kshark.schema import array, boolean, bytes_, int8, int32, int64, layout, named, string, struct, uuid
from kshark_dissectors.embedded.states import RemotePartitionDeleteState, RemoteSegmentState

topic_id_partition = struct(string("name"), uuid("id", name_in="name"), int32("partition"))
segment_id = struct(named("topic_id_partition", topic_id_partition), uuid("id"))
leader_epoch = struct(int32("leader_epoch"), int64("offset"))

SEGMENT = layout(
    "RemoteLogSegmentMetadataRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        named("remote_log_segment_id", segment_id),
        int64("start_offset"),
        int64("end_offset"),
        int32("broker_id"),
        int64("max_timestamp_ms"),
        int64("event_timestamp_ms"),
        array("segment_leader_epochs", leader_epoch),
        int32("segment_size_in_bytes"),
        bytes_("custom_metadata", nullable="0+"),
        int8("remote_log_segment_state", enum=RemoteSegmentState),
        boolean("txn_index_empty", tag=0),
    ),
)

SEGMENT_UPDATE = layout(
    "RemoteLogSegmentMetadataUpdateRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        named("remote_log_segment_id", segment_id),
        int32("broker_id"),
        int64("event_timestamp_ms"),
        bytes_("custom_metadata", nullable="0+"),
        int8("remote_log_segment_state", enum=RemoteSegmentState),
    ),
)

PARTITION_DELETE = layout(
    "RemotePartitionDeleteMetadataRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        named("topic_id_partition", topic_id_partition),
        int32("broker_id"),
        int64("event_timestamp_ms"),
        int8("remote_partition_delete_state", enum=RemotePartitionDeleteState),
    ),
)

SEGMENT_SNAPSHOT = layout(
    "RemoteLogSegmentMetadataSnapshotRecord",
    versions="0",
    flexible="0+",
    fields=struct(
        uuid("segment_id"),
        int64("start_offset"),
        int64("end_offset"),
        int32("broker_id"),
        int64("max_timestamp_ms"),
        int64("event_timestamp_ms"),
        array("segment_leader_epochs", leader_epoch),
        int32("segment_size_in_bytes"),
        bytes_("custom_metadata", nullable="0+"),
        int8("remote_log_segment_state", enum=RemoteSegmentState),
        boolean("txn_index_empty", tag=0),
    ),
)

REMOTE_LOG_METADATA = Log(
    {
        0: (None, Structure(SEGMENT, "numbers")),
        1: (None, Structure(SEGMENT_UPDATE, "numbers")),
        2: (None, Structure(PARTITION_DELETE, "numbers")),
        3: (None, Structure(SEGMENT_SNAPSHOT, "numbers")),
    },
    value=Numbers(("frame_version", "type", "version"), "uvarint"),
)
