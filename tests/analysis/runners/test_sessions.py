"""Requests that wait: on several connections at once, pipelined, overtaken. A broker that does everything right is
never blamed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kshark import limits
from kshark.analysis import Analyzer, PackedSessions
from kshark.model import Finding
from tests.analysis.reference import NONE, WRONG_EPOCH, ReferenceBroker, Session
from tests.analysis.results.test_sessions import rows
from tests.analysis.talks import caused, opened
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Asked, Conversation, Member, events, findings, violation
from tests.examples import as_many


class Act(NamedTuple):
    """A client sends on one of its connections, or the broker answers the oldest request there."""

    connection: int
    what: str
    ahead: int


@dataclass
class Waiting:
    """A request at the broker: handled when it is the first on its connection (SocketServer), answered when the script
    says so."""

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
        """A fetch is compared once more when it is answered, as long as its session lives (Kafka:
        ShareSessionContext)."""
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
    st.builds(
        Act,
        st.integers(0, 2),
        st.sampled_from(["fetch", "fetch", "acknowledge", "answer", "answer", "open"]),
        st.integers(-1, 2),
    ),
    min_size=1,
    max_size=30,
)


def held(script: list[Act]) -> tuple[Conversation, Hall, set[tuple[int, int | None]]]:
    """The conversation, the broker, and the requests that were sent while others waited on another connection."""
    talk, hall = Conversation(), Hall()
    connections = [talk.connection() for _ in range(3)]
    for count, connection in enumerate(connections):
        connection.correlation_id += 1_000 * count  # one client numbers the requests of all its connections
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
    Act(0, "fetch", 0), Act(1, "fetch", 0), Act(1, "fetch", 1), Act(2, "fetch", 0), Act(2, "fetch", 0),
    Act(0, "open", 0),
    Act(0, "fetch", 0), Act(0, "fetch", 2), Act(0, "answer", 0), Act(2, "answer", 0), Act(0, "answer", 0),
    Act(1, "answer", 0),
]  # fmt: skip

#: Requests of the same numbers are accepted on two connections at once: the session was opened anew between them, it is
#: no copy.
OPENED_BETWEEN = [
    Act(0, "fetch", 0), Act(0, "open", 0), Act(1, "fetch", 0), Act(1, "fetch", 0), Act(1, "open", 0),
    Act(0, "fetch", 0),
    Act(1, "fetch", 0),
]  # fmt: skip


#: What overtook a fetch is overtaken itself: by a third connection, by a request that was pipelined behind the first
#: one, by one that was sent behind the first answer.
OVERTAKER_OVERTAKEN = [
    Act(2, "open", 1), Act(2, "acknowledge", -1), Act(2, "answer", 1), Act(1, "fetch", 1), Act(1, "fetch", 1),
    Act(2, "fetch", 0), Act(2, "answer", 2), Act(0, "fetch", 1),
]  # fmt: skip
OVERTAKEN_BY_ITS_OWN = [
    Act(2, "open", 1), Act(2, "acknowledge", -1), Act(2, "answer", 1), Act(0, "fetch", 1), Act(0, "fetch", 1),
    Act(1, "fetch", 0), Act(0, "fetch", 1), Act(2, "answer", 1),
]  # fmt: skip
OVERTAKEN_ONE_AFTER_THE_OTHER = [
    Act(0, "open", 0), Act(0, "answer", 0), Act(0, "fetch", 1), Act(1, "fetch", 1), Act(0, "answer", 0),
    Act(2, "fetch", 1), Act(1, "answer", 0), Act(2, "answer", 0),
]  # fmt: skip
#: What overtook it was sent before it, and came to the broker's turn behind another request of its connection.
OVERTAKEN_BY_AN_EARLIER_ONE = [
    Act(2, "open", 0), Act(1, "fetch", -1), Act(1, "open", -1), Act(2, "fetch", -1), Act(1, "fetch", 1),
    Act(2, "fetch", -1), Act(1, "answer", 2), Act(2, "answer", 1), Act(0, "open", 1), Act(2, "answer", 0),
]  # fmt: skip


@settings(max_examples=as_many(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts)
@example(REFUSED_AT_ONCE)
@example(OPENED_BETWEEN)
@example(OVERTAKER_OVERTAKEN)
@example(OVERTAKEN_BY_ITS_OWN)
@example(OVERTAKEN_BY_AN_EARLIER_ONE)
@example(OVERTAKEN_ONE_AFTER_THE_OTHER)
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


def test_a_fetch_that_overtook_another_may_be_overtaken_itself() -> None:
    """The broker counts epochs 2, 3 and 4 while the fetches with 2 and 3 wait, and refuses both when it answers."""
    talk = Conversation()
    a = opened(talk, 1)
    first = a.share_fetch(2)
    b, c = a.on(talk.connection()), a.on(talk.connection())
    second = b.share_fetch(3)
    c.share_acknowledge(4).answered()
    first.answered(INVALID_SHARE_SESSION_EPOCH)
    second.answered(INVALID_SHARE_SESSION_EPOCH)
    for still_used in (a, b, c):
        still_used.heartbeat(1).answered()
    assert [(it.verdict, it.code, it.cause, it.packet) for it in caused(talk)] == [
        ("violation", "FETCH_OVERTAKEN", "overtaken", first.packet),
        ("violation", "FETCH_OVERTAKEN", "overtaken", second.packet),
    ]
    assert f"{second.correlation_id} with epoch 3 was counted, and overtaken itself" in caused(talk)[0].argument


def test_what_overtook_a_fetch_is_unknown_where_nothing_shows_that_the_broker_counted_it() -> None:
    """The fetch with epoch 3 is refused, too, and the request that overtook it is not captured."""
    talk = Conversation()
    a = opened(talk, 1)
    first = a.share_fetch(2)
    second = a.on(talk.connection()).share_fetch(3)
    first.answered(INVALID_SHARE_SESSION_EPOCH)
    second.answered(INVALID_SHARE_SESSION_EPOCH)
    assert [(it.verdict, it.packet) for it in caused(talk)] == [("unknown", first.packet), ("unknown", second.packet)]


# -- what waits for what


def said_at(talk: Conversation) -> list[tuple[str, int]]:
    """Each code, with the packet that was the last when it was said."""
    analyzer, last, said = Analyzer(), 0, []
    for event in events(talk):
        last = getattr(event, "packet", last)
        said += [(finding.code, last) for finding in analyzer.feed(event)]
    return [*said, *((finding.code, len(talk.packets()) + 1) for finding in analyzer.close())]


def test_a_finding_is_there_as_soon_as_the_answer_is() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    late = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    again = a.share_fetch(0).answered()
    assert said_at(talk) == [("EPOCH_SKIP_AHEAD", late.packet), ("SESSION_REOPEN", again.packet)]


def test_a_refusal_waits_for_the_answers_to_what_was_sent_before_it_came() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b, c = a.on(talk.connection()), a.on(talk.connection())
    refused, beside = a.share_acknowledge(2), b.share_acknowledge(2)
    refused.answered(INVALID_SHARE_SESSION_EPOCH)
    behind = c.share_fetch(7)
    a.heartbeat(1).given(1)
    beside.answered()
    behind.answered(INVALID_SHARE_SESSION_EPOCH)
    b.heartbeat(1)
    still_used = c.heartbeat(1)
    assert [(code, packet) for code, packet in said_at(talk) if code == "FETCH_OVERTAKEN"] == [
        ("FETCH_OVERTAKEN", still_used.packet)
    ]
    assert [(it.code, it.cause, it.packet) for it in caused(talk)] == [
        ("FETCH_OVERTAKEN", "concurrent_requests", refused.packet),
        ("EPOCH_SKIP_AHEAD", "skip_ahead", behind.packet),
    ]


def test_what_was_sent_behind_the_answer_is_not_waited_for() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    refused = a.share_acknowledge(5).answered(INVALID_SHARE_SESSION_EPOCH)
    b.share_acknowledge(2)
    b.connection.close()
    assert said_at(talk)[0] == ("EPOCH_SKIP_AHEAD", refused.packet)


def test_pipelined_requests_are_the_brokers_turn_one_behind_the_other() -> None:
    """A reopening that was sent behind the second of them, and answered before it, was taken first."""
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    first, second = a.share_fetch(2), a.share_fetch(3)
    b.share_fetch(0).answered()
    first.answered()
    second.answered(INVALID_SHARE_SESSION_EPOCH)
    a.heartbeat(1)
    assert [(it.code, it.cause) for it in caused(talk)] == [("DUPLICATE_MEMBER", "reopened_elsewhere")]


def test_requests_without_an_answer_are_settled_when_their_connection_ends() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    a.share_fetch(2)
    late = a.on(talk.connection()).share_fetch(9).answered(INVALID_SHARE_SESSION_EPOCH)
    a.connection.reset()
    a.on(talk.connection()).heartbeat(1).answered()
    assert said_at(talk)[0] == ("EPOCH_SKIP_AHEAD", late.packet + 1)


def test_what_has_to_show_up_is_waited_for() -> None:
    """A later request of the first connection shows that it was still open."""
    talk = Conversation()
    a = opened(talk)
    waiting = a.share_fetch(1)
    a.on(talk.connection()).share_acknowledge(2).answered()
    waiting.answered(INVALID_SHARE_SESSION_EPOCH)
    proof = a.heartbeat(1).answered()
    a.share_fetch(-1).answered()
    assert ("CONCURRENT_SESSION_REQUESTS", proof.sent) not in said_at(talk)
    assert ("CONCURRENT_SESSION_REQUESTS", proof.packet) in said_at(talk)


def test_a_lost_answer_does_not_hold_back_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITING_STEPS", 5)
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1)
    b = a.on(talk.connection())
    for epoch in range(2, 12):
        b.share_fetch(epoch).answered()
    analyzer = Analyzer(sessions=True, steps=True)
    for event in events(talk):
        list(analyzer.feed(event))
        waiting = [len(session._queue) for session in analyzer._sessions.values()]
        assert max(waiting, default=0) <= 5
    list(analyzer.close())
    assert next(iter(PackedSessions(analyzer.listed()))).accepted == 11


def test_what_is_not_waited_for_any_longer_counts_as_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITING_STEPS", 3)
    talk = Conversation()
    a = opened(talk)
    b = a.on(talk.connection())
    a.share_fetch(1)
    for epoch in range(2, 5):
        b.share_fetch(epoch).answered()
    late = b.share_fetch(9).answered(INVALID_SHARE_SESSION_EPOCH)
    assert caused(talk) == [violation("EPOCH_SKIP_AHEAD", late, cause="skip_ahead")]
    assert [row[-1] for row in rows(talk)] == [
        "opened",
        "unanswered",
        "advanced",
        "advanced",
        "advanced",
        "wrong epoch",
    ]


def test_thousands_of_requests_without_an_answer() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    for epoch in range(2, 1500):
        a.share_fetch(epoch)
    late = a.on(talk.connection()).share_fetch(5000).answered(INVALID_SHARE_SESSION_EPOCH)
    (found,) = caused(talk)
    assert (found.verdict, found.packet) == ("unknown", late.packet)
