"""Meanings of Kafka's error codes: whether a client may retry, and which answers among share groups carry one, and why.

A code is retriable if its exception is: org.apache.kafka.common.errors, subclasses of RetriableException.
"""

from typing import Final, NamedTuple

from kshark_dissectors.enums import ErrorCode as E

#: Codes after which the same request may be sent again later.
RETRIABLE: Final = frozenset(
    {
        E.CORRUPT_MESSAGE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.LEADER_NOT_AVAILABLE,
        E.NOT_LEADER_OR_FOLLOWER,
        E.REQUEST_TIMED_OUT,
        E.REPLICA_NOT_AVAILABLE,
        E.NETWORK_EXCEPTION,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.NOT_CONTROLLER,
        E.CONCURRENT_TRANSACTIONS,
        E.KAFKA_STORAGE_ERROR,
        E.FETCH_SESSION_ID_NOT_FOUND,
        E.INVALID_FETCH_SESSION_EPOCH,
        E.LISTENER_NOT_FOUND,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
        E.PREFERRED_LEADER_NOT_AVAILABLE,
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        E.ELECTION_NOT_NEEDED,
        E.UNSTABLE_OFFSET_COMMIT,
        E.THROTTLING_QUOTA_EXCEEDED,
        E.UNKNOWN_TOPIC_ID,
        E.INCONSISTENT_TOPIC_ID,
        E.FETCH_SESSION_TOPIC_ID_ERROR,
        E.SHARE_SESSION_NOT_FOUND,
        E.INVALID_SHARE_SESSION_EPOCH,
        E.SHARE_SESSION_LIMIT_REACHED,
    }
)


class Sent(NamedTuple):
    """An answer among share groups that carries the code: which API, at which level, why."""

    api: str
    level: str
    cause: str


_TOP: Final = "top level"
_PART: Final = "partition"
_SESSION: Final = "ShareFetch, ShareAcknowledge"
_FETCH: Final = "ShareFetch"
_ACK: Final = "ShareAcknowledge, and acknowledgements in ShareFetch"
_HEARTBEAT: Final = "ShareGroupHeartbeat"
_STATE: Final = "share coordinator (APIs 83-87)"

#: What share groups send the code for. Sources: KIP-932; Kafka classes KafkaApis, SharePartitionManager,
#: SharePartition, GroupMetadataManager, ShareCoordinatorShard.
SHARE_GROUPS: Final[dict[E, tuple[Sent, ...]]] = {
    E.UNKNOWN_SERVER_ERROR: (
        Sent(
            _FETCH,
            _TOP,
            "4.1 and later: the session holds an unknown topic id; the epoch is used up all the same",
        ),
        Sent(_FETCH, _TOP, "epoch 0 with one partition listed twice; the old session is gone"),
        Sent(_FETCH, _PART, "the group never subscribed to the topic, so its share partition was not initialized"),
    ),
    E.UNKNOWN_TOPIC_OR_PARTITION: (
        Sent(
            _ACK,
            _PART,
            "the broker does not lead this partition, or dropped it with the group's last session",
        ),
        Sent(_STATE, _PART, "the topic is not in the metadata"),
    ),
    E.NOT_LEADER_OR_FOLLOWER: (
        Sent(
            _FETCH,
            _PART,
            "the leader moved (current_leader says where to), or its leader or state epoch was fenced",
        ),
    ),
    E.COORDINATOR_LOAD_IN_PROGRESS: (
        Sent(_HEARTBEAT, _TOP, "the group coordinator is reading its log; ordinary while a broker starts"),
        Sent(_STATE, _PART, "the coordinator is reading its log; ordinary while a broker starts"),
    ),
    E.COORDINATOR_NOT_AVAILABLE: (
        Sent("FindCoordinator", _PART, "its topic is not ready yet; ordinary while a broker starts"),
        Sent(_HEARTBEAT, _TOP, "the group coordinator has not begun yet, or is being stopped"),
    ),
    E.NOT_COORDINATOR: (
        Sent(_HEARTBEAT, _TOP, "another broker coordinates the group"),
        Sent(_STATE, _PART, "the share coordinator of that key is another broker"),
    ),
    E.UNKNOWN_MEMBER_ID: (
        Sent(_HEARTBEAT, _TOP, "the member left, was removed after its session timeout (45 s), or never joined"),
    ),
    E.TOPIC_AUTHORIZATION_FAILED: (Sent(_SESSION, _PART, "no READ on the topic"),),
    E.GROUP_AUTHORIZATION_FAILED: (Sent(_SESSION, _TOP, "no READ on the group; the session's epoch does not advance"),),
    E.UNSUPPORTED_VERSION: (
        Sent(_SESSION, _TOP, "share groups are off (share.version below 1); the session's epoch does not advance"),
    ),
    E.INVALID_REQUEST: (
        Sent(_FETCH, _TOP, "epoch 0 with acknowledgements; the session, if there is one, stays as it was"),
        Sent(
            _SESSION,
            _TOP,
            "a member id that is null, empty or longer than 36 characters, or limits in a renewing fetch",
        ),
        Sent(
            _ACK,
            _PART,
            "batches inverted, overlapping, without types, with a wrong number of types, or beyond what is acquired",
        ),
        Sent(_HEARTBEAT, _TOP, "a join without topics, a member epoch below -1, or an empty id"),
        Sent(_STATE, _PART, "a share partition that was never initialized, or a negative epoch"),
    ),
    E.NON_EMPTY_GROUP: (Sent("AlterShareGroupOffsets, DeleteShareGroupOffsets", _TOP, "the group still has members"),),
    E.GROUP_ID_NOT_FOUND: (Sent(_HEARTBEAT, _TOP, "no such group, or the id belongs to a group of another type"),),
    E.FENCED_LEADER_EPOCH: (
        Sent(_FETCH, _PART, "the leader moved while it fetched (current_leader says where to)"),
        Sent(_STATE, _PART, "a former leader reads or writes: the coordinator has seen a newer leader epoch"),
    ),
    E.GROUP_MAX_SIZE_REACHED: (Sent(_HEARTBEAT, _TOP, "the group has group.share.max.size members (200)"),),
    E.UNKNOWN_TOPIC_ID: (Sent("ShareAcknowledge", _PART, "a topic id that is zero or not in the metadata"),),
    E.FENCED_MEMBER_EPOCH: (
        Sent(
            _HEARTBEAT,
            _TOP,
            "a member epoch that is neither the present nor the previous one",
        ),
    ),
    E.INVALID_RECORD_STATE: (
        Sent(_ACK, _PART, "the lock ran out before the acknowledgement came"),
        Sent(_ACK, _PART, "another member holds the records now, or nobody acquired them"),
        Sent(_ACK, _PART, "acknowledged before, and the start offset has not passed them yet"),
        Sent(_ACK, _PART, "RENEW while share.renew.acknowledge.enable is false"),
    ),
    E.SHARE_SESSION_NOT_FOUND: (
        Sent(_SESSION, _TOP, "the connection that opened the session closed (4.1 and later drop it then)"),
        Sent(_SESSION, _TOP, "the broker restarted or evicted the session"),
        Sent(_SESSION, _TOP, "the session was closed with epoch -1, or never opened with epoch 0 on this broker"),
        Sent(
            _SESSION,
            _TOP,
            "4.1: reopened elsewhere, and the old connection's close took the new session along (KAFKA-19950)",
        ),
        Sent(_FETCH, _TOP, "4.0: no room for another session (later releases answer 133)"),
    ),
    E.INVALID_SHARE_SESSION_EPOCH: (
        Sent(_SESSION, _TOP, "the epoch just used, again: an answer was lost and the request repeated"),
        Sent(_SESSION, _TOP, "an epoch ahead: a request was counted that the broker refused or never got"),
        Sent(_SESSION, _TOP, "fetches and acknowledgements counted apart; they share one epoch"),
        Sent(_SESSION, _TOP, "two clients with one member id, or requests of one session on two connections at once"),
        Sent("ShareAcknowledge", _TOP, "epoch 0: an acknowledgement cannot open a session"),
        Sent(
            _FETCH,
            _TOP,
            "the session moved on while the fetch waited; what it acquired stays locked until its time runs out",
        ),
    ),
    E.FENCED_STATE_EPOCH: (
        Sent(_STATE, _PART, "an older state epoch than the stored one: the partition was initialized again since"),
    ),
    E.SHARE_SESSION_LIMIT_REACHED: (
        Sent(
            _FETCH, _TOP, "the broker holds group.share.max.share.sessions sessions (2000); answered after max_wait_ms"
        ),
    ),
}

#: What a client does after these, by KIP-932.
REMEDY: Final[dict[E, str]] = {
    E.COORDINATOR_LOAD_IN_PROGRESS: "wait, then send the same request again",
    E.COORDINATOR_NOT_AVAILABLE: "wait, then ask FindCoordinator again",
    E.NOT_COORDINATOR: "ask FindCoordinator, and send the request to the broker that it names",
    E.UNSUPPORTED_VERSION: "ask ApiVersions; where share groups are off the cluster has to switch them on (feature "
    "share.version 1)",
    E.INVALID_REQUEST: "mend the request: sent again as it is, it is refused again",
    E.GROUP_MAX_SIZE_REACHED: "wait until another member has left, or raise group.share.max.size",
    E.UNKNOWN_TOPIC_ID: "ask for metadata: the topic was deleted or made anew; forget the old id",
    E.INVALID_RECORD_STATE: "drop the acknowledgement; the records come again to somebody, with their delivery count "
    "raised",
    E.SHARE_SESSION_NOT_FOUND: "open a new session: ShareFetch with epoch 0 and every partition; acknowledgements in "
    "flight failed",
    E.INVALID_SHARE_SESSION_EPOCH: "open a new session: ShareFetch with epoch 0 and every partition; acknowledgements "
    "in flight failed",
    E.SHARE_SESSION_LIMIT_REACHED: "wait, then ShareFetch with epoch 0 again",
    E.UNKNOWN_MEMBER_ID: "join again: heartbeat with member epoch 0",
    E.FENCED_MEMBER_EPOCH: "join again: heartbeat with member epoch 0",
    E.NOT_LEADER_OR_FOLLOWER: "take the leader from the answer, or ask for metadata",
}

#: What each says, in a sentence.
MEANING: Final[dict[E, str]] = {
    E.UNKNOWN_SERVER_ERROR: "The broker failed, and has no code for how; its log tells.",
    E.OFFSET_OUT_OF_RANGE: "The partition's log does not have the offset: it was deleted already, or is not written "
    "yet.",
    E.CORRUPT_MESSAGE: "A record batch is damaged: its checksum or its layout is wrong.",
    E.UNKNOWN_TOPIC_OR_PARTITION: "The broker does not have the topic or partition: it does not exist, or is not "
    "known there yet.",
    E.INVALID_FETCH_SIZE: "A fetch asks for a number of bytes that cannot be.",
    E.LEADER_NOT_AVAILABLE: "The partition has no leader just now, as while one is elected.",
    E.NOT_LEADER_OR_FOLLOWER: "The broker does not lead the partition, or has no replica of it: the client's metadata "
    "are old.",
    E.REQUEST_TIMED_OUT: "The broker did not get done within the time that the request gave it.",
    E.BROKER_NOT_AVAILABLE: "The broker that would have to act is not there.",
    E.REPLICA_NOT_AVAILABLE: "The broker has no replica of the partition that could answer.",
    E.MESSAGE_TOO_LARGE: "A record batch is larger than the topic takes (max.message.bytes).",
    E.STALE_CONTROLLER_EPOCH: "A controller that was replaced still gives orders.",
    E.OFFSET_METADATA_TOO_LARGE: "The text beside a committed offset is longer than the brokers store.",
    E.NETWORK_EXCEPTION: "The broker lost the connection to another one that it needed.",
    E.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is still reading its state; ordinary while a broker starts.",
    E.COORDINATOR_NOT_AVAILABLE: "There is no coordinator just now; ordinary while brokers start.",
    E.NOT_COORDINATOR: "Another broker coordinates that group, transaction or share partition.",
    E.INVALID_TOPIC_EXCEPTION: "The topic's name is none that is allowed, or the topic is one of Kafka's own.",
    E.RECORD_LIST_TOO_LARGE: "The batches of a request are larger together than one segment of the log.",
    E.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas: nothing was written.",
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "The records were written, but fewer replicas have them than "
    "min.insync.replicas.",
    E.INVALID_REQUIRED_ACKS: "acks is none of -1, 0 and 1.",
    E.ILLEGAL_GENERATION: "The group is in another generation than the member believes: it was rebalanced without it.",
    E.INCONSISTENT_GROUP_PROTOCOL: "The member has no assignor, or type of protocol, in common with the group.",
    E.INVALID_GROUP_ID: "The group id is empty or missing where one is needed.",
    E.UNKNOWN_MEMBER_ID: "The coordinator has no such member: it left, was thrown out, or never joined.",
    E.INVALID_SESSION_TIMEOUT: "The session timeout is shorter or longer than the brokers allow.",
    E.REBALANCE_IN_PROGRESS: "The group is being rebalanced: the member has to join again.",
    E.INVALID_COMMIT_OFFSET_SIZE: "Committed offsets, with their texts, are too large to be stored.",
    E.TOPIC_AUTHORIZATION_FAILED: "The client may not do that with the topic.",
    E.GROUP_AUTHORIZATION_FAILED: "The client may not do that with the group.",
    E.CLUSTER_AUTHORIZATION_FAILED: "The client may not do that with the cluster.",
    E.INVALID_TIMESTAMP: "A record's timestamp is too far from the broker's clock, or missing.",
    E.UNSUPPORTED_SASL_MECHANISM: "The broker does not offer that SASL mechanism.",
    E.ILLEGAL_SASL_STATE: "The request does not belong at this place of the authentication.",
    E.UNSUPPORTED_VERSION: "The broker does not have that version of the API, or a feature that it needs is switched "
    "off.",
    E.TOPIC_ALREADY_EXISTS: "There is a topic of that name already.",
    E.INVALID_PARTITIONS: "The number of partitions cannot be: below 1, or less than there are.",
    E.INVALID_REPLICATION_FACTOR: "The replication factor is below 1, or above the number of brokers.",
    E.INVALID_REPLICA_ASSIGNMENT: "The replicas that were asked for cannot be: unknown brokers, one twice, or not as "
    "many everywhere.",
    E.INVALID_CONFIG: "A configuration has a value, or a name, that cannot be.",
    E.NOT_CONTROLLER: "The broker that was asked is not the active controller.",
    E.INVALID_REQUEST: "The request contradicts itself, or lacks what it needs; its error_message may say more.",
    E.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The partition's messages are in a format too old for that.",
    E.POLICY_VIOLATION: "A rule of the cluster's operators (a policy class) forbids it.",
    E.OUT_OF_ORDER_SEQUENCE_NUMBER: "A producer's batch does not follow its last one: one between them is missing.",
    E.DUPLICATE_SEQUENCE_NUMBER: "A producer's batch was written before, so long ago that its offset is not known any "
    "more.",
    E.INVALID_PRODUCER_EPOCH: "A newer producer with the same transactional id, or a newer epoch, has taken over.",
    E.INVALID_TXN_STATE: "The transaction is not in a state in which that can be done.",
    E.INVALID_PRODUCER_ID_MAPPING: "The transactional id belongs to another producer id, or to none.",
    E.INVALID_TRANSACTION_TIMEOUT: "The transaction timeout is longer than brokers allow "
    "(transaction.max.timeout.ms), or below 1.",
    E.CONCURRENT_TRANSACTIONS: "The transaction before this one is still being completed.",
    E.TRANSACTION_COORDINATOR_FENCED: "A transaction coordinator that was replaced still writes.",
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "The client may not use that transactional id.",
    E.SECURITY_DISABLED: "The cluster has no authorizer, so there are no ACLs to read or change.",
    E.OPERATION_NOT_ATTEMPTED: "It was not tried: something else in the same request was refused.",
    E.KAFKA_STORAGE_ERROR: "The broker cannot read or write the partition's disk.",
    E.LOG_DIR_NOT_FOUND: "The broker has no log directory of that path.",
    E.SASL_AUTHENTICATION_FAILED: "The credentials are wrong, or not taken.",
    E.UNKNOWN_PRODUCER_ID: "The partition knows nothing of that producer any more: its records were deleted.",
    E.REASSIGNMENT_IN_PROGRESS: "The partition's replicas are being moved, and meanwhile that cannot be done.",
    E.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are switched off on the brokers.",
    E.DELEGATION_TOKEN_NOT_FOUND: "There is no such delegation token.",
    E.DELEGATION_TOKEN_OWNER_MISMATCH: "The delegation token is somebody else's.",
    E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Tokens are given only to who is authenticated, and not by a token itself.",
    E.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "The client may not do that with the delegation token.",
    E.DELEGATION_TOKEN_EXPIRED: "The delegation token is not valid any more.",
    E.INVALID_PRINCIPAL_TYPE: "A principal is of a type that cannot be used there.",
    E.NON_EMPTY_GROUP: "The group still has members.",
    E.GROUP_ID_NOT_FOUND: "There is no group of that id, or it is of another type.",
    E.FETCH_SESSION_ID_NOT_FOUND: "The broker does not have that fetch session any more.",
    E.INVALID_FETCH_SESSION_EPOCH: "The epoch is not the one that the fetch session expects.",
    E.LISTENER_NOT_FOUND: "The partition's leader has no listener like the one on which it was asked.",
    E.TOPIC_DELETION_DISABLED: "Topics cannot be deleted here (delete.topic.enable).",
    E.FENCED_LEADER_EPOCH: "The leader epoch of the request is older than the broker's.",
    E.UNKNOWN_LEADER_EPOCH: "The leader epoch of the request is newer than the broker's, which has not heard of it "
    "yet.",
    E.UNSUPPORTED_COMPRESSION_TYPE: "The records are compressed in a way that this version of the request cannot "
    "carry.",
    E.STALE_BROKER_EPOCH: "A broker was started again since; the request is of before.",
    E.OFFSET_NOT_AVAILABLE: "A new leader does not know the end of its partition yet.",
    E.MEMBER_ID_REQUIRED: "The first half of joining: the client is given a member id, and joins again with it.",
    E.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is down or not in sync.",
    E.GROUP_MAX_SIZE_REACHED: "The group has as many members as it may.",
    E.FENCED_INSTANCE_ID: "Another member with the same group.instance.id has taken the place.",
    E.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica is in a state to lead the partition.",
    E.ELECTION_NOT_NEEDED: "The partition has the leader already that was to be elected.",
    E.NO_REASSIGNMENT_IN_PROGRESS: "No move of the partition's replicas is under way.",
    E.GROUP_SUBSCRIBED_TO_TOPIC: "Offsets cannot be deleted of a topic to which the group subscribes.",
    E.INVALID_RECORD: "The broker refuses a record for what is in it, as one without a key for a compacted topic; or "
    "its batch.",
    E.UNSTABLE_OFFSET_COMMIT: "Offsets of a transaction that is not complete stand in the way.",
    E.THROTTLING_QUOTA_EXCEEDED: "The client changes topics faster than its quota allows.",
    E.PRODUCER_FENCED: "A newer producer with the same transactional id has taken over.",
    E.RESOURCE_NOT_FOUND: "What the request names does not exist, as a user of SCRAM credentials.",
    E.DUPLICATE_RESOURCE: "The request names the same thing twice.",
    E.UNACCEPTABLE_CREDENTIAL: "New credentials are not good enough: too few iterations, an empty name.",
    E.INCONSISTENT_VOTER_SET: "The two sides do not mean the same voters of the metadata quorum.",
    E.INVALID_UPDATE_VERSION: "A feature cannot go to that level.",
    E.FEATURE_UPDATE_FAILED: "Features could not be changed; the broker's log tells why.",
    E.PRINCIPAL_DESERIALIZATION_FAILURE: "A broker handed a request on, and for whom cannot be read.",
    E.SNAPSHOT_NOT_FOUND: "There is no such snapshot of the metadata.",
    E.POSITION_OUT_OF_RANGE: "A piece of a snapshot is asked for that lies outside of it.",
    E.UNKNOWN_TOPIC_ID: "The broker knows no topic with that id: it was deleted, made anew, or is not known there yet.",
    E.DUPLICATE_BROKER_REGISTRATION: "A broker with the same id is registered and alive; after a restart it counts as "
    "alive for a while.",
    E.BROKER_ID_NOT_REGISTERED: "The controller knows no broker of that id.",
    E.INCONSISTENT_TOPIC_ID: "The topic's id is another one than in the broker's log.",
    E.INCONSISTENT_CLUSTER_ID: "The two sides belong to different clusters.",
    E.TRANSACTIONAL_ID_NOT_FOUND: "There is no transaction of that transactional id.",
    E.FETCH_SESSION_TOPIC_ID_ERROR: "A fetch session goes by topic names, and the request by ids, or the other way "
    "round.",
    E.INELIGIBLE_REPLICA: "A replica cannot be taken among those in sync: its broker is down, or was started again.",
    E.NEW_LEADER_ELECTED: "The request was served, and the partition got another leader by it.",
    E.OFFSET_MOVED_TO_TIERED_STORAGE: "The offset is in remote storage only: a follower has to begin behind it.",
    E.FENCED_MEMBER_EPOCH: "The member's epoch is not what the coordinator gave it: the member has to join again.",
    E.UNRELEASED_INSTANCE_ID: "Another member still has that group.instance.id.",
    E.UNSUPPORTED_ASSIGNOR: "The coordinator, or the group, does not have that assignor.",
    E.STALE_MEMBER_EPOCH: "The member's epoch is old: it has to heartbeat, take over the newer one, and ask again.",
    E.MISMATCHED_ENDPOINT_TYPE: "A broker was taken for a controller, or the other way round.",
    E.UNSUPPORTED_ENDPOINT_TYPE: "That type of endpoint is not known there.",
    E.UNKNOWN_CONTROLLER_ID: "There is no controller of that id.",
    E.UNKNOWN_SUBSCRIPTION_ID: "The client's telemetry subscription has changed: it has to fetch it again.",
    E.TELEMETRY_TOO_LARGE: "A client's metrics are larger than brokers take.",
    E.INVALID_REGISTRATION: "The controller does not take a broker's registration for what is in it.",
    E.TRANSACTION_ABORTABLE: "The transaction failed and can only be aborted.",
    E.INVALID_RECORD_STATE: "The records are not in a state in which this member may acknowledge them.",
    E.SHARE_SESSION_NOT_FOUND: "The broker has no share session of that group and member.",
    E.INVALID_SHARE_SESSION_EPOCH: "The epoch is not the one that the share session expects.",
    E.FENCED_STATE_EPOCH: "The state epoch of a share partition is older than the stored one.",
    E.INVALID_VOTER_KEY: "A voter of the metadata quorum does not have that directory.",
    E.DUPLICATE_VOTER: "That voter is in the metadata quorum already.",
    E.VOTER_NOT_FOUND: "That voter is not in the metadata quorum.",
    E.INVALID_REGULAR_EXPRESSION: "The pattern by which a member subscribes is no regular expression.",
    E.REBOOTSTRAP_REQUIRED: "The client has to begin again with its bootstrap servers.",
    E.STREAMS_INVALID_TOPOLOGY: "A Streams member sent a topology that cannot be.",
    E.STREAMS_INVALID_TOPOLOGY_EPOCH: "A Streams member's topology epoch cannot be.",
    E.STREAMS_TOPOLOGY_FENCED: "A Streams member has an older topology than its group.",
    E.SHARE_SESSION_LIMIT_REACHED: "The broker has as many share sessions as it may.",
    E.GROUP_DELETION_FAILED: "The group could not be deleted.",
    E.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: "What a Streams member tells of its topology could not be stored.",
    E.CONTROLLER_ID_NOT_REGISTERED: "No controller of that id is registered.",
}
