"""Requests that the capture holds twice, on two connections: as a client sent them to a proxy or a NAT, and as that
passed them on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from kshark import limits
from kshark.analysis.facts.calls import ACCEPTED, SUBSEQUENT, Acquired, Answer, Step
from kshark.analysis.facts.connections import Connection
from kshark.analysis.states.member.state import Member
from kshark.analysis.states.session.state import SessionState

#: So many requests in a row that the other connection did not carry show that it does not carry the same any more.
_MISSED: Final = 16
#: What a proxy or a NAT takes may differ by so much from one packet to the next.
_JITTER_NS: Final = 50_000_000


@dataclass(slots=True, eq=False)
class CopiedConnection:
    """A connection carries what `of` carries too; `asked` are its requests since that one had its last."""

    of: Connection
    last_request: int = 0
    asked: int = 0

    def goes_on(self) -> bool:
        """It carries one more request."""
        if self.of.last_request != self.last_request:
            self.last_request, self.asked = self.of.last_request, 0
        self.asked += 1
        return self.asked <= _MISSED


def passed_on(step: Step, others: Collection[Step]) -> Step | None:
    """The same request on another connection, with the same answer: a broker counts an epoch once, and hands records
    out once.

    Correlation ids differ where a proxy numbers requests anew; then only records that were handed out show that it is
    one request, for the epoch may be that of a session that was replaced meanwhile. Where one may have been, as another
    request opens one, the same numbers do not show it, either; nor do two openings, since two clients may open sessions
    alike."""
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
    """Which session was handed records last, by its member, the epoch and the first of the ranges; the oldest are
    forgotten first."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[Member, int, Acquired], SessionState] = OrderedDict()

    def elsewhere(self, step: Step, answer: Answer, session: SessionState) -> Step | None:
        """The same request of the member's session with another broker, which handed out the same records at the same
        time.

        It is this broker, by the address that it has on the other side of a NAT. Where there is none, this is the last
        one."""
        key = session.member, step.epoch, answer.acquired[0]
        other = self._sessions.pop(key, None)
        if other is not None and other is not session and other.handed is not None:
            before, acquired = other.handed
            if (
                step.packet <= before.end
                and before.packet <= answer.packet
                and may_be_one(step, before)
                and acquired == answer.acquired
            ):
                self._sessions[key] = other
                return before
        self._sessions[key] = session
        if len(self._sessions) > limits.IN_FLIGHT:
            self._sessions.popitem(last=False)
        return None


def may_be_one(one: Step, other: Step) -> bool:
    """Whether two requests are the same one, seen at two places, as far as their epochs tell."""
    return (
        one.connection is not other.connection
        and one.epoch == other.epoch
        and one.api_key == other.api_key
        and one.version == other.version
        and one.client_id == other.client_id
    )


def is_again(one: Step, other: Step) -> bool:
    """Whether they are also numbered alike."""
    return one.correlation_id == other.correlation_id and may_be_one(one, other)


def may_be_copy(one: Step, other: Step) -> bool:
    """Whether they also came as long after the beginning of their connections, where both were seen."""
    flows = one.connection.flow, other.connection.flow
    if not is_again(one, other):
        return False
    if any(flow.opened_by is None for flow in flows):
        return True
    return abs((one.time_ns - flows[0].first_time_ns) - (other.time_ns - flows[1].first_time_ns)) < _JITTER_NS


def _asks(step: Step) -> tuple[object, ...]:
    listed = [
        (one.partition, [(batch.first, batch.last, [*batch.types]) for batch in one.acknowledged])
        for one in step.listed
    ]
    return listed, [*step.forgotten]


def _gets(step: Step) -> tuple[object, ...]:
    answer = step.answer
    return () if answer is None else ([*answer.acquired], dict(answer.acknowledged))
