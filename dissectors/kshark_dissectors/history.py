"""Differences between the definitions of Kafka's releases and these files that are no mistakes; tools.sync reads them.

Compared are 3.9 and the releases from 4.0 on. Tagged fields may be added to an existing version, and names may change:
neither changes the bytes that an older reader understands."""

from typing import Final

#: Messages that 4.0 removed: those between ZooKeeper-mode controllers and brokers, and a share-group record of 3.9.
DROPPED: Final = frozenset(
    {
        "LeaderAndIsrRequest",
        "LeaderAndIsrResponse",
        "StopReplicaRequest",
        "StopReplicaResponse",
        "UpdateMetadataRequest",
        "UpdateMetadataResponse",
        "ControlledShutdownRequest",
        "ControlledShutdownResponse",
        "ShareGroupPartitionMetadataKey",
        "ShareGroupPartitionMetadataValue",
    }
)

#: Messages that 3.9 did not have, or had without a definition.
ADDED: Final = frozenset(
    {
        "EndTxnMarker",
        "LegacyOffsetCommitKey",
        "LegacyOffsetCommitValue",
        "ConsumerGroupRegularExpressionKey",
        "ConsumerGroupRegularExpressionValue",
        "ShareGroupStatePartitionMetadataKey",
        "ShareGroupStatePartitionMetadataValue",
        "ShareGroupTargetAssignmentMetadataKey",
        "ShareGroupTargetAssignmentMetadataValue",
        "ShareGroupTargetAssignmentMemberKey",
        "ShareGroupTargetAssignmentMemberValue",
        "ShareGroupCurrentMemberAssignmentKey",
        "ShareGroupCurrentMemberAssignmentValue",
        "ShareSnapshotKey",
        "ShareSnapshotValue",
        "ShareUpdateKey",
        "ShareUpdateValue",
        "StreamsGroupMetadataKey",
        "StreamsGroupMetadataValue",
        "StreamsGroupMemberMetadataKey",
        "StreamsGroupMemberMetadataValue",
        "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupTargetAssignmentMetadataValue",
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMemberValue",
        "StreamsGroupCurrentMemberAssignmentKey",
        "StreamsGroupCurrentMemberAssignmentValue",
        "StreamsGroupTopologyKey",
        "StreamsGroupTopologyValue",
        "ClearElrRecord",
        "UnregisterControllerRecord",
        "DescribeShareGroupOffsetsRequest",
        "DescribeShareGroupOffsetsResponse",
        "AlterShareGroupOffsetsRequest",
        "AlterShareGroupOffsetsResponse",
        "DeleteShareGroupOffsetsRequest",
        "DeleteShareGroupOffsetsResponse",
        "StreamsGroupHeartbeatRequest",
        "StreamsGroupHeartbeatResponse",
        "StreamsGroupDescribeRequest",
        "StreamsGroupDescribeResponse",
        "StreamsGroupTopologyDescriptionUpdateRequest",
        "StreamsGroupTopologyDescriptionUpdateResponse",
        "UnregisterControllerRequest",
        "UnregisterControllerResponse",
    }
)

#: Earlier names of messages.
MESSAGE_NAMES: Final = {
    "ListConfigResourcesRequest": "ListClientMetricsResourcesRequest",
    "ListConfigResourcesResponse": "ListClientMetricsResourcesResponse",
}

#: Earlier names of fields, by message and path.
FIELD_NAMES: Final = {
    "ListConfigResourcesResponse": {
        "config_resources": ("client_metrics_resources",),
        "config_resources.resource_name": ("name",),
    },
    "TxnOffsetCommitRequest": {"generation_id_or_member_epoch": ("generation_id",)},
    "VoteRequest": {
        "topics.partitions.replica_epoch": ("candidate_epoch",),
        "topics.partitions.replica_id": ("candidate_id",),
        "topics.partitions.replica_directory_id": ("candidate_directory_id",),
    },
}

#: Tagged fields that were added to versions which 3.9 had without them.
JOINED: Final = {
    "OffsetCommitValue": ("topic_id",),
    "ConsumerGroupMetadataValue": ("metadata_hash",),
    "ConsumerGroupTargetAssignmentMetadataValue": ("assignment_timestamp",),
    "ConsumerGroupCurrentMemberAssignmentValue": (
        "assigned_partitions.assignment_epochs",
        "partitions_pending_revocation.assignment_epochs",
    ),
    "TransactionLogValue": (
        "previous_producer_id",
        "next_producer_id",
        "next_producer_epoch",
        "client_transaction_version",
    ),
    "RemoteLogSegmentMetadataRecord": ("txn_index_empty",),
    "RemoteLogSegmentMetadataSnapshotRecord": ("txn_index_empty",),
}

#: Structures that Kafka writes without a definition.
BY_HAND: Final = frozenset(
    {"ConnectMetadata", "ConnectAssignment", "StickyAssignorUserData", "CooperativeStickyAssignorUserData"}
)

#: Definitions that are not read here, each with the reason.
NOT_READ: Final = {
    "AbortedTxn": "a file beside a log segment, never on the wire",
    "ProducerSnapshot": "a file beside a log segment, never on the wire",
    "QuorumStateData": "a file of the quorum, never on the wire",
    "ControlRecordTypeSchema": "two numbers in the key of a control record, read as such",
    "SubscriptionInfoData": "user data of Kafka Streams' assignor, left as bytes",
}
