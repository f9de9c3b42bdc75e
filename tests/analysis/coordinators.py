"""Conversations of brokers: who leads a share partition, or coordinates its group, has its state stored by a share
coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kshark_dissectors.enums import ErrorCode
from tests.conversation import TOPIC, Asked, Connection, Conversation

FENCED_STATE_EPOCH = ErrorCode.FENCED_STATE_EPOCH
FENCED_LEADER_EPOCH = ErrorCode.FENCED_LEADER_EPOCH
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
ACCEPTED, AVAILABLE, ARCHIVED = 2, 0, 4

#: First and last offset, state, delivery count.
Batch = tuple[int, int, int, int]


@dataclass
class Sender:
    """A broker on its connection to the share coordinator, asking about one share partition."""

    connection: Connection
    partition: int = 0
    group: str = "g"
    topic: str = TOPIC

    def initialize(self, state_epoch: int = 2, start: int = -1) -> StoredSituation:
        return self._ask(83, "InitializeShareGroupState", 0, state_epoch=state_epoch, start_offset=start)

    def read(self, leader_epoch: int = 0) -> StoredSituation:
        return self._ask(84, "ReadShareGroupState", 0, leader_epoch=leader_epoch)

    def write(
        self, start: int, *batches: Batch, state_epoch: int = 2, leader_epoch: int = 0, complete: int = -1
    ) -> StoredSituation:
        numbers = {
            "state_epoch": state_epoch,
            "leader_epoch": leader_epoch,
            "start_offset": start,
            "delivery_complete_count": complete,
        }
        return self._ask(85, "WriteShareGroupState", 1, **numbers, state_batches=_batches(batches))

    def delete(self) -> StoredSituation:
        return self._ask(86, "DeleteShareGroupState", 0)

    def summary(self, leader_epoch: int = 0) -> StoredSituation:
        return self._ask(87, "ReadShareGroupStateSummary", 1, leader_epoch=leader_epoch)

    def _ask(self, key: int, api: str, version: int, **numbers: Any) -> StoredSituation:
        topics = [{"topic_id": self.topic, "partitions": [{"partition": self.partition, **numbers}]}]
        return StoredSituation(self.connection.ask(key, api, version, {"group_id": self.group, "topics": topics}), self)


@dataclass
class StoredSituation:
    """A request to the share coordinator."""

    asked: Asked
    sender: Sender

    def accepted(self) -> Asked:
        return self._answered(0)

    def refused(self, error: int) -> Asked:
        return self._answered(error)

    def given(self, start: int, *batches: Batch, state_epoch: int = 2) -> Asked:
        """A Read gets the state."""
        return self._answered(0, state_epoch=state_epoch, start_offset=start, state_batches=_batches(batches))

    def summed_up(self, start: int, *, state_epoch: int = 2, leader_epoch: int = 0, complete: int = -1) -> Asked:
        """A Summary gets its numbers."""
        numbers = {
            "state_epoch": state_epoch,
            "leader_epoch": leader_epoch,
            "start_offset": start,
            "delivery_complete_count": complete,
        }
        return self._answered(0, **numbers)

    def _answered(self, error: int, **told: Any) -> Asked:
        one = {"partition": self.sender.partition, "error_code": int(error), "error_message": None, **told}
        return self.asked.answered(None, results=[{"topic_id": self.sender.topic, "partitions": [one]}])


def _batches(batches: tuple[Batch, ...]) -> list[dict[str, int]]:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    return [dict(zip(names, batch, strict=True)) for batch in batches]


def leader(talk: Conversation, **where: Any) -> Sender:
    """A broker that leads a partition whose state another one has initialized, and was given it."""
    Sender(talk.connection(), **where).initialize().accepted()
    sender = Sender(talk.connection(), **where)
    sender.read().given(-1)
    return sender
