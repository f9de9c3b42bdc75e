"""The persister machine: the stored state of a share partition and its effect on requests (KIP-932).

Source: Kafka's ShareCoordinatorShard and PersisterStateBatchCombiner; the behaviour of 4.0 to 4.4 on the wire. Read
raises the stored leader epoch, and only Initialize sets the state epoch. Before 4.2 a Write sets both: see
kshark.analysis.facts.releases.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kshark.analysis.facts.machine import Machine
from kshark.analysis.facts.state_steps import ACCEPTED, FENCED_LEADER, FENCED_STATE, INVALID, StateReply
from kshark.api_keys import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
)


class StoredCondition(Enum):
    """The stored state of a share partition, relative to a request."""

    NOTHING = "nothing"
    FITTING = "a state, no epoch of which is above the request's"
    NEWER_STATE = "a state with a higher state epoch"
    NEWER_LEADER = "a state with a higher leader epoch"


NOTHING, FITTING, NEWER_STATE, NEWER_LEADER = StoredCondition
#: Highest number of records between start and end offset of a share partition, by Kafka's highest limit:
#: group.share.partition.max.record.locks.
LONGEST_WINDOW: Final = 10_000

#: request                         nothing   fitting  newer state epoch  newer leader epoch
PERSISTER_REPLY: Final = {
    INITIALIZE_SHARE_GROUP_STATE: (ACCEPTED, ACCEPTED, FENCED_STATE, ACCEPTED),
    READ_SHARE_GROUP_STATE: (INVALID, ACCEPTED, ACCEPTED, FENCED_LEADER),
    WRITE_SHARE_GROUP_STATE: (INVALID, ACCEPTED, FENCED_STATE, FENCED_LEADER),
    DELETE_SHARE_GROUP_STATE: (ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED),
    READ_SHARE_GROUP_STATE_SUMMARY: (ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED),
}


def reply_due(api_key: int, held: StoredCondition) -> StateReply:
    """Return the share coordinator's answer to the request in this state."""
    return PERSISTER_REPLY[api_key][_COLUMNS[held]]


_COLUMNS: Final = {held: column for column, held in enumerate(StoredCondition)}
PERSISTER: Final = Machine(
    "persister",
    key=("group_id", "topic_id", "partition"),
    apis=frozenset(PERSISTER_REPLY),
    states=tuple(held.value for held in StoredCondition),
    about="the stored state of a share partition (KIP-932)",
)
