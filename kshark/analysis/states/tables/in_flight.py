"""The in-flight machine: the records of a share partition from acquisition to their end (KIP-932).

Kafka: RecordState, SharePartition.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

from kshark.analysis.facts.machine import Machine
from kshark.api_keys import (
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    WRITE_SHARE_GROUP_STATE,
)


class Stage(StrEnum):
    """The state of a record.

    ARCHIVING: it is on its way to a dead-letter queue (KIP-1191).
    UNKNOWN: the capture does not show the state.
    """

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ACKNOWLEDGED = "acknowledged"
    ARCHIVING = "archiving"
    ARCHIVED = "archived"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__


AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED, UNKNOWN = Stage
#: Ended records: the start offset passes them.
TERMINAL: Final = frozenset({ACKNOWLEDGED, ARCHIVED})
#: The ids under which a share coordinator stores them (Kafka: PersisterStateBatch); acquired is never stored.
STORED: Final = {0: AVAILABLE, 2: ACKNOWLEDGED, 3: ARCHIVING, 4: ARCHIVED}


class AcknowledgementType(IntEnum):
    """Acknowledgement types. GAP: there is no record. RENEW only renews the lock (KIP-1222)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4

    __hash__ = int.__hash__


GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgementType
#: The state of an acquired record after an acknowledgement. A release after the last delivery archives it instead.
AFTER: Final[dict[int, Stage]] = {
    GAP: ARCHIVED,
    ACCEPT: ACKNOWLEDGED,
    RELEASE: AVAILABLE,
    REJECT: ARCHIVED,
    RENEW: ACQUIRED,
}
#: The words for acknowledgements.
EVENT: Final[dict[int, str]] = {
    GAP: "gap",
    ACCEPT: "accepted",
    RELEASE: "released",
    REJECT: "rejected",
    RENEW: "renewed",
}
#: The words for causes that give records back without ending them, and that end their last delivery.
GIVEN_BACK: Final = frozenset({"released", "lock_timeout", "session_released"})
#: The lowest delivery count limit that a broker accepts, and the default (group.share.delivery.count.limit).
LEAST_LIMIT: Final = 2
USUAL_LIMIT: Final = 5

IN_FLIGHT: Final = Machine(
    "in flight",
    key=("group_id", "topic_id", "partition"),
    apis=frozenset(
        {SHARE_FETCH, SHARE_ACKNOWLEDGE, INITIALIZE_SHARE_GROUP_STATE, READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE}
    ),
    states=tuple(Stage),
    about="the in-flight records of a share partition (KIP-932)",
)
