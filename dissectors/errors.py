"""What Kafka's error codes mean: whether a client may retry, and which answers among share groups carry one, and why.

A code is retriable if its exception is: org.apache.kafka.common.errors, subclasses of RetriableException.
"""

from typing import Final, NamedTuple

from dissectors.enums import ErrorCode as E

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

#: What share groups send the code for. Sources: KIP-932; Kafka classes KafkaApis, SharePartitionManager, SharePartition,
#: GroupMetadataManager, ShareCoordinatorShard.
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
    E.UNKNOWN_MEMBER_ID: (Sent(_HEARTBEAT, _TOP, "the member left, was removed after its session timeout (45 s), or never joined"),),
    E.TOPIC_AUTHORIZATION_FAILED: (Sent(_SESSION, _PART, "no READ on the topic"),),
    E.GROUP_AUTHORIZATION_FAILED: (Sent(_SESSION, _TOP, "no READ on the group; the session's epoch does not advance"),),
    E.UNSUPPORTED_VERSION: (Sent(_SESSION, _TOP, "share groups are off (share.version below 1); the session's epoch does not advance"),),
    E.INVALID_REQUEST: (
        Sent(_FETCH, _TOP, "epoch 0 with acknowledgements; the session, if there is one, stays as it was"),
        Sent(_SESSION, _TOP, "a member id that is null, empty or longer than 36 characters, or limits in a renewing fetch"),
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
    E.FENCED_LEADER_EPOCH: (Sent(_STATE, _PART, "a former leader reads or writes: the coordinator has seen a newer leader epoch"),),
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
        Sent(_FETCH, _TOP, "the session moved on while the fetch waited; what it acquired stays locked until its time runs out"),
    ),
    E.FENCED_STATE_EPOCH: (Sent(_STATE, _PART, "an older state epoch than the stored one: the partition was initialized again since"),),
    E.SHARE_SESSION_LIMIT_REACHED: (
        Sent(_FETCH, _TOP, "the broker holds group.share.max.share.sessions sessions (2000); answered after max_wait_ms"),
    ),
}

#: What a client does after these, by KIP-932.
REMEDY: Final[dict[E, str]] = {
    E.COORDINATOR_LOAD_IN_PROGRESS: "wait, then send the same request again",
    E.COORDINATOR_NOT_AVAILABLE: "wait, then ask FindCoordinator again",
    E.NOT_COORDINATOR: "ask FindCoordinator, and send the request to the broker that it names",
    E.UNSUPPORTED_VERSION: "ask ApiVersions; where share groups are off the cluster has to switch them on (feature share.version 1)",
    E.INVALID_REQUEST: "mend the request: sent again as it is, it is refused again",
    E.GROUP_MAX_SIZE_REACHED: "wait until another member has left, or raise group.share.max.size",
    E.UNKNOWN_TOPIC_ID: "ask for metadata: the topic was deleted or made anew; forget the old id",
    E.INVALID_RECORD_STATE: "drop the acknowledgement; the records come again to somebody, with their delivery count raised",
    E.SHARE_SESSION_NOT_FOUND: "open a new session: ShareFetch with epoch 0 and every partition; acknowledgements in flight failed",
    E.INVALID_SHARE_SESSION_EPOCH: "open a new session: ShareFetch with epoch 0 and every partition; acknowledgements in flight failed",
    E.SHARE_SESSION_LIMIT_REACHED: "wait, then ShareFetch with epoch 0 again",
    E.UNKNOWN_MEMBER_ID: "join again: heartbeat with member epoch 0",
    E.FENCED_MEMBER_EPOCH: "join again: heartbeat with member epoch 0",
    E.NOT_LEADER_OR_FOLLOWER: "take the leader from the answer, or ask for metadata",
}
