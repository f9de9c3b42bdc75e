"""Numbers with names in stored records only. Source: the Kafka class that each docstring names."""

from enum import IntEnum


class MemberState(IntEnum):
    """How far a consumer's or share consumer's assignment is towards its target. Source:
    coordinator.group.modern.MemberState."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class StreamsMemberState(IntEnum):
    """The same of a member of a Kafka Streams group; counts from 1. Source: coordinator.group.streams.MemberState."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class TransactionState(IntEnum):
    """Where a transaction stands (KIP-98, KIP-890). Source: coordinator.transaction.TransactionState."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


class FencingChange(IntEnum):
    """True if a change fences a broker. Source: metadata.BrokerRegistrationFencingChange."""

    UNFENCE = -1
    NONE = 0
    FENCE = 1


class ControlledShutdownChange(IntEnum):
    """True if a change begins a broker's controlled shutdown. Source:
    metadata.BrokerRegistrationInControlledShutdownChange."""

    NONE = 0
    IN_CONTROLLED_SHUTDOWN = 1


class ZkMigrationState(IntEnum):
    """How far a cluster is on its way from ZooKeeper to KRaft (KIP-866). Source:
    metadata.migration.ZkMigrationState."""

    NONE = 0
    MIGRATION = 1
    PRE_MIGRATION = 2
    POST_MIGRATION = 3


class RemoteSegmentState(IntEnum):
    """Life of a segment in remote storage (KIP-405). Source: server.log.remote.storage.RemoteLogSegmentState."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    """How far a partition's deletion in remote storage is (KIP-405). Source:
    server.log.remote.storage.RemotePartitionDeleteState."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2
