"""Remedies: the duty of a client after an error, before it sends the same request again. By error code, as data.

Sources: Kafka's error codes (org.apache.kafka.common.protocol.Errors), KIP-394 (member ids), KIP-951 (leader hints),
the Java client (NetworkClient, Sender, AbstractCoordinator).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kshark_dissectors.enums import ApiKey as A
from kshark_dissectors.enums import ErrorCode as E
from kshark_dissectors.errors import RETRIABLE

_MS: Final = 1_000_000
#: Requests that go to the leader of a partition.
_TO_LEADERS: Final = frozenset(
    {
        *(A.PRODUCE, A.FETCH, A.LIST_OFFSETS, A.DELETE_RECORDS, A.OFFSET_FOR_LEADER_EPOCH, A.DESCRIBE_PRODUCERS),
        *(A.SHARE_FETCH, A.SHARE_ACKNOWLEDGE),
    }
)
#: Requests between brokers and controllers, which repeat their requests by other rules.
BETWEEN_BROKERS: Final = frozenset(
    {
        *(A.LEADER_AND_ISR, A.STOP_REPLICA, A.UPDATE_METADATA, A.CONTROLLED_SHUTDOWN, A.WRITE_TXN_MARKERS),
        *(A.VOTE, A.BEGIN_QUORUM_EPOCH, A.END_QUORUM_EPOCH, A.DESCRIBE_QUORUM, A.FETCH_SNAPSHOT, A.ALTER_PARTITION),
        *(A.ENVELOPE, A.BROKER_REGISTRATION, A.BROKER_HEARTBEAT, A.ALLOCATE_PRODUCER_IDS, A.CONTROLLER_REGISTRATION),
        *(A.ASSIGN_REPLICAS_TO_DIRS, A.UPDATE_RAFT_VOTER, A.INITIALIZE_SHARE_GROUP_STATE, A.READ_SHARE_GROUP_STATE),
        *(A.WRITE_SHARE_GROUP_STATE, A.DELETE_SHARE_GROUP_STATE, A.READ_SHARE_GROUP_STATE_SUMMARY),
    }
)
#: Codes of share groups whose repetition other rules judge: NO_RECOVERY, REOPEN_HOT_LOOP, NO_REJOIN_AFTER_FENCE.
OTHER_RULES: Final = frozenset(
    {
        E.SHARE_SESSION_NOT_FOUND,
        E.INVALID_SHARE_SESSION_EPOCH,
        E.SHARE_SESSION_LIMIT_REACHED,
        E.FENCED_MEMBER_EPOCH,
        E.UNKNOWN_MEMBER_ID,
    }
)


class Remedy(Struct, frozen=True):
    """The duty of a client after one of `codes` in answers to `of` (None: any API).

    `by`: the requests that are the remedy; none: the client alone has no remedy. `least_ns`: for so long a client may
    go on without it, while the requests that it had queued are refused. `elsewhere`: the client may send the remedy to
    any broker. `is_fault`: to leave it out is a mistake of the client. `lacks` completes "the client ...".
    """

    cause: str
    codes: frozenset[int]
    of: frozenset[int] | None
    by: frozenset[int]
    least_ns: int
    elsewhere: bool
    is_fault: bool
    lacks: str


REMEDIES: Final = (
    Remedy(
        "no_metadata_refresh",
        frozenset(
            {
                E.UNKNOWN_TOPIC_OR_PARTITION,
                E.LEADER_NOT_AVAILABLE,
                E.NOT_LEADER_OR_FOLLOWER,
                E.UNKNOWN_TOPIC_ID,
            }
        ),
        _TO_LEADERS,
        frozenset({A.METADATA, A.DESCRIBE_TOPIC_PARTITIONS}),
        100 * _MS,
        True,
        True,
        "sent no Metadata request in between, which this error asks for",
    ),
    Remedy(
        "no_coordinator_lookup",
        frozenset({E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}),
        None,
        frozenset({A.FIND_COORDINATOR}),
        100 * _MS,
        True,
        True,
        "sent no FindCoordinator in between, which this error asks for",
    ),
    Remedy(
        "no_rejoin",
        frozenset({E.REBALANCE_IN_PROGRESS}),
        None,
        frozenset({A.JOIN_GROUP}),
        0,
        False,
        True,
        "did not join again within its rebalance timeout, which this error asks for",
    ),
    Remedy(
        "member_id_not_adopted",
        frozenset({E.MEMBER_ID_REQUIRED}),
        frozenset({A.JOIN_GROUP}),
        frozenset({A.JOIN_GROUP}),
        0,
        False,
        True,
        "never joined with the member id that each of these answers gives it",
    ),
    Remedy(
        "not_authorized",
        frozenset(
            {
                E.TOPIC_AUTHORIZATION_FAILED,
                E.GROUP_AUTHORIZATION_FAILED,
                E.CLUSTER_AUTHORIZATION_FAILED,
                E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                E.SASL_AUTHENTICATION_FAILED,
                E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            }
        ),
        None,
        frozenset(),
        0,
        False,
        False,
        "gets the same answer until its rights or its credentials change",
    ),
)
#: Requests that are remedies of some error.
REMEDY_APIS: Final = frozenset().union(*(remedy.by for remedy in REMEDIES))
_LOOKUPS: Final = frozenset({A.METADATA, A.FIND_COORDINATOR})
_BY_CODE: Final = {code: remedy for remedy in REMEDIES for code in remedy.codes}


def remedy_of(api_key: int, code: int) -> Remedy | None:
    """Return the remedy of an error in an answer to an API; None if the client only has to pause."""
    remedy = _BY_CODE.get(code)
    if remedy is None or api_key in _LOOKUPS or (remedy.of is not None and api_key not in remedy.of):
        return None
    return remedy


def is_retry(api_key: int, code: int) -> bool:
    """True if a client that sends such a request again right after this error retries.

    After other errors it sends its next request.
    """
    return code in RETRIABLE or api_key == A.FETCH
