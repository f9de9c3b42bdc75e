"""Requests that the capture holds twice, on two connections: before and after a proxy or a NAT."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.calls import ACCEPTED, SUBSEQUENT, Acquired, Answer, ShareStep
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.states.member.state import Member
from kshark.analysis.states.session.state import SessionState

#: After this number of requests in a row without a copy, the connections are no longer copies.
_MISSED: Final = 16
#: The delay of a proxy or a NAT may vary by this time between packets.
_JITTER_NS: Final = 50_000_000


class CopiedConnection(Struct, eq=False):
    """A connection that carries the same requests as `of`; `asked`: its requests since the last one of `of`."""

    of: ConnectionFacts
    last_request: int = 0
    asked: int = 0

    def count_request(self) -> bool:
        """Count a request. Return True if the connection is still a copy."""
        if self.of.last_request != self.last_request:
            self.last_request, self.asked = self.of.last_request, 0
        self.asked += 1
        return self.asked <= _MISSED


def passed_on(step: ShareStep, others: Collection[ShareStep]) -> ShareStep | None:
    """Return the same request with the same answer on another connection, or None.

    A broker counts an epoch once and delivers records once. A proxy may change correlation ids. Then only delivered
    records prove that it is one request, because the session of the epoch may have been replaced in between. If another
    of these requests opens a session, equal ids prove nothing. Two openings prove nothing either: two clients may open
    their sessions in the same way.
    """
    if step.reply is not ACCEPTED or step.any_doubt is not None or step.answer is None:
        return None
    counted = step.kind is SUBSEQUENT and not any(other.opens for other in others)
    for other in others:
        if other.reply is not ACCEPTED or other.any_doubt is not None or not may_be_one(step, other):
            continue
        if step.end < other.packet or other.end < step.packet:
            continue
        if (
            (step.answer.acquired or (counted and is_again(step, other)))
            and _asks(other) == _asks(step)
            and _gets(other) == _gets(step)
        ):
            return other
    return None


class Acquisitions:
    """The sessions that acquired records last, by member, epoch and first range; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[Member, int, Acquired], SessionState] = OrderedDict()

    def elsewhere(self, step: ShareStep, answer: Answer, session: SessionState) -> ShareStep | None:
        """Return the same request of the member's session with another broker, with the same records at the same time.

        That broker is this one, under its address on the other side of a NAT. If there is none, note this acquisition.
        """
        key = session.member, step.epoch, answer.acquired[0]
        other = self._sessions.pop(key, None)
        if other is not None and other is not session and other.last_acquisition is not None:
            before, acquired = other.last_acquisition
            if (
                step.packet <= before.end
                and before.packet <= answer.packet
                and may_be_one(step, before)
                and acquired == answer.acquired
            ):
                self._sessions[key] = other
                return before
        self._sessions[key] = session
        if len(self._sessions) > limits.ACQUISITIONS:
            self._sessions.popitem(last=False)
        return None


def may_be_one(first: ShareStep, second: ShareStep) -> bool:
    """True if two requests may be the same one, seen at two places, as far as their epochs show."""
    return (
        first.connection is not second.connection
        and first.epoch == second.epoch
        and first.api_key == second.api_key
        and first.version == second.version
        and first.client_id == second.client_id
    )


def is_again(first: ShareStep, second: ShareStep) -> bool:
    """True if they also have the same correlation id."""
    return first.correlation_id == second.correlation_id and may_be_one(first, second)


def may_be_copy(first: ShareStep, second: ShareStep) -> bool:
    """True if they also have the same age since the beginning of their connections, where both were seen."""
    flows = first.connection.flow, second.connection.flow
    if not is_again(first, second):
        return False
    if any(flow.opened_by is None for flow in flows):
        return True
    return abs((first.time_ns - flows[0].first_time_ns) - (second.time_ns - flows[1].first_time_ns)) < _JITTER_NS


def _asks(step: ShareStep) -> tuple[object, ...]:
    partitions = [
        (listed.partition, [(batch.first, batch.last, [*batch.types]) for batch in listed.acknowledged])
        for listed in step.listed
    ]
    return partitions, [*step.forgotten]


def _gets(step: ShareStep) -> tuple[object, ...]:
    answer = step.answer
    return () if answer is None else ([*answer.acquired], dict(answer.acknowledged))
