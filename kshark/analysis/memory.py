"""What is remembered of the past of a share session, and the situation that a request meets: all that a rule may look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import Struct

from kshark import limits
from kshark.analysis.holdings import Holdings
from kshark.analysis.steps import (
    FAILED,
    FINAL,
    NO_ROOM,
    NO_SESSION,
    OTHER_EPOCH,
    SILENT,
    SUBSEQUENT,
    TAKEN,
    UNCLEAR,
    Call,
    Reply,
    Step,
    next_epoch,
)
from kshark.analysis.surroundings import Broker, Connection, Member
from kshark.analysis.table import ABSENT
from kshark.api_keys import SHARE_FETCH

#: Connections of one session whose last request is remembered.
_CONNECTIONS: Final = 64
#: Connections that opened earlier sessions, and times of openings and refusals, that are remembered.
_EARLIER: Final = 8
_TROUBLES: Final = 64
#: Openings and refusals within a minute that make a session flap.
FLAPPING: Final = 6
#: Openings one behind the other that make a loop.
LOOP: Final = 3
_MINUTE_NS: Final = 60_000_000_000


class Ending(NamedTuple):
    """Something that took the session away, or may have: an accepted epoch -1, a connection's end, a restart.

    `because` is why it is not certain; None when it is.
    """

    cause: str
    packet: int
    time_ns: int
    told: str
    step: Step | None = None
    because: str | None = None


@dataclass(slots=True, eq=False)
class Trace:
    """What a session did on one connection: its first and last request, and the unbroken run of openings at the end."""

    first: Step
    last: Step
    openings: tuple[Step, ...] = ()


@dataclass(slots=True, eq=False)
class Memory:
    """Of one (broker, group, member): what later requests are judged by. Bounded, whatever the session's length."""

    broker: Broker
    member: Member
    #: The epochs the broker may expect (ABSENT among them: no session); None: anything is possible, because of `doubt`.
    expected: frozenset[int] | None = None
    doubt: str = "beginning_not_seen"
    #: The exchange since which `expected` is known.
    anchor: Step | None = None
    #: The last exchange that showed the session to exist, and the last ones accepted.
    alive: Step | None = None
    last: Step | None = None
    last_fetch: Step | None = None
    last_acknowledge: Step | None = None
    #: The accepted epoch 0 that opened the session, and the connections that opened the ones before.
    opening: Step | None = None
    earlier: list[Connection] = field(default_factory=list)
    #: What took the session, or may have.
    gone: Ending | None = None
    #: A session was, or may have been, opened.
    ever_opened: bool = False
    #: The last request without an answer, and what was done on each connection.
    unanswered: Step | None = None
    here: dict[int, Trace] = field(default_factory=dict)
    #: The last request with epoch 0.
    initial: Step | None = None
    #: Times of openings and refusals, and until when no more is said of them.
    troubles: list[int] = field(default_factory=list)
    quiet_until: int = 0
    #: Answered requests that others may overlap.
    overlapping: list[Step] = field(default_factory=list)
    #: Connections to which the session was seen to cross; the one that opened it is none of them.
    crossed: tuple[int, ...] = ()
    #: The heartbeat by which the member left its group, after which no session was opened.
    leave: Call | None = None
    holdings: Holdings = field(default_factory=Holdings)

    @property
    def is_open(self) -> bool:
        """Whether a session is known to be open."""
        return self.expected is not None and bool(self.expected) and ABSENT not in self.expected

    def last_of(self, api_key: int) -> Step | None:
        return self.last_fetch if api_key == SHARE_FETCH else self.last_acknowledge

    def remember(self, step: Step, reply: Reply) -> None:
        """Takes a step, whose effect on `expected` is already known, into the past."""
        if reply is TAKEN:
            self.unanswered = None
        elif reply is SILENT:
            self.unanswered = step
        if step.is_trouble:
            self._troubled(step)
        if step.kind is SUBSEQUENT:
            if reply is TAKEN or reply is OTHER_EPOCH:
                self.alive, self.gone, self.ever_opened = step, None, True
        elif step.opens:
            self._opened(step, reply)
        elif step.kind is FINAL:
            self._closed(step, reply)
        if reply is TAKEN and step.reply is TAKEN:
            self.last = step
            if step.is_fetch:
                self.last_fetch = step
            else:
                self.last_acknowledge = step
        self.holdings.take(step, reply)
        self._leave_trace(step)
        step.lighten()
        self.overlapping = [other for other in (*self.overlapping, step) if other.end > step.packet][-limits.OVERLAPPING_STEPS :]

    def _leave_trace(self, step: Step) -> None:
        flow = step.connection.flow.id
        trace = self.here.pop(flow, None)
        if trace is None:
            trace = Trace(step, step)
        self.here[flow] = trace
        trace.last = step
        trace.openings = (*trace.openings, step)[-LOOP:] if step.opens else ()
        if len(self.here) > _CONNECTIONS:
            del self.here[next(iter(self.here))]
        elsewhere = self.opening is not None and self.opening.connection is not step.connection
        if elsewhere and step.kind is SUBSEQUENT and step.reply is TAKEN and flow not in self.crossed:
            self.crossed = (*self.crossed, flow)[-_CONNECTIONS:]

    def recent_troubles(self, step: Step) -> int:
        """Openings and refusals within a minute, this one included."""
        return 1 + sum(step.time_ns - time_ns < _MINUTE_NS for time_ns in self.troubles)

    def _troubled(self, step: Step) -> None:
        if step.time_ns >= self.quiet_until and self.recent_troubles(step) >= FLAPPING:
            self.quiet_until = step.time_ns + _MINUTE_NS
        self.troubles = [*self.troubles, step.time_ns][-_TROUBLES:]

    def _closed(self, step: Step, reply: Reply) -> None:
        """Epoch -1, accepted or without an answer."""
        if reply is TAKEN:
            self.gone = Ending("final_epoch", step.end, step.end_ns, step.story, step)
            self.holdings.forget()
        elif reply is SILENT:
            self.gone = Ending("final_epoch", step.end, step.end_ns, step.story, step, "unanswered")

    def _opened(self, step: Step, reply: Reply) -> None:
        """Epoch 0: whatever the answer, the session before it may be over."""
        self.initial = step
        if reply in (TAKEN, UNCLEAR, SILENT):
            self.ever_opened = True
        if reply is FAILED:
            self.gone = Ending("failed_reopen", step.end, step.end_ns, step.story, step)
        elif reply in (TAKEN, UNCLEAR):
            if self.opening is not None and self.opening.connection is not step.connection:
                self.earlier = [*self.earlier, self.opening.connection][-_EARLIER:]
            self.opening, self.alive, self.gone, self.leave = step, step, None, None
            self.last_fetch, self.last_acknowledge = None, None
            self.crossed = ()
        elif reply in (NO_ROOM, NO_SESSION):
            self.gone = Ending("session_limit", step.end, step.end_ns, step.story, step)
        elif reply is SILENT:
            self.opening = None
            self.doubt = "unanswered"


class Situation(Struct, eq=False):
    """A request, its answer, and what was known when it came.

    `expected` as in Memory, with ABSENT added where something may have ended the session since; `agreeing` are its members that the
    answer agrees with, `after` what is possible after them. `doubt` says why `expected` is None. `here` is what the session did before
    on the same connection. `overtaker` is the request on another connection that moved the session on
    while this one waited, `rivals` all that were open at the same time on other connections.
    """

    step: Step
    memory: Memory
    reply: Reply
    expected: frozenset[int] | None
    agreeing: frozenset[int]
    after: frozenset[int]
    doubt: str | None
    here: Trace | None
    endings: tuple[Ending, ...] = ()
    overtaker: Step | None = None
    rivals: tuple[Step, ...] = ()

    @property
    def due(self) -> str:
        """The epochs due, in words."""
        return " or ".join(str(epoch) for epoch in sorted(self.agreeing) if epoch != ABSENT)

    @property
    def known(self) -> tuple[Step, ...]:
        """The exchange that made the due epoch known, as a witness."""
        return () if self.memory.anchor is None else (self.memory.anchor,)

    @property
    def why_unknown(self) -> str:
        """Why an answer that no rule explains cannot be explained."""
        return self.doubt or self.step.any_doubt or ("unanswered" if self.agreeing else "hidden_traffic")

    @property
    def before_here(self) -> Step | None:
        """The request before this one on the same connection."""
        return None if self.here is None else self.here.last

    def all_agree(self, relation: str) -> bool:
        """Whether the epoch stands so to every epoch that may be due: `replay`, `stale` or `ahead`."""
        return bool(self.agreeing) and all(relation_to(self.step.epoch, due, self.memory.last) == relation for due in self.agreeing)


def relation_to(epoch: int, due: int, last: Step | None) -> str:
    """How an epoch of 1 or more stands to the one due: `due`, `replay` (the one before), `stale`, `ahead`, or `none` without a session."""
    if due == ABSENT:
        return "none"
    if epoch == due:
        return "due"
    if next_epoch(epoch) == due and (epoch < due or (last is not None and last.epoch == epoch)):
        return "replay"
    return "stale" if epoch < due else "ahead"
