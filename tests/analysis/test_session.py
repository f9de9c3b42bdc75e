"""Requests that wait: on several connections at once, pipelined, overtaken. A broker that does everything right is never blamed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kshark.model import Finding
from tests.analysis.reference import NONE, WRONG_EPOCH, ReferenceBroker, Session
from tests.conversation import Asked, Conversation, Member, findings


class Act(NamedTuple):
    """A client sends on one of its connections, or the broker answers the oldest request there."""

    connection: int
    what: str
    ahead: int


@dataclass
class Waiting:
    """A request at the broker: handled when it is the first on its connection (SocketServer), answered when the script says so."""

    asked: Asked
    fetch: bool
    epoch: int
    error: int | None = None
    session: Session | None = None


@dataclass
class Hall:
    """The broker with requests of three connections waiting."""

    broker: ReferenceBroker = field(default_factory=ReferenceBroker)
    waiting: list[list[Waiting]] = field(default_factory=lambda: [[], [], []])
    refused: list[Asked] = field(default_factory=list)
    overtaken: list[Asked] = field(default_factory=list)

    def send(self, at: int, request: Waiting) -> None:
        self.waiting[at].append(request)
        if len(self.waiting[at]) == 1:
            self._handle(request)

    def _handle(self, request: Waiting) -> None:
        source = request.asked.connection.tcp.source
        request.error = self.broker.ask(source, fetch=request.fetch, epoch=request.epoch)
        request.session = self.broker.session

    def answer(self, at: int) -> None:
        """A fetch is compared once more when it is answered, as long as its session lives (Kafka: ShareSessionContext)."""
        request = self.waiting[at].pop(0)
        session = request.session
        waited = request.error == NONE and request.fetch and request.epoch > 0
        if waited and session is not None and session is self.broker.session and session.due != request.epoch + 1:
            request.error = WRONG_EPOCH
            self.overtaken.append(request.asked)
        request.asked.answered(request.error or 0)
        if request.error:
            self.refused.append(request.asked)
        if self.waiting[at]:
            self._handle(self.waiting[at][0])


acts = st.lists(
    st.builds(Act, st.integers(0, 2), st.sampled_from(["fetch", "fetch", "acknowledge", "answer", "answer", "open"]), st.integers(-1, 2)),
    min_size=1,
    max_size=30,
)


def held(script: list[Act]) -> tuple[Conversation, Hall, set[tuple[int, int | None]]]:
    """The conversation, the broker, and the requests that were sent while others waited on another connection."""
    talk, hall = Conversation(), Hall()
    connections = [talk.connection() for _ in range(3)]
    member = talk.member("a", connection=connections[0])
    crowded = set()
    due = 0
    for act in script:
        if act.what == "answer":
            if hall.waiting[act.connection]:
                hall.answer(act.connection)
            continue
        fetch = act.what != "acknowledge"
        epoch = 0 if act.what == "open" else max(due + act.ahead, 1)
        asked = _ask(member.on(connections[act.connection]), epoch, fetch)
        if any(hall.waiting[other] for other in range(3) if other != act.connection):
            crowded.add((asked.packets[-1], asked.correlation_id))
        hall.send(act.connection, Waiting(asked, fetch, epoch))
        due = epoch
    for at in range(3):
        while hall.waiting[at]:
            hall.answer(at)
    for connection in connections:
        connection.close()
    return talk, hall, crowded


def _ask(member: Member, epoch: int, fetch: bool) -> Asked:
    return member.share_fetch(epoch) if fetch else member.share_acknowledge(epoch)


def at(found: Finding) -> tuple[int | None, int]:
    return found.witness[-1].request_packet, found.witness[-1].correlation_id


#: A request that was refused at once is answered behind one that would have followed it: nothing overtook it.
REFUSED_AT_ONCE = [
    Act(0, "fetch", 0), Act(1, "fetch", 0), Act(1, "fetch", 1), Act(2, "fetch", 0), Act(2, "fetch", 0), Act(0, "open", 0),
    Act(0, "fetch", 0), Act(0, "fetch", 2), Act(0, "answer", 0), Act(2, "answer", 0), Act(0, "answer", 0), Act(1, "answer", 0),
]  # fmt: skip


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts)
@example(REFUSED_AT_ONCE)
def test_whoever_waits_is_judged_by_what_happened_meanwhile(script: list[Act]) -> None:
    talk, hall, crowded = held(script)
    found = findings(talk)
    refused = {(asked.packets[-1], asked.correlation_id) for asked in hall.refused}
    caused = Counter(at(finding) for finding in found if finding.cause is not None)
    assert caused == Counter(refused)
    for finding in found:
        assert finding.blame in ("client", "unknown"), finding.argument
        if finding.code == "CONCURRENT_SESSION_REQUESTS":
            assert at(finding) in crowded
        elif at(finding) not in refused and finding.verdict == "violation":
            assert finding.code in ("NO_RECOVERY", "REOPEN_HOT_LOOP"), finding.argument
    overtaken = {(asked.packets[-1], asked.correlation_id) for asked in hall.overtaken}
    for finding in found:
        if at(finding) in overtaken and finding.cause is not None:
            assert finding.cause in ("overtaken", "concurrent_requests", "unknown"), finding.argument
        elif finding.cause == "overtaken":
            raise AssertionError(finding.argument)
