"""Members of share groups: what their heartbeats tell of them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kshark import limits
from kshark.analysis.brokers import Broker
from kshark.analysis.steps import JOINING, Call, Partition

#: Assignments of one member that are remembered.
_ASSIGNMENTS: Final = 16


class Assignment(NamedTuple):
    """What the member was told to fetch from, as of a packet; `partitions` None: not known from there on."""

    packet: int
    partitions: frozenset[Partition] | None


@dataclass(slots=True, eq=False)
class Member:
    """One member of one group."""

    #: Its join, where that is the first the capture shows of it.
    join: Call | None = None
    assignments: list[Assignment] = field(default_factory=list)
    #: The member epoch that the coordinator gave last, and the last request that came with it: until there no assignment was missed.
    epoch: int | None = None
    confirmed: int = 0
    #: Brokers with which it had share sessions.
    brokers: list[Broker] = field(default_factory=list)

    def heartbeat(self, request: int, sent: int, answer: int | None, given: int | None, partitions: frozenset[Partition] | None) -> None:
        """A heartbeat: the request's packet and member epoch, the answer's, and the assignment where that brings one.

        A member takes a new epoch with a new assignment (KIP-848): one that it was not seen to be given came with a missing answer.
        """
        if self.epoch is not None and sent == self.epoch:
            self.confirmed = request
        elif sent != JOINING or answer is None:
            self._learn(max(self.confirmed, self.assignments[-1].packet + 1 if self.assignments else 0), None)
        if answer is not None:
            self.epoch = given
            if partitions is not None:
                self._learn(answer, partitions)

    def _learn(self, packet: int, partitions: frozenset[Partition] | None) -> None:
        if partitions is not None or (self.assignments and self.assignments[-1].partitions is not None):
            self.assignments = [*self.assignments, Assignment(packet, partitions)][-_ASSIGNMENTS:]

    def is_assigned(self, partition: Partition, packet: int) -> bool | None:
        """Whether the partition was the member's as of that packet; None where that is not known."""
        told = next((one.partitions for one in reversed(self.assignments) if one.packet <= packet), None)
        return None if told is None else partition in told


class NotAssigned(NamedTuple):
    """Proof that a member was told nothing else up to a packet: its next heartbeat still has the epoch that came with the assignment."""

    member: Member
    partition: Partition
    packet: int

    def holds(self) -> bool | None:
        """None while no later heartbeat was seen."""
        assigned = self.member.is_assigned(self.partition, self.packet)
        if assigned is not False:
            return False
        return True if self.member.confirmed > self.packet else None


class Members:
    """Every member that the capture shows, the longest unused forgotten first."""

    def __init__(self) -> None:
        self._members: OrderedDict[tuple[str | None, str | None], Member] = OrderedDict()
        #: Members were forgotten: nobody's first trace is its beginning any more.
        self.forgetful = False

    def __contains__(self, key: tuple[str | None, str | None]) -> bool:
        return key in self._members

    def of(self, group_id: str | None, member_id: str | None) -> Member:
        key = (group_id, member_id)
        found = self._members.get(key)
        if found is None:
            found = self._members[key] = Member()
            if len(self._members) > limits.SESSIONS:
                self._members.popitem(last=False)
                self.forgetful = True
        else:
            self._members.move_to_end(key)
        return found
