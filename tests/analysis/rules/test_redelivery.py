"""Acknowledgements without the effect that their client counts on: nearly the same, and what the capture has to hold
for that."""

from __future__ import annotations

import pytest

from kshark.analysis.rules import redelivery
from tests.analysis.rules.promises.acknowledgements import ACCEPT, REJECT, RELEASE, RENEW, holding, refused
from tests.analysis.rules.promises.deliveries import continue_session, given
from tests.analysis.rules.promises.redelivery import acknowledged, both_accept, partly_applied, stale
from tests.analysis.talks import alone, codes, handed
from tests.answers import untold
from tests.conversation import Conversation, Member, Thinned, findings
from tests.shared import CAPTURES

STALE = ("STALE_ACK_ACCEPTED", "violation")
BROKEN = ("ACK_ATOMICITY_BROKEN", "violation")
NEVER = ("NEVER_ACKED", "note")
SLOW = ("LOCK_TIMEOUT_REDELIVERY", "note")
LOST = ("ACK_LOST_IN_FLIGHT", "note")
TWICE = ("DUPLICATE_PROCESSING_WINDOW", "note")
STORM = ("RELEASE_STORM", "note")


def accused(talk: Conversation | Thinned) -> list[str]:
    return [code for code, verdict in codes(talk) if verdict == "violation"]


# -- taken for another delivery


def test_who_knows_of_the_new_delivery_means_that() -> None:
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    talk.pause(3)
    given(a, 1, (0, 9, 2), lock_ms=2000)
    a.share_acknowledge(2, [(0, 4, ACCEPT)]).answered()
    assert codes(talk) == [NEVER]


def test_a_release_on_another_connection_may_have_come_first() -> None:
    talk = Conversation()
    a = holding(talk, (0, 9))
    waiting = a.share_fetch(1)
    late = a.on(talk.connection()).share_acknowledge(2, [(0, 4, RELEASE)])
    waiting.answered(responses=handed((0, 0, 4, 2)), acquisition_lock_timeout_ms=30_000)
    late.answered()
    assert STALE not in codes(talk)


def test_records_of_others_that_come_meanwhile_are_none_of_these() -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9)), talk.member("b")
    acknowledging = a.share_acknowledge(1, [(0, 9, ACCEPT)])
    given(b, 0, (10, 19, 1))
    acknowledging.answered()
    assert codes(talk) == []


def test_what_was_taken_for_the_new_delivery_is_done_with() -> None:
    """Each of the two deliveries is acknowledged once."""
    talk = Conversation()
    a = talk.member("a")
    stale(talk, a)
    refused(a, 3, (0, 4, ACCEPT))
    assert codes(talk) == [NEVER, STALE, ("ACK_AFTER_LOCK_TIMEOUT", "note")]


def test_no_missing_packet_makes_an_acknowledgement_stale() -> None:
    talk = Conversation()
    stale(talk, talk.member("a"))
    for number, _ in talk.packets():
        assert accused(talk.without_packets([number])) in ([], [STALE[0]]), number


# -- refused, and half of it taken


def test_a_refusal_that_changed_nothing() -> None:
    talk = Conversation()
    holding(talk, (10, 19), name="b")
    a = holding(talk, (0, 9))
    refused(a, 1, (5, 14, ACCEPT))
    a.share_acknowledge(2, [(5, 9, ACCEPT)]).answered()
    assert accused(talk) == ["ACK_NOT_OWNER"]


@pytest.mark.parametrize(
    "why", ["nothing refused before", "the lock may be out", "others again", "not these", "not sure of it"]
)
def test_a_refusal_may_have_another_reason(why: str) -> None:
    talk = Conversation()
    holding(talk, (10, 19), name="b")
    a = holding(talk, (0, 9), lock_ms=2000)
    if why != "nothing refused before":
        refused(a, 1, (0, 1, ACCEPT) if why == "not these" else (5, 14, ACCEPT))
    if why == "the lock may be out":
        talk.pause(2)
    if why == "not sure of it":
        refused(a, 2, (9, 9, ACCEPT), error=6)
    epoch = {"nothing refused before": 1, "not sure of it": 3}.get(why, 2)
    refused(a, epoch, (5, 12 if why == "others again" else 9, ACCEPT))
    assert BROKEN not in codes(talk)


def test_no_missing_packet_accuses_the_broker() -> None:
    talk = alone()
    partly_applied(talk)
    assert codes(talk) == [("ACK_NOT_OWNER", "violation"), BROKEN]
    first = talk.exchanges[-1].packets[0]
    for number, _ in talk.packets():
        if number < first:
            assert BROKEN[0] not in accused(talk.without_packets([number])) or number < 24, number


# -- lost, or never sent


@pytest.mark.parametrize(("kind", "told"), [(ACCEPT, [LOST]), (REJECT, [LOST]), (RELEASE, [])])
def test_what_had_to_be_done_with_comes_again(kind: int, told: list[tuple[str, str]]) -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9), lock_ms=2000), talk.member("b")
    a.share_acknowledge(1, [(0, 9, kind)])
    a.connection.reset()
    talk.pause(3)
    given(b, 0, (0, 9, 2), lock_ms=2000)
    assert codes(talk)[1:] == told


def test_an_answer_that_the_capture_lacks_is_none_that_never_came() -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9), lock_ms=2000), talk.member("b")
    answer = a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered(acks={0: 121})
    continue_session(a, 2)
    talk.pause(3)
    given(b, 0, (0, 9, 2))
    assert LOST not in codes(talk.without_packets(answer.answer_packets))


@pytest.mark.parametrize("done", ["accepted in part", "renewed", "released", "session over"])
def test_who_said_something_is_not_silent(done: str) -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9), lock_ms=2000), talk.member("b")
    if done == "accepted in part":
        a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    elif done == "renewed":
        a.share_acknowledge(1, [(0, 9, RENEW)], version=2, renew=True).answered(acquisition_lock_timeout_ms=2000)
    elif done == "released":
        a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    else:
        a.share_acknowledge(-1).answered()
    talk.pause(5)
    given(b, 0, (10, 19, 1) if done == "accepted in part" else (0, 9, 2), lock_ms=2000)
    assert codes(talk) == ([SLOW] if done == "renewed" else [])


def test_a_slow_consumer_is_told_the_first_time_and_the_tenth() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    for count in range(1, 13):
        given(
            (a, b)[count % 2], count - 1 - count // 2 if count % 2 == 0 else count // 2, (count, count, 1), lock_ms=2000
        )
    talk.pause(3)
    for epoch in range(6, 12):
        given(b, epoch, (2 * (epoch - 5), 2 * (epoch - 5), 2), lock_ms=2000)
    assert codes(talk) == [NEVER]


def test_several_ranges_of_one_acquisition_are_told_together() -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 4), (10, 14), lock_ms=2000), talk.member("b")
    a.share_acknowledge(1, [(2, 2, ACCEPT)]).answered()
    talk.pause(3)
    given(b, 0, (0, 1, 2), (3, 4, 2), (10, 14, 2), lock_ms=2000)
    (it,) = findings(talk)
    assert (it.code, it.first_offset, it.last_offset) == (SLOW[0], 0, 14)
    assert "offsets 0 to 1, 3 to 4, 10 to 14 of partition 0 are delivered again" in it.argument


# -- at work, and too slow


def too_slow(talk: Conversation) -> None:
    """A member acknowledges half of its records; the others go to another one."""
    a = holding(talk, (0, 9), lock_ms=2000)
    a.share_acknowledge(1, [(0, 4, ACCEPT)]).answered()
    talk.pause(3)
    given(talk.member("b"), 0, (5, 9, 2), lock_ms=2000)


def test_who_was_too_slow_was_not_silent() -> None:
    talk = Conversation()
    too_slow(talk)
    assert codes(talk) == [SLOW]


@pytest.mark.parametrize("how", ["released", "session over"])
def test_records_that_were_given_back_were_not_too_slow(how: str) -> None:
    talk = Conversation()
    a = holding(talk, (0, 9), lock_ms=2000)
    a.share_acknowledge(1, [(0, 4, ACCEPT)]).answered()
    if how == "released":
        a.share_acknowledge(2, [(5, 9, RELEASE)]).answered()
    else:
        a.share_acknowledge(-1).answered()
    talk.pause(3)
    given(talk.member("b"), 0, (5, 9, 2), lock_ms=2000)
    assert codes(talk) == []


@pytest.mark.parametrize(("acks", "told"), [([(0, 4, ACCEPT)], [SLOW]), ([], [NEVER])])
def test_of_an_acquisition_it_is_told_when_the_first_record_comes_again(
    acks: list[tuple[int, int, int]], told: list[tuple[str, str]]
) -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9), lock_ms=2000), talk.member("b")
    if acks:
        a.share_acknowledge(1, acks).answered()
    talk.pause(3)
    given(b, 0, (5, 5, 2), lock_ms=2000)
    given(b, 1, (6, 6, 2), lock_ms=2000)
    given(b, 2, (7, 9, 2), lock_ms=2000)
    assert codes(talk) == told


def test_what_is_missing_accuses_nobody_of_being_slow() -> None:
    talk = Conversation()
    too_slow(talk)
    for number, _ in talk.packets():
        assert accused(talk.without_packets([number])) == [], number


# -- processed twice


def test_the_second_acceptance_comes_behind_the_late_one() -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9), lock_ms=2000), talk.member("b")
    talk.pause(3)
    given(b, 0, (0, 9, 2), lock_ms=2000)
    refused(a, 1, (0, 4, ACCEPT))
    b.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    assert codes(talk) == [NEVER, ("ACK_AFTER_LOCK_TIMEOUT", "note"), TWICE]


def test_below_the_start_offset_the_late_one_is_taken() -> None:
    talk = Conversation()
    both_accept(talk, late=0)
    assert codes(talk) == [NEVER, TWICE]


def test_who_gave_them_back_has_not_processed_them() -> None:
    """Nor was it too late for that."""
    talk = Conversation()
    a, b = holding(talk, (0, 9)), talk.member("b")
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    given(b, 0, (0, 9, 2))
    b.share_acknowledge(1, [(0, 4, ACCEPT)]).answered()
    refused(a, 2, (0, 4, ACCEPT))
    assert codes(talk) == [("ACK_REFUSED", "unknown")]


@pytest.mark.parametrize(
    "why", ["rejected by the second", "released by the first", "another's by mistake", "none of these"]
)
def test_only_one_of_them_has_processed_it(why: str) -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9), lock_ms=2000), talk.member("b")
    if why == "another's by mistake":
        a = holding(talk, (20, 29), name="c")
    talk.pause(3)
    given(b, 0, (0, 9, 2))
    for epoch, last in ((1, 4), (2, 9)):
        b.share_acknowledge(
            epoch, [(5 * (epoch - 1), last, REJECT if why == "rejected by the second" else ACCEPT)]
        ).answered()
    refused(
        a,
        1,
        (10, 12, ACCEPT) if why == "none of these" else (0, 4, RELEASE if why == "released by the first" else ACCEPT),
    )
    assert TWICE not in codes(talk)


def test_no_missing_packet_makes_it_twice() -> None:
    """Nor is anybody accused of what came late."""
    talk = Conversation()
    both_accept(talk)
    for number, _ in talk.packets():
        assert accused(talk.without_packets([number])) == [], number


# -- given back, or turned down


def some(member: Member, *runs: tuple[int, int, int], rest: int = RELEASE) -> None:
    acknowledged(member, list(runs), rest)


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([(0, 2, ACCEPT), (3, 5, RELEASE)], [STORM]),
        ([(0, 3, ACCEPT), (4, 6, RELEASE)], []),
        ([(0, 2, RELEASE)], [STORM]),
        ([(0, 1, RELEASE)], []),
        ([(0, 2, REJECT), (3, 5, RELEASE)], [STORM]),
    ],
)
def test_a_storm_is_most_of_ten_records_or_more(runs: list[tuple[int, int, int]], told: list[tuple[str, str]]) -> None:
    talk = Conversation()
    some(holding(talk, (0, 19)), *runs)
    assert codes(talk) == told


def test_two_requests_are_no_storm() -> None:
    talk = Conversation()
    a = holding(talk, (0, 99))
    a.share_acknowledge(1, [(0, 49, RELEASE)]).answered()
    a.share_acknowledge(2, [(50, 99, RELEASE)]).answered()
    assert codes(talk) == []


def test_who_leaves_gives_back_what_is_left() -> None:
    talk = Conversation()
    a = holding(talk, (0, 29))
    for epoch in (1, 2, -1):
        a.share_acknowledge(epoch, [(10 * (epoch % 3), 10 * (epoch % 3) + 9, RELEASE)]).answered()
    assert codes(talk) == []


def test_what_was_refused_does_not_count() -> None:
    talk = Conversation()
    a = holding(talk, (0, 29), lock_ms=2000)
    talk.pause(3)
    for epoch in (1, 2, 3):
        refused(a, epoch, (0, 29, RELEASE))
    assert STORM not in codes(talk)


@pytest.mark.parametrize(("accepted", "told"), [(30, [("REJECT_RATE", "note")]), (31, [])])
def test_a_quarter_rejected_is_worth_a_word(accepted: int, told: list[tuple[str, str]]) -> None:
    talk = Conversation()
    some(holding(talk, (0, 99)), (0, accepted - 1, ACCEPT), (accepted, accepted + 2, REJECT), rest=REJECT)
    assert codes(talk) == told


# -- the answer keys

NUMBERS = {rule.number for rule in redelivery.ROWS}
WHOLE = "the broker kept to it: nothing is taken, and the member's own part is when it comes alone"
ONCE = "told with the third such request, and not again"
#: What its maker had in mind, and these packets do not show, by capture and request.
NOT_SHOWN = {
    ("adv-acks", 295): WHOLE,
    ("adv-acks", 297): WHOLE,
    ("adv-acks", 391): "by then the answer that handed them out again has come: nothing tells which delivery is meant",
    ("adv-acks", 466): ONCE,
    ("adv-acks", 475): ONCE,
    ("adv-acks", 493): ONCE,
    ("adv-acks", 502): ONCE,
    ("adv-acks", 511): ONCE,
    ("adv-acks", 520): ONCE,
}


@pytest.mark.parametrize("name", ["adv-acks", "adv-sessions-4.2.1", "adv-races-4.1.2"])
def test_steps_of_the_answer_keys_are_told(name: str) -> None:
    assert untold(CAPTURES / f"{name}.pcap", NUMBERS) == [packet for capture, packet in NOT_SHOWN if capture == name]
