"""What conversations of groups have in common: the groups of one, and members of the classic protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kshark.groups import Groups, ListedGroup, ListedMember
from kshark.pipeline import Options
from kshark_dissectors.embedded.consumer_protocol import ASSIGNMENT, SUBSCRIPTION
from tests.conversation import Asked, Connection, Conversation, Thinned, events
from tests.embedding import prefixed

REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79


def groups(talk: Conversation | Thinned, names: dict[str, str] | None = None) -> list[ListedGroup]:
    """All groups of a conversation."""
    known = Groups()
    for event in events(talk, Options(embedded=True)):
        known.feed(event)
    known.close()
    return known.listed(names or {})


def group(talk: Conversation | Thinned, names: dict[str, str] | None = None) -> ListedGroup:
    """The only one."""
    (one,) = groups(talk, names)
    return one


def member(talk: Conversation | Thinned) -> ListedMember:
    """The only member of the only group."""
    (one,) = group(talk).members
    return one


def states(one: ListedGroup) -> list[tuple[str | None, int]]:
    """Each change: the state, and how many members were in the group."""
    return [(row.state, row.members) for row in one.history]


def assignment(one: ListedMember) -> dict[str | None, list[int]] | None:
    """Partitions by topic."""
    return None if one.assignment is None else {topic.topic: topic.partitions for topic in one.assignment}


def tasks(one: ListedMember) -> dict[str, dict[str, list[int]]] | None:
    """Partitions by role and subtopology."""
    if one.tasks is None:
        return None
    told: dict[str, dict[str, list[int]]] = {}
    for each in one.tasks:
        told.setdefault(each.role, {})[each.subtopology] = sorted(each.partitions)
    return told


def how(one: ListedMember) -> str | None:
    """How its time in the group ended."""
    return None if one.ended is None else one.ended.how


def style(one: ListedMember) -> tuple[str | None, str] | None:
    """How it acknowledges, and why that is believed."""
    return None if one.acknowledges is None else (one.acknowledges.style, one.acknowledges.because)


@dataclass
class Classic:
    """A member of a classic group on one connection."""

    connection: Connection
    member_id: str
    group_id: str = "c"
    instance_id: str | None = None
    session_ms: int = 10_000
    rebalance_ms: int = 10_000

    def join(
        self,
        *topics: str,
        as_: str | None = None,
        owned: tuple[int, ...] = (),
        reason: str | None = None,
        protocol: str = "range",
    ) -> Asked:
        """`as_`: with that member id. `topics`: the subscription, of which it says it has the partitions `owned`."""
        has = [{"topic": "orders", "partitions": list(owned)}] if owned else []
        metadata = prefixed(SUBSCRIPTION, 3, topics=list(topics or ["orders"]), owned_partitions=has, rack_id="r1")
        body = {
            "group_id": self.group_id,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.member_id if as_ is None else as_,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [{"name": protocol, "metadata": metadata}],
        }
        if reason is not None:
            return self.connection.ask(11, "JoinGroup", 8, {**body, "reason": reason})
        return self.connection.ask(11, "JoinGroup", 5, body)

    def joins(self, generation: int, *members: Classic) -> Asked:
        """Joins and is told who else is in the generation, if any: then it is the leader."""
        told = [{"member_id": one.member_id, "group_instance_id": one.instance_id, "metadata": b""} for one in members]
        return self.join().answered(
            generation_id=generation, protocol_name="range", leader="", member_id=self.member_id, members=told
        )

    def syncs(self, generation: int, *partitions: int, error: int = 0, **of_others: list[int]) -> Asked:
        """Takes its assignment; `of_others`: the leader hands out theirs."""
        handed = [{"member_id": name, "assignment": _assigned(*theirs)} for name, theirs in of_others.items()]
        body = {**self._told(generation), "assignments": handed}
        return self.connection.ask(14, "SyncGroup", 3, body).answered(
            error, assignment=b"" if error else _assigned(*partitions)
        )

    def beats(self, generation: int, error: int = 0) -> Asked:
        return self.connection.ask(12, "Heartbeat", 3, self._told(generation)).answered(error)

    def leaves(self, *others: Classic, reason: str | None = None) -> Asked:
        """`others`: removes those instead of itself."""
        if reason is not None:
            named = [{"member_id": self.member_id, "group_instance_id": None, "reason": reason}]
            asked = self.connection.ask(13, "LeaveGroup", 5, {"group_id": self.group_id, "members": named})
            return asked.answered(members=[{"member_id": self.member_id, "group_instance_id": None, "error_code": 0}])
        named = [{"member_id": one.member_id, "group_instance_id": one.instance_id} for one in others or (self,)]
        asked = self.connection.ask(13, "LeaveGroup", 3, {"group_id": self.group_id, "members": named})
        return asked.answered(members=[{**one, "error_code": 0} for one in named])

    def _told(self, generation: int) -> dict[str, Any]:
        told = {"group_id": self.group_id, "generation_id": generation, "member_id": self.member_id}
        return {**told, "group_instance_id": self.instance_id}


def _assigned(*partitions: int) -> bytes:
    return prefixed(ASSIGNMENT, 3, assigned_partitions=[{"topic": "orders", "partitions": list(partitions)}])
