"""What is stored of a share partition, and what a share coordinator loses of it."""

from __future__ import annotations

import pytest

from tests.analysis.coordinators import ACCEPTED, ARCHIVED, AVAILABLE, Batch, Sender, leader
from tests.analysis.talks import INVALID_REQUEST, codes
from tests.conversation import Conversation, Thinned, findings, note, unknown, violation

TEN = (100, 109, ACCEPTED, 1)
NEXT_TEN = (110, 119, ACCEPTED, 1)
ARCHIVING = 3


def stored(talk: Conversation | Thinned) -> list[tuple[str, str]]:
    return [(code, verdict) for code, verdict in codes(talk) if code != "WRITE_BEFORE_READ"]


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [TEN],
        [TEN, NEXT_TEN],
        [NEXT_TEN, TEN],
        [(100, 100, AVAILABLE, 0)],
        [(100, 100, ARCHIVING, 1), (101, 101, ARCHIVED, 25)],
        [(90, 99, ARCHIVED, 2), TEN],
    ],
)
def test_what_a_leader_may_store(batches: list[Batch]) -> None:
    talk = Conversation()
    leader(talk).write(100, *batches, complete=-1).accepted()
    assert stored(talk) == []


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ([(109, 100, ACCEPTED, 1)], "109-100 ends before it begins"),
        ([(100, 109, 1, 1)], "100-109 has state 1, which is never stored"),
        ([(100, 109, 7, 1)], "100-109 has state 7, which is never stored"),
        ([(100, 109, ACCEPTED, -1)], "100-109 has delivery count -1"),
        ([(99, 109, ACCEPTED, 1)], "99-109 begins below its start offset"),
        ([(90, 99, ACCEPTED, 1)], "90-99 begins below its start offset"),
        ([(99, 109, ARCHIVED, 1)], "99-109 begins below its start offset"),
        ([TEN, (109, 119, ACCEPTED, 1)], "109-119 overlaps another"),
        ([(105, 119, ACCEPTED, 1), TEN], "105-119 overlaps another"),
    ],
)
def test_what_no_leader_can_mean(batches: list[Batch], told: str) -> None:
    talk = Conversation()
    wrong = leader(talk).write(100, *batches).accepted()
    assert findings(talk) == [violation("STATE_BATCH_INVALID", wrong.sent, "client")]
    assert findings(talk)[0].argument.endswith(f"its batch {told}")


@pytest.mark.parametrize(
    ("complete", "told"), [(-1, []), (0, []), (10, []), (10_000, []), (10_001, [("COMPLETE_COUNT_INVALID", "unknown")])]
)
def test_counts_that_there_may_be(complete: int, told: list[tuple[str, str]]) -> None:
    talk = Conversation()
    leader(talk).write(100, TEN, complete=complete).accepted()
    assert stored(talk) == told


def test_a_count_is_not_judged_where_the_beginning_was_not_seen() -> None:
    talk = Conversation()
    Sender(talk.connection()).write(100, TEN, complete=20_000).accepted()
    assert stored(talk) == []


def test_a_start_offset_may_be_left_as_it_was() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    a.write(-1, NEXT_TEN).accepted()
    a.write(100, NEXT_TEN).accepted()
    assert stored(talk) == []


def test_a_refused_write_moves_no_start_offset() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(200, TEN[:0] or (200, 209, ACCEPTED, 1)).refused(14)
    a.write(100, TEN).accepted()
    assert stored(talk) == []


def test_a_leader_goes_back_behind_what_it_was_given() -> None:
    talk = Conversation()
    a = Sender(talk.connection())
    a.read().given(100)
    wrong = a.write(90, TEN).accepted()
    assert findings(talk) == [violation("START_OFFSET_REGRESSION", wrong, "client")]


def test_a_hole_between_two_start_offsets() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    lost = a.write(100, NEXT_TEN).accepted()
    wrong = a.write(90, TEN).accepted()
    assert findings(talk.without_packets(lost.all_packets)) == [unknown("START_OFFSET_REGRESSION", wrong, "gap")]


@pytest.mark.parametrize(
    ("release", "verdict"), [("4.2", "violation"), ("4.3", "violation"), ("4.4", "note"), (None, "unknown")]
)
def test_since_4_4_coordinators_keep_the_higher_start_offset(release: str | None, verdict: str) -> None:
    talk = Conversation(release=release)
    a = leader(talk)
    a.write(100, TEN).accepted()
    a.write(90, TEN).accepted()
    told = [it for it in findings(talk) if it.code == "START_OFFSET_REGRESSION"]
    assert [(it.verdict, it.unknown_because) for it in told] == [(verdict, None if release else "release_unknown")]
    for number, _ in talk.packets():
        accused = [it for it in findings(talk.without_packets([number])) if it.verdict == "violation"]
        assert verdict == "violation" or not accused, number


def test_what_a_coordinator_has_kept_it_tells() -> None:
    """What is below the start offset that it kept is gone; the third write is below what is stored, not below the one
    before it."""
    talk = Conversation(release="4.4")
    a = leader(talk)
    a.write(100, (100, 119, ACCEPTED, 1)).accepted()
    a.write(110, (110, 119, ACCEPTED, 1)).accepted()
    a.write(105, (105, 106, ARCHIVED, 1)).accepted()
    a.write(107, (107, 109, ARCHIVED, 1)).accepted()
    a.read().given(110, (110, 119, ACCEPTED, 1))
    assert stored(talk) == [("START_OFFSET_REGRESSION", "note")] * 2


def test_an_administrator_sets_the_start_offset_back() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    Sender(talk.connection()).initialize(6, 0).accepted()
    a.read().given(0, state_epoch=6)
    a.write(0, (0, 9, ACCEPTED, 1), state_epoch=6).accepted()
    assert stored(talk) == []


@pytest.mark.parametrize(
    "given",
    [
        [(100, 119, ACCEPTED, 1)],
        [TEN, (110, 119, ACCEPTED, 2)],
        [(100, 104, ACCEPTED, 1), (105, 119, ACCEPTED, 1), (120, 129, AVAILABLE, 1)],
    ],
)
def test_nothing_is_lost_where_more_is_told(given: list[Batch]) -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    a.write(100, NEXT_TEN).accepted()
    a.read().given(100, *given)
    assert stored(talk) == []


def test_what_lies_below_the_start_offset_is_not_lost() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    a.read().given(110)
    assert stored(talk) == []


@pytest.mark.parametrize(
    "given", [(110, 119, ACCEPTED, 0), (110, 119, AVAILABLE, 1), (111, 119, ACCEPTED, 1), (110, 118, ACCEPTED, 1)]
)
def test_a_batch_is_lost_where_less_is_told(given: Batch) -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    a.write(100, NEXT_TEN).accepted()
    wrong = a.read().given(100, TEN, given)
    assert findings(talk) == [violation("STATE_LOST", wrong, "broker")]


def test_a_reset_that_was_not_seen_leaves_nothing() -> None:
    """What was stored behind the lost batch may have been stored behind a reset, too."""
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    a.write(100, NEXT_TEN).accepted()
    wrong = a.read().given(100, NEXT_TEN)
    assert findings(talk) == [unknown("STATE_LOST", wrong, "hidden_traffic")]


def test_another_leader_may_have_stored_anew_what_is_still_there() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    a.write(100, NEXT_TEN).accepted()
    wrong = a.read(leader_epoch=1).given(100, TEN)
    assert findings(talk) == [unknown("STATE_LOST", wrong, "hidden_traffic")]


def test_a_write_that_was_open_may_have_come_behind_the_read() -> None:
    talk = Conversation()
    a = leader(talk)
    read = Sender(talk.connection()).read()
    a.write(100, TEN).accepted()
    read.given(-1)
    assert stored(talk) == []


def test_a_write_without_an_answer_may_not_have_been_stored() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN)
    a.connection.close()
    Sender(talk.connection()).read().given(-1)
    assert stored(talk) == []


def test_a_write_in_a_hole_may_have_been_stored() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    lost = a.write(100, NEXT_TEN).accepted()
    wrong = a.read().given(100, (100, 104, ACCEPTED, 1))
    thinned = talk.without_packets(lost.all_packets)
    assert findings(talk) == [unknown("STATE_LOST", wrong, "hidden_traffic")]
    assert findings(thinned) == [unknown("STATE_LOST", wrong, "gap")]


def test_a_coordinator_does_not_know_what_it_stored() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    wrong = Sender(talk.connection()).read(leader_epoch=1).refused(INVALID_REQUEST)
    assert findings(talk) == [
        unknown("STATE_LOST", wrong, "hidden_traffic"),
        note("WRITE_UNINITIALIZED", wrong, "not_initialized"),
    ]


def test_what_became_of_a_deleted_topic_is_asked_once() -> None:
    """Its state goes without a request; the leader hears of it later, and stores until then what comes to its end."""
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    late, again, last = (a.write(100, TEN).refused(INVALID_REQUEST) for _ in range(3))
    assert findings(talk) == [
        unknown("STATE_LOST", late, "hidden_traffic"),
        unknown("WRITE_UNINITIALIZED", late, "hidden_traffic", "not_initialized"),
        note("WRITE_UNINITIALIZED", again, "refused_before"),
        note("WRITE_UNINITIALIZED", last, "refused_before"),
    ]


def test_a_summary_that_lags() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    wrong = Sender(talk.connection()).summary().summed_up(90)
    assert findings(talk) == [unknown("START_OFFSET_REGRESSION", wrong, "hidden_traffic")]
