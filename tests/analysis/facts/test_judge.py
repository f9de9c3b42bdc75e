"""What a capture can prove: an argument by itself, and conversations seen by sniffers that missed something."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kshark.analysis import REASONS
from kshark.analysis.facts.argument import ABSENCE, EXCHANGE, STATE, Argument, Position, ProofNeeds
from kshark.analysis.facts.calls import Call
from kshark.analysis.facts.connections import ConnectionFacts, PacketOrder
from kshark.analysis.facts.holes import Hole
from kshark.analysis.facts.judge import NO_CASE, PENDING, REFUTED, Judgement, judge, unexplained, unproved
from kshark.analysis.facts.known import ALWAYS, BEGINNING, Known, known_if, never
from kshark.analysis.states.session.situation import SessionSituation
from kshark.analysis.states.session.state import PossibleState
from tests.analysis.plain import MS, connection, session, step
from tests.analysis.talks import caused, codes, opened
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Asked,
    Conversation,
    Thinned,
    unknown,
    violation,
)


class Shown:
    """What the capture shows later, or not."""

    def __init__(self, holds: bool | None, because: str | None = "race") -> None:
        self._holds, self.because = holds, because

    def holds(self) -> bool | None:
        return self._holds


def argued(
    needs: ProofNeeds = EXCHANGE,
    witness: Sequence[Call] = (),
    *,
    position: Position | None = None,
) -> Argument:
    return Argument("it is wrong", witness or (step(1),), needs, position=position)


def met(*states: int, agreeing: bool = True) -> SessionSituation:
    """A request that met these states, None: any; its answer agrees with them, or not."""
    asked, known = step(1), tuple(PossibleState(due) for due in states) or None
    return SessionSituation(asked, session(), asked.reply, known, (known or ()) if agreeing else (), ())


VIOLATION, NOTE = Judgement("violation"), Judgement("note")


def test_what_is_certain_is_a_violation_unless_nobody_broke_a_rule() -> None:
    assert judge(argued()) == VIOLATION
    assert judge(argued(), accuses=False) == NOTE
    assert judge(Argument("it happened", (step(1),), EXCHANGE, noted=True)) == NOTE
    assert judge(Argument("it happened", (step(1),), EXCHANGE, noted=True), accuses=False) == NOTE


@pytest.mark.parametrize(
    ("disorder_ns", "begins", "ends", "is_ordered"),
    [
        pytest.param(0, 11, 12, True, id="a capture in order"),
        pytest.param(5 * MS, 17, 18, True, id="far behind"),
        pytest.param(5 * MS, 13, 18, False, id="so close behind that it may have begun before"),
        pytest.param(5 * MS, 5, 20, True, id="open meanwhile, and answered far behind"),
        pytest.param(5 * MS, 5, 13, False, id="open meanwhile, and answered so close behind"),
    ],
)
def test_of_witnesses_on_two_connections_the_order_has_to_be_certain(
    disorder_ns: int, begins: int, ends: int, is_ordered: bool
) -> None:
    one, other = connection(), connection(1)
    one.clock = other.clock = PacketOrder(disorder_ns)
    first = step(1, 10, on=one, answered=11)
    expected = VIOLATION if is_ordered else Judgement("unknown", "disorder")
    assert judge(argued(witness=(first, step(2, begins, on=other, answered=ends)))) == expected
    assert judge(argued(witness=(first, step(2, begins, on=one, answered=ends)))) == VIOLATION


def test_state_has_to_be_known_and_the_answer_to_agree_with_it() -> None:
    assert judge(argued(STATE), met(1).knowledge) == VIOLATION
    assert judge(argued(STATE), met().knowledge) == Judgement("unknown", "beginning_not_seen")
    assert judge(argued(STATE), met(1, agreeing=False).knowledge) == Judgement("unknown", "hidden_traffic")
    assert judge(argued(STATE)) == VIOLATION
    assert judge(argued(EXCHANGE), met().knowledge) == VIOLATION
    assert judge(argued(EXCHANGE), met(1, agreeing=False).knowledge) == VIOLATION


def test_no_capture_proves_that_nothing_happened() -> None:
    assert judge(argued(ABSENCE), met(1).knowledge) == Judgement("unknown", "hidden_traffic")
    assert judge(argued(ABSENCE), met().knowledge) == Judgement("unknown", "beginning_not_seen")
    assert judge(argued(ABSENCE), met(1).knowledge, accuses=False) == Judgement("unknown", "hidden_traffic")


@pytest.mark.parametrize(
    ("holds", "judged"),
    [(True, VIOLATION), (None, PENDING), (False, Judgement("unknown", "race"))],
    ids=["shown", "not yet", "not shown"],
)
def test_a_proof_has_to_show_up(holds: bool | None, judged: Judgement) -> None:
    assert judge(argued(EXCHANGE.and_proof(Shown(holds)))) == judged


def test_doubts_in_their_order() -> None:
    """The rule's own, the state's, the connection's, a witness's; nothing is waited for where there is one."""
    where, pending = connection(), EXCHANGE.and_proof(Shown(None))
    doubtful = step(1, 10, on=where, doubt="cut")
    assert judge(argued(pending, (doubtful,))) == Judgement("unknown", "cut")
    where.holes.add(Hole(10, 11, "gap"))
    assert judge(argued(pending, (doubtful,))) == Judgement("unknown", "gap")
    assert judge(argued(STATE, (doubtful,)), met().knowledge) == Judgement("unknown", "beginning_not_seen")
    assert judge(argued(STATE.knowing(never("race")), (doubtful,)), met().knowledge) == Judgement("unknown", "race")


@pytest.mark.parametrize(
    ("since", "until", "is_certain"),
    [
        pytest.param(0, 90, True, id="in all packets"),
        pytest.param(10, 20, True, id="from the first request to the last one"),
        pytest.param(11, 20, False, id="only after the first request"),
        pytest.param(10, 19, False, id="only before the last request"),
        pytest.param(12, 18, False, id="only in between"),
        pytest.param(21, 90, False, id="only afterwards"),
        pytest.param(0, 9, False, id="only before"),
    ],
)
def test_a_fact_has_to_be_certain_from_the_first_witness_to_the_last(since: int, until: int, is_certain: bool) -> None:
    """Its own reason comes before all others; without one there is nothing to report."""
    where = connection()
    where.holes.add(Hole(15, 16, "gap"))
    witness = (step(1, 10, on=connection(1), answered=11), step(2, 20, on=connection(2), answered=30))
    holed = (step(1, 10, on=where, answered=11), step(2, 20, on=where, answered=30))
    for needs in (EXCHANGE.knowing(ALWAYS, Known(since, until, "race")), STATE):
        states = ALWAYS if needs.facts else Known(since, until, "race")
        expected = VIOLATION if is_certain else Judgement("unknown", "race")
        assert judge(argued(needs, witness), states) == expected
        assert judge(argued(needs, holed), states) == (Judgement("unknown", "gap") if is_certain else expected)
    silent = judge(argued(EXCHANGE.knowing(Known(since, until), never("race")), witness))
    assert (silent is NO_CASE) is not is_certain
    assert is_certain or silent == REFUTED


def test_the_first_uncertain_fact_gives_the_reason() -> None:
    assert judge(argued(EXCHANGE.knowing(ALWAYS, BEGINNING, never("race")))) == Judgement("unknown", BEGINNING.because)
    assert judge(argued(STATE.knowing(never("race"))), BEGINNING) == Judgement("unknown", "race")
    assert judge(argued(EXCHANGE.knowing(known_if(is_known=True, because="race"))), BEGINNING) == VIOLATION
    assert judge(argued(EXCHANGE.knowing(known_if(is_known=False, because="race")))) == Judgement("unknown", "race")


def test_a_proof_that_did_not_come_gives_its_reason() -> None:
    for reason, expected in (("race", "race"), (None, "hidden_traffic")):
        waiting = argued(EXCHANGE.and_proof(Shown(None, reason)))
        assert judge(waiting) is PENDING
        assert unproved(waiting) == Judgement("unknown", expected)
    assert judge(argued(EXCHANGE.and_proof(Shown(False, None)))) is REFUTED


def test_an_unexplained_refusal_has_the_reason_of_the_first_explanation_or_its_own() -> None:
    own = argued(EXCHANGE.knowing(never("unanswered")))
    race = Judgement("unknown", "race")
    assert unexplained(own, (argued(), race)) == race
    assert unexplained(own, (argued(), REFUTED)) == unexplained(own, None) == Judgement("unknown", "unanswered")
    pending = argued(EXCHANGE.and_proof(Shown(None, "end_not_seen")))
    assert unexplained(own, (pending, PENDING)) == Judgement("unknown", "end_not_seen")


def test_every_witness_may_be_in_doubt() -> None:
    answer = step(2, 12)
    answer.any_doubt = "resync"
    beat = Call(connection(), 76, "ShareGroupHeartbeat", 1, 10, 10, 1, None, "g", "m", 0, doubt="version_unknown")
    assert judge(argued(EXCHANGE, (step(1), answer))) == Judgement("unknown", "resync")
    assert judge(argued(EXCHANGE, (step(1), beat))) == Judgement("unknown", "version_unknown")


HERE, THERE, OTHER = connection(0), connection(1), connection(2)


@pytest.mark.parametrize(
    ("where", "first", "last", "missing"),
    [
        (HERE, 1, 10, False),
        (HERE, 9, 11, True),
        (HERE, 25, 27, True),
        (HERE, 29, 40, True),
        (HERE, 30, 40, False),
        (THERE, 12, 14, True),
        (OTHER, 12, 14, False),
    ],
    ids=[
        "before",
        "at the first request",
        "before the answer",
        "at the answer",
        "behind it",
        "the other witness's",
        "another connection's",
    ],
)
def test_holes_from_the_first_witness_to_the_last_answer(
    where: ConnectionFacts, first: int, last: int, missing: bool
) -> None:
    where.holes.clear()
    where.holes.add(Hole(first, last, "gap"))
    witness = (step(1, 10, on=HERE), step(2, 20, on=THERE, answered=30))
    judged = judge(argued(EXCHANGE, witness))
    assert judged == (Judgement("unknown", "gap") if missing else VIOLATION)
    where.holes.clear()


def test_holes_up_to_where_the_finding_stands() -> None:
    where = connection()
    where.holes.add(Hole(15, 17, "gap"))
    assert judge(argued(EXCHANGE, (step(1, 10, on=where),))) == VIOLATION
    for packet, judged in ((40, Judgement("unknown", "gap")), (5, VIOLATION)):
        assert judge(argued(EXCHANGE, (step(1, 10, on=where),), position=Position(where, packet, 0))) == judged


def test_every_reason_is_explained() -> None:
    assert all(reason == reason.lower() and text for reason, text in REASONS.items())


# -- as conversations


def skip(talk: Conversation) -> Asked:
    """Epoch 3 where 2 was due, and some more of the session behind it."""
    a = opened(talk, 1)
    late = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    for epoch in range(6):
        a.share_fetch(epoch).answered()
    return late


def heard_of(talk: Thinned, asked: Asked) -> list[tuple[str, str | None]]:
    return [(found.verdict, found.unknown_because) for found in caused(talk) if found.packet == asked.packet]


def test_nothing_is_missing() -> None:
    talk = Conversation()
    late = skip(talk)
    assert caused(talk) == [violation("EPOCH_SKIP_AHEAD", late)]


def test_the_request_that_was_due_is_missing() -> None:
    talk = Conversation()
    late = skip(talk)
    before = talk.exchanges[talk.exchanges.index(late) - 1]
    for missing in (before.packets, before.answer_packets, before.all_packets):
        assert heard_of(talk.without_packets(missing), late) == [("unknown", "gap")]


def test_what_was_long_ago_does_not_matter() -> None:
    talk = Conversation()
    a = opened(talk, 8)
    late = a.share_fetch(11).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(0).answered()
    long_ago = talk.exchanges[4]
    assert heard_of(talk.without_packets(long_ago.all_packets), late) == [("violation", None)]


def test_the_beginning_of_the_capture_is_missing() -> None:
    talk = Conversation()
    a = opened(talk, 8)
    stale = a.share_fetch(2).answered(INVALID_SHARE_SESSION_EPOCH)
    for _ in range(3):
        a.heartbeat(1).answered()
    assert caused(talk) == [violation("EPOCH_STALE", stale)]
    known = talk.exchanges[6].packets[0]
    assert heard_of(talk.without_packets(range(1, known)), stale) == [("violation", None)]
    assert heard_of(talk.without_packets(range(1, stale.packets[0])), stale) == [("unknown", "beginning_not_seen")]


def test_one_direction_is_missing() -> None:
    talk = Conversation()
    late = skip(talk)
    source = late.connection.tcp.source.rpartition(":")[2]
    answers = [n for n, p in talk.packets() if int.from_bytes(p.data[34:36]) != int(source)]
    requests = [n for n, p in talk.packets() if int.from_bytes(p.data[34:36]) == int(source)]
    assert codes(talk.without_packets(answers)) == []
    assert codes(talk.without_packets(requests)) == []


def test_a_fin_is_missing() -> None:
    talk = Conversation()
    a = opened(talk, 1)
    b = a.on(talk.connection())
    here = len(talk.wire.packets)
    a.connection.close()
    lost = b.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    closing = range(here + 1, here + 4)
    assert heard_of(talk.without_packets(closing), lost) == [("unknown", "hidden_traffic")]


def test_the_answers_that_tell_the_release_are_missing() -> None:
    """Behind such a hole the next request's place is not certain either."""
    talk = Conversation(release="4.1")
    a = opened(talk, 1)
    b = a.on(talk.connection())
    a.connection.close()
    lost = b.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    introductions = [n for asked in talk.exchanges if asked.api == "ApiVersions" for n in asked.answer_packets]
    assert heard_of(talk.without_packets(introductions), lost) == [("unknown", "resync")]


def test_an_answer_whose_request_is_missing_shows_that_something_was_missed() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = a.on(talk.connection())
    unseen = b.share_fetch(0).answered()
    b.connection.reset()
    wrong = a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert [finding for finding in caused(talk) if finding.verdict == "violation"] == []
    assert heard_of(talk.without_packets(unseen.packets), wrong) == [("unknown", "gap")]


def test_two_addresses_may_be_one_broker() -> None:
    talk = Conversation()
    a = talk.member("a")
    other = a.on(talk.connection(broker="10.0.0.8:9092"))
    other.share_fetch(0).answered()
    wrong = a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", wrong, because="hidden_traffic")]
