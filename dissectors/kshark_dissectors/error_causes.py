"""Causes of error codes: why an answer of these APIs carries one.

Each API of a cause is one that sends the code (api_errors.py). Sources: KIP-98, KIP-227, KIP-848, KIP-932; Kafka:
KafkaApis, SharePartitionManager, SharePartition, GroupMetadataManager, ShareCoordinatorShard, TransactionCoordinator,
FetchSession, SaslServerAuthenticator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kshark_dissectors.enums import ApiKey as A
from kshark_dissectors.enums import ErrorCode as E


class Sender(NamedTuple):
    """The APIs that send a code, in words, and by key."""

    name: str
    apis: tuple[int, ...]


class Cause(NamedTuple):
    """Why these APIs send the code, and at which level of the answer."""

    sender: Sender
    level: str
    text: str


_TOP: Final = "top level"
_PART: Final = "partition"
_GROUP: Final = "group"
#: Of APIs of which OffsetCommit alone has no error code but those of partitions.
_EITHER: Final = "top level or partition"
_SESSION: Final = Sender("ShareFetch, ShareAcknowledge", (A.SHARE_FETCH, A.SHARE_ACKNOWLEDGE))
_FETCH: Final = Sender("ShareFetch", (A.SHARE_FETCH,))
_ACKNOWLEDGE: Final = Sender("ShareAcknowledge", (A.SHARE_ACKNOWLEDGE,))
_ACK: Final = Sender("ShareAcknowledge, and acknowledgements in ShareFetch", (A.SHARE_FETCH, A.SHARE_ACKNOWLEDGE))
_HEARTBEAT: Final = Sender("ShareGroupHeartbeat", (A.SHARE_GROUP_HEARTBEAT,))
_HEARTBEATS: Final = Sender(
    "ShareGroupHeartbeat, ConsumerGroupHeartbeat", (A.SHARE_GROUP_HEARTBEAT, A.CONSUMER_GROUP_HEARTBEAT)
)
_DESCRIBE: Final = Sender("ShareGroupDescribe", (A.SHARE_GROUP_DESCRIBE,))
_OFFSETS: Final = Sender(
    "AlterShareGroupOffsets, DeleteShareGroupOffsets", (A.ALTER_SHARE_GROUP_OFFSETS, A.DELETE_SHARE_GROUP_OFFSETS)
)
_STATE: Final = Sender(
    "share coordinator (APIs 83-87)",
    (
        A.INITIALIZE_SHARE_GROUP_STATE,
        A.READ_SHARE_GROUP_STATE,
        A.WRITE_SHARE_GROUP_STATE,
        A.DELETE_SHARE_GROUP_STATE,
        A.READ_SHARE_GROUP_STATE_SUMMARY,
    ),
)
_USE_STATE: Final = Sender(
    "ReadShareGroupState, WriteShareGroupState, ReadShareGroupStateSummary",
    (A.READ_SHARE_GROUP_STATE, A.WRITE_SHARE_GROUP_STATE, A.READ_SHARE_GROUP_STATE_SUMMARY),
)
_SET_STATE: Final = Sender(
    "InitializeShareGroupState, WriteShareGroupState", (A.INITIALIZE_SHARE_GROUP_STATE, A.WRITE_SHARE_GROUP_STATE)
)
_FIND: Final = Sender("FindCoordinator", (A.FIND_COORDINATOR,))
_CONSUMER: Final = Sender("ConsumerGroupHeartbeat", (A.CONSUMER_GROUP_HEARTBEAT,))
_COMMIT: Final = Sender("OffsetCommit", (A.OFFSET_COMMIT,))
_COMMIT_OR_FETCH: Final = Sender("OffsetCommit, OffsetFetch", (A.OFFSET_COMMIT, A.OFFSET_FETCH))
_JOIN: Final = Sender("JoinGroup", (A.JOIN_GROUP,))
_CLASSIC: Final = Sender(
    "JoinGroup, SyncGroup, Heartbeat, OffsetCommit", (A.JOIN_GROUP, A.SYNC_GROUP, A.HEARTBEAT, A.OFFSET_COMMIT)
)
_GENERATION: Final = Sender("SyncGroup, Heartbeat, OffsetCommit", (A.SYNC_GROUP, A.HEARTBEAT, A.OFFSET_COMMIT))
_PRODUCE: Final = Sender("Produce", (A.PRODUCE,))
_READ: Final = Sender("Fetch", (A.FETCH,))
_INIT: Final = Sender("InitProducerId", (A.INIT_PRODUCER_ID,))
_TRANSACTION: Final = Sender(
    "AddPartitionsToTxn, AddOffsetsToTxn, EndTxn", (A.ADD_PARTITIONS_TO_TXN, A.ADD_OFFSETS_TO_TXN, A.END_TXN)
)
_TXN_COMMIT: Final = Sender("TxnOffsetCommit", (A.TXN_OFFSET_COMMIT,))
_HANDSHAKE: Final = Sender("SaslHandshake", (A.SASL_HANDSHAKE,))
_AUTHENTICATE: Final = Sender("SaslAuthenticate", (A.SASL_AUTHENTICATE,))
_VERSIONS: Final = Sender("ApiVersions", (A.API_VERSIONS,))
_METADATA: Final = Sender("Metadata", (A.METADATA,))

CAUSES: Final[Mapping[E, tuple[Cause, ...]]] = {
    E.UNKNOWN_SERVER_ERROR: (
        Cause(_FETCH, _TOP, "4.1 and later: the session holds an unknown topic id; the epoch is used up all the same"),
        Cause(_FETCH, _TOP, "epoch 0 with one partition listed twice; the old session is gone"),
        Cause(_FETCH, _PART, "the group never subscribed to the topic, so its share partition was not initialized"),
    ),
    E.OFFSET_OUT_OF_RANGE: (
        Cause(_READ, _PART, "below the log start offset: retention or DeleteRecords removed the records"),
        Cause(_READ, _PART, "above the end of the log: another leader has fewer records, or the offset is wrong"),
    ),
    E.UNKNOWN_TOPIC_OR_PARTITION: (
        Cause(_ACK, _PART, "the broker does not lead this partition, or dropped it with the group's last session"),
        Cause(_STATE, _PART, "the topic is not in the metadata"),
        Cause(_METADATA, "topic", "the topic does not exist, or was created a moment ago"),
    ),
    E.LEADER_NOT_AVAILABLE: (
        Cause(_METADATA, "topic or partition", "the topic was just created by this request, or its leader is down"),
    ),
    E.NOT_LEADER_OR_FOLLOWER: (
        Cause(
            _FETCH,
            _PART,
            "the leader moved (current_leader says where to), or its leader or state epoch was fenced",
        ),
    ),
    E.COORDINATOR_LOAD_IN_PROGRESS: (
        Cause(_HEARTBEAT, _TOP, "the group coordinator is reading its log; ordinary while a broker starts"),
        Cause(_STATE, _PART, "the coordinator is reading its log; ordinary while a broker starts"),
    ),
    E.COORDINATOR_NOT_AVAILABLE: (
        Cause(_FIND, _PART, "its topic is not ready yet; ordinary while a broker starts"),
        Cause(_HEARTBEAT, _TOP, "the group coordinator has not begun yet, or is being stopped"),
    ),
    E.NOT_COORDINATOR: (
        Cause(
            _HEARTBEAT,
            _TOP,
            "another broker coordinates the group, or this one has not taken it over yet, as at its start",
        ),
        Cause(_STATE, _PART, "the share coordinator of that key is another broker"),
    ),
    E.ILLEGAL_GENERATION: (
        Cause(_GENERATION, _EITHER, "the group was rebalanced, and this member still uses the generation before"),
    ),
    E.INCONSISTENT_GROUP_PROTOCOL: (
        Cause(_JOIN, _TOP, "no assignor that every member of the group offers, or another protocol type"),
        Cause(_JOIN, _TOP, "the id belongs to a share group, or to a consumer group with another assignor"),
    ),
    E.UNKNOWN_MEMBER_ID: (
        Cause(_HEARTBEATS, _TOP, "the member left, was removed after its session timeout (45 s), or never joined"),
        Cause(
            _CLASSIC, _EITHER, "the member left, missed its session_timeout_ms or max.poll.interval.ms, or never joined"
        ),
        Cause(_COMMIT, _PART, "a simple consumer (generation -1, no member id) commits for a group with members"),
    ),
    E.REBALANCE_IN_PROGRESS: (
        Cause(
            _GENERATION, _EITHER, "a member joined, left, timed out or changed its subscription; all have to join again"
        ),
    ),
    E.TOPIC_AUTHORIZATION_FAILED: (
        Cause(_SESSION, _PART, "no READ on the topic"),
        Cause(_HEARTBEAT, _TOP, "no DESCRIBE on a topic to which the member subscribes"),
        Cause(_DESCRIBE, _GROUP, "no DESCRIBE on a topic of the group"),
    ),
    E.GROUP_AUTHORIZATION_FAILED: (
        Cause(_SESSION, _TOP, "no READ on the group; the session's epoch does not advance"),
        Cause(_HEARTBEAT, _TOP, "no READ on the group"),
        Cause(_DESCRIBE, _GROUP, "no DESCRIBE on the group"),
    ),
    E.UNSUPPORTED_SASL_MECHANISM: (
        Cause(_HANDSHAKE, _TOP, "the mechanism is not in sasl.enabled.mechanisms; the answer lists those that are"),
    ),
    E.ILLEGAL_SASL_STATE: (
        Cause(_HANDSHAKE, _TOP, "the listener does not use SASL, or the connection has authenticated already"),
        Cause(_AUTHENTICATE, _TOP, "no SaslHandshake came before, or the listener does not use SASL"),
    ),
    E.UNSUPPORTED_VERSION: (
        Cause(_SESSION, _TOP, "share groups are off (share.version below 1); the session's epoch does not advance"),
        Cause(_VERSIONS, _TOP, "the broker is older than the client; the answer has the layout of version 0"),
        Cause(
            _CONSUMER, _TOP, "the new protocol is off (group.version below 1, or group.coordinator.rebalance.protocols)"
        ),
        Cause(_COMMIT, _PART, "a member of a KIP-848 group commits with a version below 9"),
    ),
    E.INVALID_REQUEST: (
        Cause(_FETCH, _TOP, "epoch 0 with acknowledgements; the session, if there is one, stays as it was"),
        Cause(
            _SESSION,
            _TOP,
            "a member id that is null, empty or longer than 36 characters, or limits in a renewing fetch",
        ),
        Cause(
            _ACK,
            _PART,
            "batches inverted, overlapping, without types, with a wrong number of types, or beyond what is acquired",
        ),
        Cause(_HEARTBEAT, _TOP, "a join without topics, a member epoch below -1, or an empty id"),
        Cause(_STATE, _PART, "a share partition that was never initialized, or a negative epoch"),
        Cause(_VERSIONS, _TOP, "a client software name or version with forbidden characters"),
    ),
    E.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        Cause(
            _PRODUCE, _PART, "a batch of this producer before it was refused or lost, and this one came all the same"
        ),
        Cause(_PRODUCE, _PART, "two producers use one producer id and epoch"),
    ),
    E.INVALID_PRODUCER_EPOCH: (
        Cause(_PRODUCE, _PART, "another producer with this transactional id was started, or the transaction timed out"),
    ),
    E.INVALID_TXN_STATE: (
        Cause(_PRODUCE, _PART, "the partition was not added to the transaction, or the transaction has ended"),
        Cause(_TRANSACTION, _TOP, "a commit where an abort was begun, or the reverse, or no transaction is open"),
    ),
    E.INVALID_PRODUCER_ID_MAPPING: (
        Cause(
            _TRANSACTION,
            _TOP,
            "the transactional id expired (transactional.id.expiration.ms), or has a newer producer id",
        ),
    ),
    E.CONCURRENT_TRANSACTIONS: (
        Cause(_TRANSACTION, _TOP, "the markers of the transaction before are still being written; ask again"),
        Cause(_INIT, _TOP, "the open transaction of an earlier producer is being aborted first; ask again"),
    ),
    E.SASL_AUTHENTICATION_FAILED: (
        Cause(_AUTHENTICATE, _TOP, "wrong user or password, an expired token, or a user without credentials"),
    ),
    E.UNKNOWN_PRODUCER_ID: (
        Cause(
            _PRODUCE, _PART, "retention or DeleteRecords removed all records of this producer, or it was idle too long"
        ),
    ),
    E.NON_EMPTY_GROUP: (Cause(_OFFSETS, _TOP, "the group still has members"),),
    E.GROUP_ID_NOT_FOUND: (
        Cause(_HEARTBEAT, _TOP, "no such group, or the id belongs to a group of another type"),
        Cause(_CONSUMER, _TOP, "the id belongs to a group of another type, or the member leaves a group that is gone"),
        Cause(_COMMIT_OR_FETCH, "group or partition", "no such group, or it is a share group"),
    ),
    E.FETCH_SESSION_ID_NOT_FOUND: (
        Cause(
            _READ, _TOP, "the session was evicted (max.incremental.fetch.session.cache.slots), or the broker restarted"
        ),
    ),
    E.INVALID_FETCH_SESSION_EPOCH: (
        Cause(_READ, _TOP, "a fetch of the session was lost or repeated: the client opens a new one with epoch 0"),
    ),
    E.FENCED_LEADER_EPOCH: (
        Cause(_FETCH, _PART, "the leader moved while it fetched (current_leader says where to)"),
        Cause(_USE_STATE, _PART, "a former leader reads or writes: the coordinator has seen a newer leader epoch"),
    ),
    E.MEMBER_ID_REQUIRED: (
        Cause(
            _JOIN, _TOP, "a member without an id joins: the answer gives it one, with which it joins again (KIP-394)"
        ),
    ),
    E.GROUP_MAX_SIZE_REACHED: (
        Cause(_HEARTBEAT, _TOP, "the group has group.share.max.size members (200)"),
        Cause(_CONSUMER, _TOP, "the group has group.consumer.max.size members"),
        Cause(_JOIN, _TOP, "the group has group.max.size members"),
    ),
    E.FENCED_INSTANCE_ID: (
        Cause(_CLASSIC, _EITHER, "another member with this group.instance.id joined later and took its place"),
    ),
    E.UNSTABLE_OFFSET_COMMIT: (
        Cause(
            Sender("OffsetFetch", (A.OFFSET_FETCH,)), _PART, "require_stable, and an open transaction commits offsets"
        ),
    ),
    E.PRODUCER_FENCED: (
        Cause(_TRANSACTION, _TOP, "another producer with this transactional id called InitProducerId later"),
    ),
    E.UNKNOWN_TOPIC_ID: (Cause(_ACKNOWLEDGE, _PART, "a topic id that is zero or not in the metadata"),),
    E.FETCH_SESSION_TOPIC_ID_ERROR: (
        Cause(
            _READ,
            _TOP,
            "a session that began with topic names continues with ids (version 13 on), or the reverse",
        ),
    ),
    E.FENCED_MEMBER_EPOCH: (
        Cause(_HEARTBEAT, _TOP, "a member epoch that is neither the present nor the previous one"),
        Cause(_CONSUMER, _TOP, "a member epoch above the present one, or an old one with other partitions than before"),
    ),
    E.UNRELEASED_INSTANCE_ID: (
        Cause(_CONSUMER, _TOP, "a member with this instance_id is alive: it has to leave with epoch -2, or time out"),
    ),
    E.UNSUPPORTED_ASSIGNOR: (Cause(_CONSUMER, _TOP, "server_assignor is none of group.consumer.assignors"),),
    E.STALE_MEMBER_EPOCH: (
        Cause(_COMMIT_OR_FETCH, "group or partition", "a heartbeat's answer raised the member epoch meanwhile"),
    ),
    E.TRANSACTION_ABORTABLE: (
        Cause(_PRODUCE, _PART, "the partition could not be verified as part of the transaction (KIP-890)"),
        Cause(_TXN_COMMIT, _PART, "the group's partition could not be verified as part of the transaction (KIP-890)"),
    ),
    E.INVALID_RECORD_STATE: (
        Cause(_ACK, _PART, "the lock ran out before the acknowledgement came"),
        Cause(_ACK, _PART, "another member holds the records now, or nobody acquired them"),
        Cause(_ACK, _PART, "acknowledged before, and the start offset has not passed them yet"),
        Cause(_ACK, _PART, "RENEW while share.renew.acknowledge.enable is false"),
    ),
    E.SHARE_SESSION_NOT_FOUND: (
        Cause(_SESSION, _TOP, "the connection that opened the session closed (4.1 and later drop it then)"),
        Cause(_SESSION, _TOP, "the broker restarted or evicted the session"),
        Cause(_SESSION, _TOP, "the session was closed with epoch -1, or never opened with epoch 0 on this broker"),
        Cause(
            _SESSION,
            _TOP,
            "4.1: reopened elsewhere, and the old connection's close took the new session along (KAFKA-19950)",
        ),
        Cause(_FETCH, _TOP, "4.0: no room for another session (later releases answer 133)"),
    ),
    E.INVALID_SHARE_SESSION_EPOCH: (
        Cause(_SESSION, _TOP, "the epoch just used, again: an answer was lost and the request repeated"),
        Cause(_SESSION, _TOP, "an epoch ahead: a request was counted that the broker refused or never got"),
        Cause(_SESSION, _TOP, "fetches and acknowledgements counted apart; they share one epoch"),
        Cause(_SESSION, _TOP, "two clients with one member id, or requests of one session on two connections at once"),
        Cause(_ACKNOWLEDGE, _TOP, "epoch 0: an acknowledgement cannot open a session"),
        Cause(
            _FETCH,
            _TOP,
            "the session moved on while the fetch waited; what it acquired stays locked until its time runs out",
        ),
    ),
    E.FENCED_STATE_EPOCH: (
        Cause(_SET_STATE, _PART, "an older state epoch than the stored one: the partition was initialized again since"),
        Cause(_ACK, _PART, "the share partition was initialized again while the broker held it in memory"),
    ),
    E.INVALID_REGULAR_EXPRESSION: (Cause(_CONSUMER, _TOP, "subscribed_topic_regex is not a pattern of RE2"),),
    E.SHARE_SESSION_LIMIT_REACHED: (
        Cause(
            _FETCH, _TOP, "the broker holds group.share.max.share.sessions sessions (2000); answered after max_wait_ms"
        ),
    ),
}
