"""Kafka Improvement Proposals that changed what is on the wire: their subject, the releases, and what each brought.

APIs that a proposal brought as a whole name it themselves (`kip` in their file). Sources: the proposals, the version
notes in Kafka's message definitions, Kafka's upgrade notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kshark_dissectors.enums import ApiKey as A
from kshark_dissectors.enums import ErrorCode as E


class Kip(NamedTuple):
    """A proposal.

    `releases`: Kafka's release, and what it was there. `changes`: of APIs that existed before, the versions that it
    brought, and their new fields, separated by spaces. `structures`: structures inside bytes. `see`: proposals that
    changed it later.
    """

    title: str
    releases: tuple[tuple[str, str], ...]
    changes: Mapping[int, tuple[str, str]] = {}
    errors: tuple[E, ...] = ()
    structures: tuple[str, ...] = ()
    see: tuple[int, ...] = ()


_NEW: Final = ""
_EARLY: Final = "early access"
_PREVIEW: Final = "preview"
_READY: Final = "ready for production"

KIPS: Final[Mapping[int, Kip]] = {
    4: Kip("Topics are created and deleted by requests to a broker, not in ZooKeeper", (("0.10.1", _NEW),)),
    11: Kip(
        "Access control lists: an operation on a resource needs a right",
        (("0.9", _NEW),),
        errors=(E.TOPIC_AUTHORIZATION_FAILED, E.GROUP_AUTHORIZATION_FAILED, E.CLUSTER_AUTHORIZATION_FAILED),
        see=(140, 290),
    ),
    13: Kip(
        "Quotas: a broker delays the answers of clients that produce or fetch too fast",
        (("0.9", _NEW),),
        {A.PRODUCE: ("1+", "throttle_time_ms"), A.FETCH: ("1+", "throttle_time_ms")},
        see=(124, 219),
    ),
    31: Kip(
        "Offsets inside a compressed message set count from its first one, so that a broker need not compress again",
        (("0.10.0", _NEW),),
        {A.PRODUCE: ("2+", ""), A.FETCH: ("2+", "")},
    ),
    32: Kip(
        "Messages have a timestamp: of their producer, or of the append",
        (("0.10.0", _NEW),),
        {A.PRODUCE: ("2+", "log_append_time_ms"), A.FETCH: ("2+", "")},
        (E.INVALID_TIMESTAMP,),
    ),
    35: Kip("A client asks a broker which versions of which APIs it accepts", (("0.10.0", _NEW),)),
    43: Kip(
        "SASL mechanisms besides Kerberos: a handshake names the mechanism",
        (("0.10.0", _NEW),),
        errors=(E.UNSUPPORTED_SASL_MECHANISM, E.ILLEGAL_SASL_STATE),
        see=(84, 152, 255, 368),
    ),
    48: Kip(
        "Delegation tokens: a client acts for a user without the user's credentials",
        (("1.1", _NEW),),
        errors=(
            E.DELEGATION_TOKEN_AUTH_DISABLED,
            E.DELEGATION_TOKEN_NOT_FOUND,
            E.DELEGATION_TOKEN_OWNER_MISMATCH,
            E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            E.DELEGATION_TOKEN_EXPIRED,
            E.INVALID_PRINCIPAL_TYPE,
        ),
    ),
    57: Kip("LZ4 frames have a correct header checksum since message format 1", (("0.10.0", _NEW),)),
    62: Kip(
        "The time for a rebalance is apart from the session timeout; heartbeats come from a thread of their own",
        (("0.10.1", _NEW),),
        {A.JOIN_GROUP: ("1+", "rebalance_timeout_ms")},
    ),
    74: Kip(
        "A fetch limits the bytes of its whole answer",
        (("0.10.1", _NEW),),
        {A.FETCH: ("3+", "max_bytes")},
    ),
    78: Kip("A cluster has an id", (("0.10.1", _NEW),), {A.METADATA: ("2+", "cluster_id")}),
    79: Kip(
        "Offsets are looked up by the timestamps of messages",
        (("0.10.1", _NEW),),
        {A.LIST_OFFSETS: ("1+", "timestamp offset")},
        (E.UNSUPPORTED_FOR_MESSAGE_FORMAT,),
    ),
    84: Kip("SASL/SCRAM: passwords are proved, not sent", (("0.10.2", _NEW),), see=(554,)),
    88: Kip(
        "All offsets of a group are fetched with one request",
        (("0.10.2", _NEW),),
        {A.OFFSET_FETCH: ("2+", "error_code")},
    ),
    98: Kip(
        "Exactly once: idempotent producers, transactions, and record batches (magic 2)",
        (("0.11", _NEW),),
        {
            A.PRODUCE: ("3+", "transactional_id"),
            A.FETCH: ("4+", "isolation_level last_stable_offset aborted_transactions"),
            A.LIST_OFFSETS: ("2+", "isolation_level"),
            A.FIND_COORDINATOR: ("1+", "key_type error_message"),
        },
        (
            E.OUT_OF_ORDER_SEQUENCE_NUMBER,
            E.DUPLICATE_SEQUENCE_NUMBER,
            E.INVALID_PRODUCER_EPOCH,
            E.INVALID_TXN_STATE,
            E.INVALID_PRODUCER_ID_MAPPING,
            E.INVALID_TRANSACTION_TIMEOUT,
            E.CONCURRENT_TRANSACTIONS,
            E.TRANSACTION_COORDINATOR_FENCED,
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        ("TransactionLogKey", "TransactionLogValue", "EndTxnMarker"),
        (360, 447, 588, 890, 939),
    ),
    101: Kip("Leader epochs, not high watermarks, say where a follower's log diverges", (("0.11", _NEW),), see=(320,)),
    107: Kip(
        "An administrator deletes the records before an offset",
        (("0.11", _NEW),),
        {A.FETCH: ("5+", "log_start_offset")},
    ),
    108: Kip(
        "A policy of the cluster's operators may forbid a topic",
        (("0.10.2", _NEW),),
        {A.CREATE_TOPICS: ("1+", "error_message validate_only")},
        (E.POLICY_VIOLATION,),
    ),
    110: Kip(
        "Zstandard compression",
        (("2.1", _NEW),),
        {A.PRODUCE: ("7+", ""), A.FETCH: ("10+", "")},
        (E.UNSUPPORTED_COMPRESSION_TYPE,),
    ),
    112: Kip(
        "A broker survives the failure of one of its disks",
        (("1.0", _NEW),),
        {A.PRODUCE: ("4+", ""), A.FETCH: ("6+", ""), A.METADATA: ("5+", "offline_replicas")},
        (E.KAFKA_STORAGE_ERROR,),
    ),
    113: Kip(
        "Replicas are moved between the disks of a broker",
        (("1.1", _NEW),),
        errors=(E.LOG_DIR_NOT_FOUND,),
    ),
    124: Kip(
        "Quotas for all requests, by the time that they take in the broker's threads",
        (("0.11", _NEW),),
        {
            A.METADATA: ("3+", "throttle_time_ms"),
            A.LIST_OFFSETS: ("2+", "throttle_time_ms"),
            A.OFFSET_COMMIT: ("3+", "throttle_time_ms"),
            A.OFFSET_FETCH: ("3+", "throttle_time_ms"),
            A.FIND_COORDINATOR: ("1+", "throttle_time_ms"),
            A.JOIN_GROUP: ("2+", "throttle_time_ms"),
            A.SYNC_GROUP: ("1+", "throttle_time_ms"),
            A.HEARTBEAT: ("1+", "throttle_time_ms"),
            A.LEAVE_GROUP: ("1+", "throttle_time_ms"),
            A.API_VERSIONS: ("1+", "throttle_time_ms"),
        },
        see=(219,),
    ),
    133: Kip("Configurations are read and changed by requests", (("0.11", _NEW),), see=(226, 339)),
    140: Kip("Access control lists are managed by requests", (("0.11", _NEW),), errors=(E.SECURITY_DISABLED,)),
    152: Kip(
        "SASL tokens travel in requests, so that a client learns why authentication failed",
        (("1.0", _NEW),),
        {A.SASL_HANDSHAKE: ("1", "")},
        (E.SASL_AUTHENTICATION_FAILED,),
        see=(368,),
    ),
    195: Kip("Partitions are added to a topic by a request", (("1.0", _NEW),), errors=(E.REASSIGNMENT_IN_PROGRESS,)),
    207: Kip(
        "A new leader does not give out the end of its log before it is sure of it",
        (("2.2", _NEW),),
        {A.LIST_OFFSETS: ("5+", "")},
        (E.OFFSET_NOT_AVAILABLE,),
    ),
    219: Kip(
        "A throttled client gets its answer at once, and waits itself; the broker reads nothing from it meanwhile",
        (("2.0", _NEW),),
    ),
    226: Kip(
        "Configurations of brokers change without a restart",
        (("1.1", _NEW),),
        {A.DESCRIBE_CONFIGS: ("1+", "config_source synonyms include_synonyms")},
    ),
    227: Kip(
        "Fetch sessions: a fetch names only the partitions that changed since the one before",
        (("1.1", _NEW),),
        {A.FETCH: ("7+", "error_code session_id session_epoch forgotten_topics_data")},
        (E.FETCH_SESSION_ID_NOT_FOUND, E.INVALID_FETCH_SESSION_EPOCH),
        see=(516,),
    ),
    229: Kip(
        "Groups are deleted by a request",
        (("1.1", _NEW),),
        errors=(E.NON_EMPTY_GROUP, E.GROUP_ID_NOT_FOUND),
    ),
    255: Kip("SASL/OAUTHBEARER: clients authenticate with tokens", (("2.0", _NEW),)),
    290: Kip(
        "Access control lists for all resources whose names begin alike",
        (("2.0", _NEW),),
        {A.CREATE_ACLS: ("1+", "resource_pattern_type"), A.DESCRIBE_ACLS: ("1+", "pattern_type")},
    ),
    320: Kip(
        "Clients send the leader epoch that they know, so that an old leader or a lost part of a log is noticed",
        (("2.1", _NEW),),
        {
            A.FETCH: ("9+", "current_leader_epoch"),
            A.LIST_OFFSETS: ("4+", "current_leader_epoch leader_epoch"),
            A.METADATA: ("7+", "leader_epoch"),
            A.OFFSET_COMMIT: ("6+", "committed_leader_epoch"),
            A.OFFSET_FETCH: ("5+", "committed_leader_epoch"),
            A.TXN_OFFSET_COMMIT: ("2+", "committed_leader_epoch"),
            A.OFFSET_FOR_LEADER_EPOCH: ("2+", "current_leader_epoch"),
        },
        (E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH),
    ),
    322: Kip(
        "An error says that topics cannot be deleted here",
        (("2.1", _NEW),),
        {A.DELETE_TOPICS: ("3+", "")},
        (E.TOPIC_DELETION_DISABLED,),
    ),
    339: Kip("Single configurations are changed, the others stay", (("2.3", _NEW),)),
    345: Kip(
        "Static members: a member that comes back with its group.instance.id keeps its partitions",
        (("2.3", _NEW), ("2.4", "a tool removes static members")),
        {
            A.JOIN_GROUP: ("5+", "group_instance_id"),
            A.SYNC_GROUP: ("3+", "group_instance_id"),
            A.HEARTBEAT: ("3+", "group_instance_id"),
            A.OFFSET_COMMIT: ("7+", "group_instance_id"),
            A.LEAVE_GROUP: ("3+", "members"),
            A.DESCRIBE_GROUPS: ("4+", "group_instance_id"),
        },
        (E.FENCED_INSTANCE_ID,),
    ),
    360: Kip(
        "A producer recovers from most errors with a new epoch",
        (("2.5", _NEW),),
        {A.INIT_PRODUCER_ID: ("3+", "producer_id producer_epoch")},
    ),
    368: Kip(
        "Clients authenticate again before their SASL session ends",
        (("2.2", _NEW),),
        {A.SASL_AUTHENTICATE: ("1+", "session_lifetime_ms")},
    ),
    380: Kip(
        "Requests between brokers and controllers name the epoch of the broker, so that old ones are noticed",
        (("2.2", _NEW),),
        {
            A.LEADER_AND_ISR: ("2+", "broker_epoch"),
            A.STOP_REPLICA: ("1+", "broker_epoch"),
            A.UPDATE_METADATA: ("5+", "broker_epoch"),
            A.CONTROLLED_SHUTDOWN: ("2+", "broker_epoch"),
        },
        (E.STALE_BROKER_EPOCH,),
    ),
    389: Kip(
        "The members of a group are limited (group.max.size)", (("2.2", _NEW),), errors=(E.GROUP_MAX_SIZE_REACHED,)
    ),
    392: Kip(
        "Consumers fetch from a replica in their rack",
        (("2.4", _NEW),),
        {A.FETCH: ("11+", "rack_id preferred_read_replica")},
    ),
    394: Kip(
        "A new member is given its id first, and joins with it",
        (("2.2", _NEW),),
        {A.JOIN_GROUP: ("4+", "")},
        (E.MEMBER_ID_REQUIRED,),
    ),
    405: Kip(
        "Tiered storage: older segments of a log lie in a remote store",
        (("3.6", _EARLY), ("3.9", _READY)),
        {A.FETCH: ("14+", ""), A.LIST_OFFSETS: ("8+", "")},
        (E.OFFSET_MOVED_TO_TIERED_STORAGE,),
        see=(1005, 1023, 1075),
    ),
    415: Kip(
        "Connect's workers move only the tasks that have to move", (("2.3", _NEW),), structures=("ConnectAssignment",)
    ),
    429: Kip(
        "Cooperative rebalancing: members keep the partitions that do not move",
        (("2.4", _NEW),),
        structures=("ConsumerProtocolSubscription",),
    ),
    430: Kip(
        "Answers say what the client may do with a topic, a group or the cluster",
        (("2.3", _NEW),),
        {
            A.DESCRIBE_GROUPS: ("3+", "include_authorized_operations authorized_operations"),
            A.METADATA: ("8+", "include_topic_authorized_operations topic_authorized_operations"),
        },
    ),
    447: Kip(
        "One transactional producer serves many partitions: the group fences, not the transactional id",
        (("2.5", _NEW),),
        {
            A.TXN_OFFSET_COMMIT: ("3+", "generation_id_or_member_epoch member_id group_instance_id"),
            A.OFFSET_FETCH: ("7+", "require_stable"),
        },
        (E.UNSTABLE_OFFSET_COMMIT,),
    ),
    455: Kip("Partitions are moved by requests", (("2.4", _NEW),), errors=(E.NO_REASSIGNMENT_IN_PROGRESS,)),
    460: Kip(
        "Leaders are elected by a request, also unclean ones",
        (("2.4", _NEW),),
        errors=(E.PREFERRED_LEADER_NOT_AVAILABLE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE, E.ELECTION_NOT_NEEDED),
    ),
    464: Kip(
        "A new topic takes the brokers' defaults for partitions and replicas",
        (("2.4", _NEW),),
        {A.CREATE_TOPICS: ("4+", "")},
    ),
    467: Kip(
        "A broker says which records of a refused batch are wrong",
        (("2.4", _NEW),),
        {A.PRODUCE: ("8+", "record_errors error_message")},
        (E.INVALID_RECORD,),
    ),
    482: Kip("Flexible versions: compact lengths and tagged fields", (("2.4", _NEW),)),
    496: Kip("Committed offsets are deleted by a request", (("2.4", _NEW),), errors=(E.GROUP_SUBSCRIBED_TO_TOPIC,)),
    497: Kip(
        "A leader asks the controller to change the replicas in sync",
        (("2.7", _NEW),),
        errors=(E.INVALID_UPDATE_VERSION,),
    ),
    500: Kip(
        "KRaft: the cluster's metadata is a log of a quorum, not in ZooKeeper",
        (("2.8", _EARLY), ("3.3", _READY)),
        see=(595, 630, 631, 853),
    ),
    507: Kip("Connect's workers sign their internal requests with a session key", (("2.4", _NEW),)),
    511: Kip(
        "A client names its software and version",
        (("2.4", _NEW),),
        {A.API_VERSIONS: ("3+", "client_software_name client_software_version")},
    ),
    516: Kip(
        "A topic has an id, so that a new topic of an old name is another one",
        (("2.8", "Metadata"), ("3.1", "Fetch"), ("4.1", "Produce")),
        {
            A.METADATA: ("10+", "topic_id"),
            A.DELETE_TOPICS: ("6", "topic_id"),
            A.FETCH: ("13+", "topic_id"),
            A.PRODUCE: ("13", "topic_id"),
        },
        (E.UNKNOWN_TOPIC_ID, E.INCONSISTENT_TOPIC_ID, E.FETCH_SESSION_TOPIC_ID_ERROR),
    ),
    518: Kip(
        "Groups are listed by state",
        (("2.6", _NEW),),
        {A.LIST_GROUPS: ("4+", "states_filter group_state")},
    ),
    525: Kip(
        "The answer to CreateTopics has the partitions, replicas and settings of the new topic",
        (("2.4", _NEW),),
        {A.CREATE_TOPICS: ("5+", "num_partitions replication_factor configs topic_config_error_code")},
    ),
    534: Kip("A tombstone is kept for a while after the first compaction that saw it", (("3.1", _NEW),)),
    546: Kip("Quotas of clients are read and changed by requests", (("2.6", _NEW),)),
    554: Kip(
        "SCRAM credentials are managed by requests",
        (("2.7", _NEW),),
        errors=(E.RESOURCE_NOT_FOUND, E.DUPLICATE_RESOURCE, E.UNACCEPTABLE_CREDENTIAL),
    ),
    559: Kip(
        "A broker knows the protocol of a group, and refuses members of another one",
        (("2.5", _NEW),),
        {A.JOIN_GROUP: ("7+", "protocol_type"), A.SYNC_GROUP: ("5", "protocol_type protocol_name")},
    ),
    569: Kip(
        "Configurations are described with their type and documentation",
        (("2.6", _NEW),),
        {A.DESCRIBE_CONFIGS: ("3+", "include_documentation config_type documentation")},
    ),
    570: Kip(
        "A controller names the leader epoch when it stops a replica",
        (("2.6", _NEW),),
        {A.STOP_REPLICA: ("3+", "leader_epoch")},
    ),
    584: Kip(
        "Features have levels that the whole cluster shares, such as share.version",
        (("2.7", _NEW),),
        {A.API_VERSIONS: ("3+", "supported_features finalized_features finalized_features_epoch")},
        (E.FEATURE_UPDATE_FAILED,),
    ),
    588: Kip(
        "A fenced producer has another error than one with an old epoch",
        (("2.7", _NEW),),
        {
            A.INIT_PRODUCER_ID: ("4+", ""),
            A.ADD_PARTITIONS_TO_TXN: ("2+", ""),
            A.ADD_OFFSETS_TO_TXN: ("2+", ""),
            A.END_TXN: ("2+", ""),
        },
        (E.PRODUCER_FENCED,),
    ),
    590: Kip(
        "A broker forwards a client's request to the controller",
        (("2.8", _NEW),),
        errors=(E.PRINCIPAL_DESERIALIZATION_FAILURE,),
    ),
    595: Kip(
        "Raft elects the leader of the metadata quorum and copies its log",
        (("2.7", _NEW),),
        {A.FETCH: ("12+", "cluster_id last_fetched_epoch diverging_epoch current_leader")},
        (E.INCONSISTENT_VOTER_SET, E.INCONSISTENT_CLUSTER_ID),
        ("LeaderChangeMessage",),
        (853,),
    ),
    599: Kip(
        "A quota on how fast topics and partitions are made and deleted",
        (("2.7", _NEW),),
        {A.CREATE_TOPICS: ("6+", ""), A.DELETE_TOPICS: ("5+", ""), A.CREATE_PARTITIONS: ("3", "")},
        (E.THROTTLING_QUOTA_EXCEEDED,),
    ),
    630: Kip(
        "Snapshots of the metadata log",
        (("2.8", _NEW),),
        {A.FETCH: ("12+", "snapshot_id")},
        (E.SNAPSHOT_NOT_FOUND, E.POSITION_OUT_OF_RANGE),
    ),
    631: Kip(
        "Brokers register with a quorum of controllers, and send it heartbeats",
        (("2.8", _NEW),),
        errors=(E.DUPLICATE_BROKER_REGISTRATION, E.BROKER_ID_NOT_REGISTERED),
    ),
    664: Kip("Transactions that hang are found by requests", (("3.0", _NEW),), errors=(E.TRANSACTIONAL_ID_NOT_FOUND,)),
    699: Kip(
        "The coordinators of many groups are found with one request",
        (("3.0", _NEW),),
        {A.FIND_COORDINATOR: ("4+", "coordinator_keys coordinators")},
    ),
    700: Kip("A request describes the cluster without its topics", (("2.8", _NEW),)),
    704: Kip(
        "A leader of an unclean election tells the controller when it has recovered",
        (("3.2", _NEW),),
        {A.ALTER_PARTITION: ("1+", "leader_recovery_state")},
    ),
    709: Kip(
        "Offsets of many groups are fetched with one request",
        (("3.0", _NEW),),
        {A.OFFSET_FETCH: ("8+", "groups")},
    ),
    714: Kip(
        "Clients push their metrics to the brokers",
        (("3.7", _NEW),),
        errors=(E.UNKNOWN_SUBSCRIPTION_ID, E.TELEMETRY_TOO_LARGE),
    ),
    730: Kip("The controller gives out blocks of producer ids", (("3.0", _NEW),)),
    734: Kip(
        "The offset of the largest timestamp is looked up",
        (("3.0", _NEW),),
        {A.LIST_OFFSETS: ("7+", "")},
    ),
    792: Kip(
        "A member's subscription says in which generation it got its partitions",
        (("3.4", _NEW),),
        structures=("ConsumerProtocolSubscription",),
    ),
    800: Kip(
        "A member says why it joins or leaves",
        (("3.2", _NEW),),
        {A.JOIN_GROUP: ("8+", "reason"), A.LEAVE_GROUP: ("5", "reason")},
    ),
    814: Kip(
        "A static member that returns as the leader need not assign again",
        (("3.2", _NEW),),
        {A.JOIN_GROUP: ("9", "skip_assignment")},
    ),
    836: Kip(
        "The quorum's replicas are described with the times of their fetches",
        (("3.3", _NEW),),
        {A.DESCRIBE_QUORUM: ("1+", "last_fetch_timestamp last_caught_up_timestamp")},
    ),
    841: Kip(
        "A broker that is fenced or shuts down cannot be in sync",
        (("3.3", _NEW),),
        {A.ALTER_PARTITION: ("2+", "topic_id")},
        (E.INELIGIBLE_REPLICA, E.NEW_LEADER_ELECTED),
    ),
    848: Kip(
        "The next consumer protocol: the coordinator assigns partitions, and heartbeats carry everything",
        (("3.7", _EARLY), ("3.8", _PREVIEW), ("4.0", _READY)),
        {
            A.OFFSET_COMMIT: ("9+", "topic_id"),
            A.OFFSET_FETCH: ("9+", "member_id member_epoch topic_id"),
            A.LIST_GROUPS: ("5", "types_filter group_type"),
        },
        (E.FENCED_MEMBER_EPOCH, E.UNRELEASED_INSTANCE_ID, E.UNSUPPORTED_ASSIGNOR, E.STALE_MEMBER_EPOCH),
        (
            "ConsumerGroupMetadataValue",
            "ConsumerGroupMemberMetadataValue",
            "ConsumerGroupTargetAssignmentMemberValue",
            "ConsumerGroupCurrentMemberAssignmentValue",
        ),
        (1043, 1082, 1099, 1101),
    ),
    853: Kip(
        "Controllers are added to the quorum, and removed, while it runs",
        (("3.9", _NEW),),
        {
            A.FETCH: ("17+", "replica_directory_id"),
            A.FETCH_SNAPSHOT: ("1", "replica_directory_id"),
            A.VOTE: ("1+", "voter_id"),
            A.BEGIN_QUORUM_EPOCH: ("1", "voter_id"),
            A.END_QUORUM_EPOCH: ("1", "preferred_candidates"),
            A.DESCRIBE_QUORUM: ("2", "nodes replica_directory_id"),
        },
        (E.INVALID_VOTER_KEY, E.DUPLICATE_VOTER, E.VOTER_NOT_FOUND),
    ),
    858: Kip(
        "Brokers with several disks in KRaft",
        (("3.7", _NEW),),
        {A.BROKER_REGISTRATION: ("2+", "log_dirs"), A.BROKER_HEARTBEAT: ("1+", "offline_log_dirs")},
    ),
    866: Kip(
        "A cluster moves from ZooKeeper to KRaft while it runs",
        (("3.4", _EARLY), ("3.6", _READY), ("4.0", "removed")),
        {A.API_VERSIONS: ("3+", "zk_migration_ready"), A.BROKER_REGISTRATION: ("1+", "is_migrating_zk_broker")},
    ),
    881: Kip(
        "Partitions are assigned to consumers in the rack of a replica",
        (("3.4", "consumers name their rack"), ("3.5", "assignors use it")),
        structures=("ConsumerProtocolSubscription",),
    ),
    890: Kip(
        "Brokers check that a partition belongs to a transaction; each transaction has its own producer epoch",
        (("3.6", "brokers check"), ("4.0", "an epoch for each transaction (transaction.version 2)")),
        {
            A.ADD_PARTITIONS_TO_TXN: ("4+", "transactions verify_only"),
            A.PRODUCE: ("11+", ""),
            A.INIT_PRODUCER_ID: ("5+", ""),
            A.ADD_OFFSETS_TO_TXN: ("4", ""),
            A.END_TXN: ("4+", "producer_id producer_epoch"),
            A.TXN_OFFSET_COMMIT: ("4+", ""),
            A.FIND_COORDINATOR: ("5+", ""),
        },
        (E.TRANSACTION_ABORTABLE,),
    ),
    893: Kip("A structure may be null", (("3.5", _NEW),)),
    896: Kip("Versions of APIs that only clients before 2.1 need are removed", (("4.0", _NEW),)),
    903: Kip(
        "A follower that lost its log while it was down is not taken for one in sync",
        (("3.5", _NEW),),
        {A.FETCH: ("15+", "replica_state"), A.ALTER_PARTITION: ("3", "new_isr_with_epochs")},
    ),
    915: Kip(
        "Coordinators can go back to an older release: they skip records and fields that they do not know",
        (("3.5", _NEW),),
        structures=("OffsetCommitValue", "GroupMetadataValue", "TransactionLogValue"),
    ),
    919: Kip(
        "Administrators talk to the controllers directly",
        (("3.7", _NEW),),
        {A.DESCRIBE_CLUSTER: ("1+", "endpoint_type")},
        (E.MISMATCHED_ENDPOINT_TYPE, E.UNSUPPORTED_ENDPOINT_TYPE, E.UNKNOWN_CONTROLLER_ID),
    ),
    932: Kip(
        "Share groups: consumers share partitions as a queue, and acknowledge single records",
        (("4.0", _EARLY), ("4.1", _PREVIEW), ("4.2", _READY)),
        {A.FIND_COORDINATOR: ("6", "")},
        (
            E.INVALID_RECORD_STATE,
            E.SHARE_SESSION_NOT_FOUND,
            E.INVALID_SHARE_SESSION_EPOCH,
            E.FENCED_STATE_EPOCH,
            E.SHARE_SESSION_LIMIT_REACHED,
        ),
        (
            "ShareGroupMetadataValue",
            "ShareGroupMemberMetadataValue",
            "ShareGroupTargetAssignmentMemberValue",
            "ShareGroupCurrentMemberAssignmentValue",
            "ShareGroupStatePartitionMetadataValue",
            "ShareSnapshotValue",
            "ShareUpdateValue",
        ),
        (1103, 1191, 1206, 1222, 1226, 1240),
    ),
    939: Kip(
        "Transactions take part in a two-phase commit of another system",
        (("4.1", "only with unstable versions enabled"),),
        {
            A.INIT_PRODUCER_ID: (
                "6",
                "enable2_pc keep_prepared_txn ongoing_txn_producer_id ongoing_txn_producer_epoch",
            )
        },
    ),
    951: Kip(
        "An answer with NOT_LEADER_OR_FOLLOWER names the new leader and its address",
        (("3.7", _NEW),),
        {A.PRODUCE: ("10+", "current_leader node_endpoints"), A.FETCH: ("16+", "node_endpoints")},
    ),
    966: Kip(
        "Eligible leader replicas: who may lead without losing records is remembered when replicas fall out of sync",
        (("4.0", _PREVIEW), ("4.1", _READY)),
    ),
    994: Kip(
        "Transactions are listed by how long they are open",
        (("3.8", _NEW),),
        {A.LIST_TRANSACTIONS: ("1+", "duration_filter")},
    ),
    996: Kip(
        "A voter asks whether it would win before it calls an election",
        (("4.0", _NEW),),
        {A.VOTE: ("2", "pre_vote")},
    ),
    1005: Kip(
        "The last offset in tiered storage is looked up",
        (("3.9", _NEW),),
        {A.LIST_OFFSETS: ("9+", "")},
    ),
    1023: Kip(
        "The first offset that is not yet in tiered storage is looked up",
        (("4.2", _NEW),),
        {A.LIST_OFFSETS: ("11", "")},
    ),
    1043: Kip(
        "A description of a group that does not exist is an error, not an empty group",
        (("4.0", _NEW),),
        {A.DESCRIBE_GROUPS: ("6", "error_message")},
    ),
    1066: Kip(
        "A disk of a broker gets no new replicas",
        (("4.3", _NEW),),
        {A.DESCRIBE_LOG_DIRS: ("5", "is_cordoned"), A.BROKER_HEARTBEAT: ("2", "cordoned_log_dirs")},
    ),
    1071: Kip(
        "The Streams rebalance protocol: the coordinator assigns the tasks of Kafka Streams",
        (("4.1", _EARLY), ("4.2", _READY)),
        errors=(E.STREAMS_INVALID_TOPOLOGY, E.STREAMS_INVALID_TOPOLOGY_EPOCH, E.STREAMS_TOPOLOGY_FENCED),
        structures=("StreamsGroupMetadataValue", "StreamsGroupTopologyValue"),
        see=(1331,),
    ),
    1073: Kip(
        "A description of the cluster includes fenced brokers on demand",
        (("4.0", _NEW),),
        {A.DESCRIBE_CLUSTER: ("2", "include_fenced_brokers is_fenced")},
    ),
    1075: Kip(
        "A lookup of offsets in tiered storage has a timeout",
        (("4.0", _NEW),),
        {A.LIST_OFFSETS: ("10+", "timeout_ms")},
    ),
    1082: Kip(
        "A member of the new protocols makes its member id itself",
        (("4.0", _NEW),),
        {A.CONSUMER_GROUP_HEARTBEAT: ("1", "")},
    ),
    1099: Kip(
        "A description of a consumer group says which members speak the classic protocol",
        (("4.0", _NEW),),
        {A.CONSUMER_GROUP_DESCRIBE: ("1", "member_type")},
    ),
    1101: Kip(
        "A hash of the topics, not their partitions and racks, tells a coordinator to assign a group anew",
        (("4.1", _NEW),),
        structures=("ConsumerGroupMetadataValue", "ShareGroupMetadataValue"),
    ),
    1102: Kip(
        "A client begins again with its bootstrap servers when a broker tells it to, or metadata cannot be had",
        (("4.0", _NEW),),
        {A.METADATA: ("13", "error_code")},
        (E.REBOOTSTRAP_REQUIRED,),
        see=(1242,),
    ),
    1103: Kip("Metrics of share groups at the brokers (kshark explain metrics)", (("4.2", _NEW),)),
    1142: Kip(
        "All kinds of resources with configurations are listed",
        (("4.1", _NEW),),
        {A.LIST_CONFIG_RESOURCES: ("1", "resource_types resource_type")},
    ),
    1152: Kip(
        "Transactions are listed by a pattern of their transactional ids",
        (("4.1", _NEW),),
        {A.LIST_TRANSACTIONS: ("2", "transactional_id_pattern")},
        (E.INVALID_REGULAR_EXPRESSION,),
    ),
    1166: Kip(
        "A follower of the metadata log learns of a new high watermark sooner",
        (("4.1", _NEW),),
        {A.FETCH: ("18", "high_watermark")},
    ),
    1191: Kip(
        "Dead-letter queues: a share group writes the records that it gives up to another topic",
        (("4.4", _NEW),),
    ),
    1206: Kip(
        "A share fetch limits its records strictly, or keeps record batches whole",
        (("4.2", _NEW),),
        {A.SHARE_FETCH: ("2", "share_acquire_mode")},
    ),
    1222: Kip(
        "A member of a share group renews the lock of records that it still works on",
        (("4.2", _NEW),),
        {
            A.SHARE_FETCH: ("2", "is_renew_ack"),
            A.SHARE_ACKNOWLEDGE: ("2", "is_renew_ack acquisition_lock_timeout_ms"),
        },
    ),
    1226: Kip(
        "The lag of a share group: how many records it has still to deliver",
        (("4.2", _NEW),),
        {
            A.WRITE_SHARE_GROUP_STATE: ("1", "delivery_complete_count"),
            A.READ_SHARE_GROUP_STATE_SUMMARY: ("1", "delivery_complete_count"),
            A.DESCRIBE_SHARE_GROUP_OFFSETS: ("1", "lag"),
        },
        structures=("ShareSnapshotValue", "ShareUpdateValue"),
    ),
    1228: Kip(
        "Markers of transactions carry the version of the transaction protocol",
        (("4.2", _NEW),),
        {A.WRITE_TXN_MARKERS: ("2", "transaction_version")},
    ),
    1240: Kip("Settings of a single share group: its delivery limit, its locks, its isolation", (("4.3", _NEW),)),
    1242: Kip(
        "A client says which cluster and broker it means to reach, and a wrong one refuses it",
        (("4.4", _NEW),),
        {A.API_VERSIONS: ("5", "cluster_id node_id")},
    ),
    1263: Kip(
        "A coordinator gathers changes of a group for a while before it assigns partitions anew",
        (("4.3", _NEW),),
        structures=("ConsumerGroupTargetAssignmentMetadataValue", "ShareGroupTargetAssignmentMetadataValue"),
    ),
    1319: Kip(
        "Offsets of a transaction are committed by topic id",
        (("4.4", _NEW),),
        {A.TXN_OFFSET_COMMIT: ("6", "topic_id")},
    ),
    1331: Kip(
        "The topology of a Streams group is stored and described",
        (("4.4", _NEW),),
        {
            A.STREAMS_GROUP_HEARTBEAT: ("1", "topology_description_required"),
            A.STREAMS_GROUP_DESCRIBE: ("1", "include_topology_description topology_description"),
        },
        (E.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, E.GROUP_DELETION_FAILED),
    ),
    1357: Kip(
        "A description of a Streams group names its assignor",
        (("4.4", _NEW),),
        {A.STREAMS_GROUP_DESCRIBE: ("1", "assignor_name")},
    ),
}
