"""Other names of what Kafka's protocol holds: names of the old protocol guide and of old releases, abbreviations, names
of Kafka's Java classes, and names of drafts that no release has.

Sources: A Guide To The Kafka Protocol (0.8 to 0.10); the drafts of KIP-848 and KIP-932; Kafka's documentation;
org.apache.kafka.common.errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Other(NamedTuple):
    """The meaning of a name, and the name under which `kshark explain` has its page; empty if it has none.

    `{}` in the text stands for that name.
    """

    text: str
    see: str = ""


_GUIDE: Final = "the name in the old protocol guide; today {}"
_STRUCTURE: Final = "the name of a structure in Kafka's definitions; its field is {}"
_CLASS: Final = "a Java exception that stands for {}"

#: APIs, messages and records.
_MESSAGES: Final = {
    "ConsumerMetadata": Other(
        "the name until Kafka 0.8.2, and GroupCoordinator until 0.11; today {}", "FindCoordinator"
    ),
    "GroupCoordinator": Other("the name of the request until Kafka 0.11; today {}", "FindCoordinator"),
    "Offset": Other(_GUIDE, "ListOffsets"),
    "Offsets": Other(_GUIDE, "ListOffsets"),
    "ListOffset": Other("the name in the source until Kafka 2.7; today {}", "ListOffsets"),
    "TopicMetadata": Other(_GUIDE, "Metadata"),
    "ListClientMetricsResources": Other("the name until Kafka 4.0; today {}", "ListConfigResources"),
    "ElectPreferredLeaders": Other("the name until Kafka 2.3; today {}", "ElectLeaders"),
    "AlterIsr": Other("the name until Kafka 3.1; today {}", "AlterPartition"),
    "OffsetsForLeaderEpoch": Other("the name of some clients; today {}", "OffsetForLeaderEpoch"),
    "AddVoter": Other("the name in KIP-853; today {}", "AddRaftVoter"),
    "RemoveVoter": Other("the name in KIP-853; today {}", "RemoveRaftVoter"),
    "UpdateVoter": Other("the name in KIP-853; today {}", "UpdateRaftVoter"),
    "ReadShareGroupOffsetsState": Other("the name in the draft of KIP-932; today {}", "ReadShareGroupStateSummary"),
    "ShareCheckpoint": Other("the name of the record in the draft of KIP-932; today {}", "ShareSnapshotValue"),
    "ShareSnapshot": Other(
        "a record of __share_group_state: the whole state of a share partition", "ShareSnapshotValue"
    ),
    "ShareDelta": Other("the name of the record in the draft of KIP-932; today {}", "ShareUpdateValue"),
    "ShareUpdate": Other("a record of __share_group_state: what changed since the last snapshot", "ShareUpdateValue"),
    "ConsumerGroupPrepareAssignment": Other(
        "in the draft of KIP-848, in no release: a member was to fetch what it needs to assign; today the "
        "coordinator assigns, or a classic leader does in SyncGroup"
    ),
    "ConsumerGroupInstallAssignment": Other(
        "in the draft of KIP-848, in no release: a member was to send its assignment; today the coordinator assigns, "
        "or a classic leader does in SyncGroup"
    ),
}
#: Fields.
_FIELDS: Final = {
    "HighwaterMarkOffset": Other(_GUIDE, "high_watermark"),
    "MaxWaitTime": Other(_GUIDE, "max_wait_ms"),
    "MaxNumberOfOffsets": Other(_GUIDE, "max_num_offsets"),
    "RequiredAcks": Other(_GUIDE, "acks"),
    "ConsumerGroup": Other(_GUIDE, "group_id"),
    "ConsumerGroupId": Other(_GUIDE, "group_id"),
    "ConsumerGroupGenerationId": Other(_GUIDE, "generation_id_or_member_epoch"),
    "ConsumerId": Other(_GUIDE, "member_id"),
    "CoordinatorHost": Other(_GUIDE, "coordinators.host"),
    "CoordinatorPort": Other(_GUIDE, "coordinators.port"),
    "CoordinatorId": Other(_GUIDE, "coordinators.node_id"),
    "GroupProtocol": Other(_GUIDE, "protocol_name"),
    "ProtocolMetadata": Other(_GUIDE, "protocols.metadata"),
    "GroupAssignment": Other(_GUIDE, "assignments"),
    "MemberAssignment": Other(_GUIDE, "assignments.assignment"),
    "MemberMetadata": Other(_GUIDE, "members.metadata"),
    "MessageSet": Other("the name of records before Kafka 0.11 (magic 0 and 1); today {}", "records"),
    "GroupProtocols": Other(_GUIDE, "protocols"),
    "AssignmentStrategy": Other(_GUIDE, "protocols.name"),
    "TopicErrorCode": Other(_GUIDE, "topics.error_code"),
    "PartitionErrorCode": Other(_GUIDE, "topics.partitions.error_code"),
    "AcknowledgementBatch": Other(_STRUCTURE, "acknowledgement_batches"),
    "StateBatch": Other(_STRUCTURE, "state_batches"),
    "NodeEndpoint": Other(_STRUCTURE, "node_endpoints"),
    "LeaderIdAndEpoch": Other(_STRUCTURE, "current_leader"),
    "AbortedTransaction": Other(_STRUCTURE, "aborted_transactions"),
    "ForgottenTopic": Other(_STRUCTURE, "forgotten_topics_data"),
    "ConsumerGroupState": Other("the name of the state in Java; in messages {}", "group_state"),
    "ShareGroupState": Other("the name of the state in Java; in messages {}", "group_state"),
    "AssignedTopicPartitions": Other("the name in the drafts of KIP-848 and KIP-932; today {}", "topic_partitions"),
    "AssignmentPartitions": Other("the name in the draft of KIP-848; today {}", "topic_partitions"),
    "MetadataBytes": Other("in the draft of KIP-848, in no release: bytes of a client's own assignor"),
    "AssignmentMetadataBytes": Other("in the draft of KIP-848, in no release: bytes of a client's own assignor"),
    "MetadataVersion": Other(
        "in the draft of KIP-848, in no release: version of the bytes of a client's own assignor; today the feature "
        "metadata.version",
    ),
    "AssignmentMetadataVersion": Other(
        "in the draft of KIP-848, in no release: version of the bytes of a client's own assignor"
    ),
    "MessageSetSize": Other("the length before records, before Kafka 0.11; today {}", "records"),
    "ThrottleTime": Other(_GUIDE, "throttle_time_ms"),
    "RetentionTime": Other(_GUIDE, "retention_time_ms"),
    "group.instance.id": Other("the setting of a static member (KIP-345); in messages {}", "group_instance_id"),
    "AcquisitionTimeoutMs": Other(
        "in a draft of KIP-932, in no release: the broker alone decides, and answers with {}",
        "acquisition_lock_timeout_ms",
    ),
    "GapOffsets": Other("in a draft of KIP-932, in no release: a gap is type 0 of {}", "acknowledge_types"),
    "AcknowledgeType": Other("one for each record, or one for a whole batch, in {}", "acknowledge_types"),
    "CheckpointEpoch": Other("the name in the draft of KIP-932; today {}", "snapshot_epoch"),
    "DeltaIndex": Other(
        "in a draft of KIP-932, in no release: the records of a share partition follow each other in the log"
    ),
}
#: Abbreviations and terms; some are also the name of a field.
TERMS: Final[Mapping[str, Other]] = {
    "SPSO": Other(
        "share-partition start offset: the first offset that a share group may still deliver", "start_offset"
    ),
    "SPEO": Other(
        "share-partition end offset: the next offset that a share group takes from the log (KIP-932). No message has "
        "it, and it is not stored: the leader keeps it in memory. kshark deliveries shows it as end_offset"
    ),
    "LSO": Other(
        "last stable offset: the first offset of a transaction that is still open, up to which read_committed reads; "
        "some texts mean the log start offset",
        "last_stable_offset",
    ),
    "HW": Other("high watermark: the offset up to which all replicas in sync have the records", "high_watermark"),
    "HWM": Other("high watermark: the offset up to which all replicas in sync have the records", "high_watermark"),
    "LEO": Other(
        "log end offset: the offset that the next record of a replica gets; fetches of a follower show it",
        "fetch_offset",
    ),
    "ISR": Other("in-sync replicas: those that have caught up with the leader, and count for acks -1", "isr_nodes"),
    "ELR": Other(
        "eligible leader replicas: they have every committed record, though not in sync (KIP-966)",
        "eligible_leader_replicas",
    ),
    "AR": Other("assigned replicas: all replicas of a partition, the preferred leader first", "replica_nodes"),
    "OSR": Other("out-of-sync replicas: replicas without those in sync", "replica_nodes"),
    "PID": Other(
        "producer id: by it, the epoch and a sequence number a broker notices repeated batches", "producer_id"
    ),
    "EOS": Other("exactly-once semantics: idempotent producers and transactions", "KIP-98"),
    "2PC": Other("two-phase commit of transactions with another system", "KIP-939"),
    "TV2": Other("transaction.version 2: each transaction has its own producer epoch", "KIP-890"),
    "DLQ": Other("dead-letter queue: the topic to which a share group writes records that it gives up", "KIP-1191"),
    "KRaft": Other("the metadata quorum that replaced ZooKeeper", "KIP-500"),
    "SASL": Other(
        "authentication before the first ordinary request: SaslHandshake, then SaslAuthenticate", "SaslHandshake"
    ),
    "SCRAM": Other("a SASL mechanism by which passwords are proved, not sent", "KIP-84"),
    "CorrelationId": Other("number of a request on its connection, which the answer repeats", "kafka.correlation_id"),
    "ApiVersion": Other("version of the API in which a request is laid out, and its answer", "kafka.api_version"),
    "MagicByte": Other(
        "version of a message or a record batch: 0 and 1 are messages, 2 is a batch (KIP-98)", "records"
    ),
    "MessageSize": Other("length of a request or an answer, which stands before it", "kafka.len"),
    "share session": Other(
        "what a broker remembers of a member's share fetches: its partitions and its epoch", "share_session_epoch"
    ),
    "fetch session": Other("what a broker remembers of a client's fetches: its partitions and its epoch", "KIP-227"),
    "share group": Other("consumers that share partitions as a queue", "KIP-932"),
    "tagged field": Other("an optional field with a number, which older readers skip", "KIP-482"),
    "static member": Other(
        "a member with a group.instance.id, which keeps its partitions when it comes back", "KIP-345"
    ),
}
#: Errors.
_ERRORS: Final = {
    "NoError": Other(_GUIDE, "NONE"),
    "Unknown": Other(_GUIDE, "UNKNOWN_SERVER_ERROR"),
    "InvalidMessage": Other(_GUIDE, "CORRUPT_MESSAGE"),
    "UnknownTopic": Other(_GUIDE, "UNKNOWN_TOPIC_OR_PARTITION"),
    "UnknownConsumerId": Other(_GUIDE, "UNKNOWN_MEMBER_ID"),
    "AuthorizationFailed": Other("the name until Kafka 0.9; today {}", "TOPIC_AUTHORIZATION_FAILED"),
    "InvalidMessageSize": Other(_GUIDE, "INVALID_FETCH_SIZE"),
    "NotLeaderForPartition": Other("the name until Kafka 2.5; today {}", "NOT_LEADER_OR_FOLLOWER"),
    "MessageSizeTooLarge": Other(_GUIDE, "MESSAGE_TOO_LARGE"),
    "StaleControllerEpochCode": Other(_GUIDE, "STALE_CONTROLLER_EPOCH"),
    "GroupLoadInProgress": Other("the name until Kafka 0.11; today {}", "COORDINATOR_LOAD_IN_PROGRESS"),
    "OffsetsLoadInProgress": Other(_GUIDE, "COORDINATOR_LOAD_IN_PROGRESS"),
    "GroupCoordinatorNotAvailable": Other("the name until Kafka 0.11; today {}", "COORDINATOR_NOT_AVAILABLE"),
    "ConsumerCoordinatorNotAvailable": Other(_GUIDE, "COORDINATOR_NOT_AVAILABLE"),
    "NotCoordinatorForGroup": Other("the name until Kafka 0.11; today {}", "NOT_COORDINATOR"),
    "NotCoordinatorForConsumer": Other(_GUIDE, "NOT_COORDINATOR"),
    "InvalidTopic": Other(_GUIDE, "INVALID_TOPIC_EXCEPTION"),
    "InvalidTxnTimeout": Other(_CLASS, "INVALID_TRANSACTION_TIMEOUT"),
    "InvalidPidMapping": Other(_CLASS, "INVALID_PRODUCER_ID_MAPPING"),
    "InvalidConfiguration": Other(_CLASS, "INVALID_CONFIG"),
    "UnknownServer": Other(_CLASS, "UNKNOWN_SERVER_ERROR"),
    "CorruptRecord": Other(_CLASS, "CORRUPT_MESSAGE"),
    "Timeout": Other(_CLASS, "REQUEST_TIMED_OUT"),
    "RecordTooLarge": Other(_CLASS, "MESSAGE_TOO_LARGE"),
    "ControllerMoved": Other(_CLASS, "STALE_CONTROLLER_EPOCH"),
    "RecordBatchTooLarge": Other(_CLASS, "RECORD_LIST_TOO_LARGE"),
    "TopicExists": Other(_CLASS, "TOPIC_ALREADY_EXISTS"),
    "OutOfOrderSequence": Other(_CLASS, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    "DuplicateSequence": Other(_CLASS, "DUPLICATE_SEQUENCE_NUMBER"),
    "GroupNotEmpty": Other(_CLASS, "NON_EMPTY_GROUP"),
    "TopicAuthorization": Other(_CLASS, "TOPIC_AUTHORIZATION_FAILED"),
    "GroupAuthorization": Other(_CLASS, "GROUP_AUTHORIZATION_FAILED"),
    "ClusterAuthorization": Other(_CLASS, "CLUSTER_AUTHORIZATION_FAILED"),
    "TransactionalIdAuthorization": Other(_CLASS, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    "DelegationTokenAuthorization": Other(_CLASS, "DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
    "SaslAuthentication": Other(_CLASS, "SASL_AUTHENTICATION_FAILED"),
    "UnsupportedByAuthentication": Other(_CLASS, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
    "DelegationTokenDisabled": Other(_CLASS, "DELEGATION_TOKEN_AUTH_DISABLED"),
    "InvalidOffset": Other("a Java exception that stands for {}, among others", "OFFSET_OUT_OF_RANGE"),
    "FencedGroupEpoch": Other(
        "an error in the draft of KIP-848, in no release; the epochs of members are checked instead: "
        "FENCED_MEMBER_EPOCH (110), STALE_MEMBER_EPOCH (113)"
    ),
    "InvalidAssignment": Other(
        "an error in the draft of KIP-848, in no release: members do not send assignments to the coordinator"
    ),
}

#: Names that are not in use any more, or elsewhere.
FORMER_NAMES: Final[Mapping[str, Other]] = {**_MESSAGES, **_FIELDS, **_ERRORS}
