"""Records that nobody gets any more: what the capture has to show of that."""

from __future__ import annotations

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st

from kshark.analysis.rules import last_deliveries
from kshark.analysis.states.partition import given_up
from kshark.model import Finding
from tests.analysis.coordinators import ARCHIVED, leader
from tests.analysis.rules.promises.acknowledgements import ACCEPT, REJECT, RELEASE
from tests.analysis.rules.promises.deliveries import continue_session, given
from tests.analysis.rules.promises.last_deliveries import released_and_skipped
from tests.analysis.talks import sets
from tests.answers import untold
from tests.conversation import Conversation, Member, Thinned, everything, findings
from tests.shared import CAPTURES


def lost(talk: Conversation | Thinned) -> list[Finding]:
    return [it for it in findings(talk) if it.code == "POISON_RECORD"]


def ranges(talk: Conversation) -> list[tuple[int | None, int | None]]:
    return [(it.first_offset, it.last_offset) for it in lost(talk)]


def released(talk: Conversation, *given_to: tuple[int, int, int]) -> Member:
    """A member that releases what it was handed."""
    a = talk.member("a")
    given(a, 0, *given_to)
    a.share_acknowledge(1, [(first, last, RELEASE) for first, last, _ in given_to]).answered()
    return a


# -- the group's own limit


@pytest.mark.parametrize(("limit", "told"), [(5, 1), (6, 0)])
def test_the_groups_own_limit_tells_which_delivery_is_the_last(limit: int, told: int) -> None:
    talk = Conversation()
    shown = sets(talk.connection(), "share.delivery.count.limit", str(limit), group="g")
    released_and_skipped(talk, 0)
    words = f"number 5 (the limit of the group is 5: packet {shown.answer_packets[-1]})"
    assert [words in it.argument for it in lost(talk)] == [True] * told


def test_a_limit_that_came_after_the_last_delivery_says_nothing() -> None:
    talk = Conversation()
    released_and_skipped(talk, 0)
    sets(talk.connection(), "share.delivery.count.limit", "9", group="g")
    assert len(lost(talk)) == 1


# -- handed out once more


def test_released_records_that_come_again_are_not_lost() -> None:
    talk = Conversation()
    a = released(talk, (0, 4, 5))
    talk.pause(31)
    given(a, 2, (0, 4, 6), (5, 9, 1))
    talk.pause(31)
    given(a, 3, (10, 19, 1))
    assert lost(talk) == []


def test_records_that_others_still_have_may_come_again() -> None:
    talk = Conversation()
    a = released(talk, (0, 4, 5))
    given(talk.member("b"), 0, (0, 4, 6))
    talk.pause(25)
    given(a, 2, (5, 9, 1))
    assert lost(talk) == []


@pytest.mark.parametrize(("pause", "told"), [(29.9, 0), (30.1, 1)])
def test_somebody_may_have_them_unseen_for_as_long_as_a_lock_lasts(pause: float, told: int) -> None:
    talk = Conversation()
    released_and_skipped(talk, 4, pause=pause)
    assert len(lost(talk)) == told


def test_records_before_them_may_be_handed_out_first() -> None:
    talk = Conversation()
    a = released(talk, (0, 4, 1), (5, 9, 5))
    talk.pause(31)
    given(a, 2, (0, 4, 2))
    assert lost(talk) == []
    given(a, 3, (10, 19, 1))
    assert ranges(talk) == [(5, 9)]


def test_who_was_delivered_less_often_than_others_is_not_at_the_limit() -> None:
    talk = Conversation()
    a = released(talk, (0, 4, 3), (5, 9, 4))
    talk.pause(31)
    given(a, 2, (10, 19, 1))
    assert ranges(talk) == [(5, 9)]


def test_a_first_delivery_is_no_last_one() -> None:
    talk = Conversation()
    released_and_skipped(talk, 4, count=1)
    assert lost(talk) == []


# -- done with


@pytest.mark.parametrize("kind", [ACCEPT, REJECT])
def test_records_that_their_member_was_done_with_are_not_lost(kind: int) -> None:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 4, 5))
    a.share_acknowledge(1, [(0, 4, kind)]).answered()
    talk.pause(31)
    given(a, 2, (5, 9, 1))
    assert lost(talk) == []


# -- how they came to be free


def test_a_lock_that_ran_out_ends_the_last_delivery_too() -> None:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 4, 5), lock_ms=2000)
    talk.pause(6)
    given(a, 1, (5, 9, 1), lock_ms=2000)
    given(a, 2, (10, 19, 1), lock_ms=2000)
    assert ["let its lock expire" in it.argument for it in lost(talk)] == [True]


@pytest.mark.parametrize("next_member", ["a", "b", "c"])
@pytest.mark.parametrize("ended", ["released", "lock", "session"])
def test_whoever_receives_the_next_records_shows_it(next_member: str, ended: str) -> None:
    """The first delivery after the lock's end is enough, of the same member, another one, or one that joins then."""
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    b.share_fetch(0).answered()
    given(a, 0, (0, 0, 5))
    if ended == "released":
        a.share_acknowledge(1, [(0, 0, RELEASE)]).answered()
    elif ended == "session":
        a.share_acknowledge(-1).answered()
    talk.pause(70)
    epochs = {"a": {"released": 2, "lock": 1, "session": 0}[ended], "b": 1, "c": 0}
    given(talk.member("c") if next_member == "c" else {"a": a, "b": b}[next_member], epochs[next_member], (1, 9, 1))
    assert ranges(talk) == [(0, 0)]


@pytest.mark.parametrize(("release", "told"), [("4.1", 0), ("4.2", 1)])
def test_the_end_of_a_session_counts_as_none_in_4_1(release: str, told: int) -> None:
    """KAFKA-17541: the delivery is taken back, so there is one more."""
    talk = Conversation(release=release)
    a = talk.member("a")
    given(a, 0, (0, 4, 5))
    a.share_acknowledge(-1).answered()
    talk.pause(31)
    given(a, 0, (5, 9, 1))
    given(a, 1, (10, 19, 1))
    assert len(lost(talk)) == told


# -- what is stored


def test_what_is_stored_as_archived_is_lost_at_once() -> None:
    talk = Conversation()
    stored = leader(talk)
    a = released(talk, (0, 4, 5))
    stored.write(0, (0, 4, ARCHIVED, 5)).accepted()
    given(a, 2, (5, 9, 1))
    assert ranges(talk) == [(0, 4)]


def test_what_the_start_offset_has_passed_is_lost_at_once() -> None:
    talk = Conversation()
    stored = leader(talk)
    a = released(talk, (0, 4, 5))
    stored.write(5, (5, 9, ARCHIVED, 1)).accepted()
    given(a, 2, (10, 19, 1))
    assert ranges(talk) == [(0, 4)]


def test_what_is_stored_later_is_lost_then() -> None:
    for stored, lost_then in (
        ((0, (0, 4, ARCHIVED, 5)), [(0, 4)]),
        ((5, (5, 9, ARCHIVED, 1)), [(0, 4)]),
        ((0, (5, 9, ARCHIVED, 1)), []),
    ):
        talk = Conversation()
        coordinator = leader(talk)
        a = released(talk, (0, 4, 5))
        given(a, 2, (5, 9, 1))
        coordinator.write(*stored).accepted()
        given(a, 3, (10, 19, 1))
        assert ranges(talk) == lost_then


def test_what_is_stored_later_behind_records_that_others_have_is_lost_then() -> None:
    talk = Conversation()
    coordinator = leader(talk)
    given(talk.member("b"), 0, (0, 4, 1))
    a = released(talk, (5, 9, 5))
    given(a, 2, (10, 19, 1))
    assert lost(talk) == []
    coordinator.write(0, (5, 9, ARCHIVED, 5)).accepted()
    given(a, 3, (20, 29, 1))
    assert ranges(talk) == [(5, 9)]


def test_who_turns_out_to_be_delivered_less_often_than_others_is_not_at_the_limit() -> None:
    talk = Conversation()
    a = released(talk, (0, 4, 3))
    given(a, 2, (5, 9, 1))
    given(talk.member("b"), 0, (10, 19, 4))
    talk.pause(31)
    given(a, 3, (20, 29, 1))
    assert lost(talk) == []


#: What happens: a fetch is handed a range for this time, it is released, time passes, or a leader stores something.
MOVES = st.tuples(
    st.sampled_from(("given", "given", "released", "pause", "archived", "start")), st.integers(0, 3), st.integers(3, 6)
)


def said(moves: list[tuple[str, int, int]]) -> Conversation:
    talk = Conversation()
    coordinator = leader(talk)
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    epoch = 1
    for what, place, count in moves:
        first, last = 5 * place, 5 * place + 4
        if what == "given":
            given(a, epoch, (first, last, count), *([(last + 1, last + 5, 1)] if count == 6 else []), lock_ms=4000)
            epoch += 1
        elif what == "released":
            a.share_acknowledge(epoch, [(first, last - count % 2, RELEASE)]).answered()
            epoch += 1
        elif what == "pause":
            talk.pause(count)
        else:
            coordinator.write(0 if what == "archived" else first, (first, last, ARCHIVED, count)).accepted()
    given(a, epoch, (100, 109, 1))
    return talk


@given_any(st.lists(MOVES, min_size=4, max_size=25))
def test_what_is_looked_at_only_where_something_is_new_comes_to_the_same(moves: list[tuple[str, int, int]]) -> None:
    talk = said(moves)
    found = everything(talk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(given_up, "_still_waits", lambda *_: False)
        assert everything(talk) == found


# -- what the capture does not hold


def test_others_may_have_been_handed_them() -> None:
    """Offsets are missing: members that the capture does not hold fetch from the partition, too."""
    talk = Conversation()
    a = released(talk, (0, 4, 5))
    given(a, 2, (20, 29, 1))
    talk.pause(31)
    given(a, 3, (30, 39, 1))
    assert lost(talk) == []


def test_without_its_answer_a_release_may_not_have_been_taken() -> None:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 4, 5))
    asked = a.share_acknowledge(1, [(0, 4, RELEASE)]).answered()
    talk.pause(31)
    given(a, 2, (5, 9, 1))
    assert len(lost(talk)) == 1
    assert lost(talk.without_packets(asked.answer_packets)) == []


@pytest.mark.sweep
def test_no_missing_packet_makes_anybody_lose_records() -> None:
    talk = Conversation()
    a = released(talk, (0, 4, 5))
    talk.pause(31)
    given(a, 2, (0, 4, 6))
    continue_session(a, 3)
    given(a, 4, (5, 9, 1))
    assert lost(talk) == []
    numbers = [number for number, _ in talk.packets()]
    for first in numbers:
        for last in numbers[first - 1 : first + 6]:
            assert lost(talk.without_packets(range(first, last + 1))) == [], (first, last)


# -- together


@pytest.mark.parametrize(("release", "told"), [("4.1", 0), ("4.2", 1)])
def test_brokers_before_4_2_deliver_them_together(release: str, told: int) -> None:
    talk = Conversation(release=release)
    released_and_skipped(talk, 4)
    assert len([it for it in findings(talk) if it.code == "LAST_ATTEMPT_NOT_ALONE"]) == told


def test_where_two_deliveries_are_all_the_last_is_shared() -> None:
    talk = Conversation()
    released_and_skipped(talk, 4, count=2)
    assert [it.code for it in findings(talk)] == ["POISON_RECORD"]


def test_one_after_the_other_is_alone() -> None:
    talk = Conversation()
    a = talk.member("a")
    for offset in (0, 1):
        given(a, 2 * offset, (offset, offset, 5))
        a.share_acknowledge(2 * offset + 1, [(offset, offset, RELEASE)]).answered()
    talk.pause(31)
    given(a, 4, (2, 9, 1))
    assert [it.code for it in findings(talk)] == ["POISON_RECORD"]
    assert "the same is true for offset 1" in findings(talk)[0].argument


# -- many


def test_the_first_ten_are_told_and_then_ever_fewer() -> None:
    talk = Conversation()
    stored = leader(talk)
    a = talk.member("a")
    for offset in range(25):
        given(a, 2 * offset, (offset, offset, 5))
        a.share_acknowledge(2 * offset + 1, [(offset, offset, RELEASE)]).answered()
        stored.write(offset, (offset, offset, ARCHIVED, 5)).accepted()
    assert ranges(talk) == [(offset, offset) for offset in range(10)]


# -- the answer keys

NUMBERS = {rule.number for rule in last_deliveries.ROWS}
#: What its maker had in mind, and these packets do not show: records that come again, and one that nothing is handed
#: out after.
NOT_SHOWN = [479, 484, 488, 493, 502, 511, 520]


def test_steps_of_the_answer_key_are_told() -> None:
    assert untold(CAPTURES / "adv-acks.pcap", NUMBERS) == NOT_SHOWN
