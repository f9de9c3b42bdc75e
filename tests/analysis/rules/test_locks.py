"""Locks that hold all others up, or last longer than before: what is nearly that, and what the capture has to show."""

from __future__ import annotations

import pytest

from kshark.model import Finding
from tests.analysis.coordinators import ACCEPTED, leader
from tests.analysis.rules.promises.acknowledgements import ACCEPT, RELEASE, holding
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.talks import handed
from tests.conversation import Asked, Conversation, Thinned, findings

FULL, CHANGED = "WINDOW_SATURATED", "LOCK_DURATION_CHANGED"


def found(talk: Conversation | Thinned, code: str) -> list[Finding]:
    return [it for it in findings(talk) if it.code == code]


# -- a window without room


def starves(talk: Conversation, name: str = "b", **how: object) -> Asked:
    """Another member fetches, and is handed nothing."""
    return talk.member(name).share_fetch(0, [0], **how).answered()  # type: ignore[arg-type]


def test_who_holds_the_first_offset_is_named() -> None:
    talk = Conversation()
    a, c = holding(talk, (0, 499)), holding(talk, (500, 1999), name="c")
    a.share_acknowledge(1, [(0, 6, ACCEPT), (8, 499, ACCEPT)]).answered()
    c.share_acknowledge(1, [(500, 999, ACCEPT)]).answered()
    talk.pause(5)
    starves(talk)
    assert found(talk, FULL) == []  # 7 to 1999 are less than there is room for
    given(c, 2, (2000, 2009, 1))
    starves(talk, "d")
    (it,) = found(talk, FULL)
    assert (it.first_offset, it.last_offset) == (7, 2009)
    assert f"member {a.member_id} has held the first, 7, since" in it.argument


@pytest.mark.parametrize(
    ("release", "last", "told"), [("4.2", 1998, 0), ("4.2", 1999, 1), ("4.1", 1998, 0), ("4.1", 1999, 1)]
)
def test_there_is_room_for_2000(release: str, last: int, told: int) -> None:
    talk = Conversation(release=release)
    holding(talk, (0, last))
    starves(talk)
    assert len(found(talk, FULL)) == told


@pytest.mark.parametrize(("last", "told"), [(198, 0), (199, 1), (250, 1)])
def test_4_0_has_room_for_200(last: int, told: int) -> None:
    talk = Conversation(release="4.0")
    a = talk.member("a")
    a.share_fetch(0, [0], version=0).answered(responses=handed((0, 0, last)))
    starves(talk, version=0)
    assert len(found(talk, FULL)) == told


def test_who_acquires_beyond_has_more_room() -> None:
    """The group's limit is none of the usual ones."""
    talk = Conversation()
    holding(talk, (0, 1999), (2000, 2499))
    starves(talk)
    assert found(talk, FULL) == []


def test_records_that_are_free_hold_nobody_up() -> None:
    talk = Conversation()
    a = holding(talk, (0, 1999))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    starves(talk)
    assert found(talk, FULL) == []


def test_a_lock_that_may_be_out_holds_nobody_up() -> None:
    talk = Conversation()
    holding(talk, (0, 1999), lock_ms=2000)
    talk.pause(2)
    starves(talk)
    assert found(talk, FULL) == []


def test_what_is_done_with_makes_room() -> None:
    talk = Conversation()
    a = holding(talk, (0, 1999))
    a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    starves(talk)
    assert found(talk, FULL) == []


def test_a_fetch_that_came_before_it_was_full_may_have_missed_the_rest() -> None:
    talk = Conversation()
    b = talk.member("b")
    waiting = b.share_fetch(0, [0])
    holding(talk, (0, 1999))
    waiting.answered()
    assert found(talk, FULL) == []


@pytest.mark.parametrize("what", ["elsewhere", "renewal", "throttled", "refused"])
def test_who_could_not_have_been_handed_any_does_not_starve(what: str) -> None:
    talk = Conversation()
    holding(talk, (0, 1999))
    b = talk.member("b")
    if what == "elsewhere":
        b.share_fetch(0, [1]).answered()
    elif what == "renewal":
        b.share_fetch(0, [0], version=2, is_renew_ack=True, share_acquire_mode=0).answered()
    elif what == "throttled":
        b.share_fetch(0, [0]).answered(throttle_time_ms=1000)
    else:
        b.share_fetch(0, [0]).answered(30)
    assert found(talk, FULL) == []


def test_it_is_told_the_first_time_and_the_tenth() -> None:
    talk = Conversation()
    holding(talk, (0, 1999))
    b = talk.member("b")
    asked = [b.share_fetch(epoch, [0] if epoch == 0 else []).answered() for epoch in range(12)]
    assert [it.packet for it in found(talk, FULL)] == [asked[0].packet, asked[9].packet]


def test_behind_a_missing_answer_the_first_offset_may_be_done_with() -> None:
    talk = Conversation()
    a = holding(talk, (0, 1999))
    asked = a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    starves(talk)
    for gone in (asked.answer_packets, asked.packets):
        assert found(talk.without_packets(gone), FULL) == []


# -- a lock of another length


def test_groups_have_their_own() -> None:
    talk = Conversation()
    given(talk.member("a"), 0, (0, 4, 1))
    given(talk.member("b", group="other"), 0, (0, 4, 1), lock_ms=60_000)
    assert found(talk, CHANGED) == []


def test_brokers_that_differ_are_told_once() -> None:
    talk = Conversation()
    a = talk.member("a")
    b = a.on(talk.connection("10.0.0.8:9092"))
    given(a, 0, (0, 4, 1))
    other = b.share_fetch(0, [1]).answered(responses=handed((1, 0, 4)), acquisition_lock_timeout_ms=60_000)
    given(a, 1, (5, 9, 1))
    b.share_fetch(1).answered(responses=handed((1, 5, 9)), acquisition_lock_timeout_ms=60_000)
    assert [it.packet for it in found(talk, CHANGED)] == [other.packet]
    assert "the lock was 30 s by 10.0.0.9:9092" in found(talk, CHANGED)[0].argument


def test_versions_that_do_not_tell_have_not_changed() -> None:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 4, 1))
    given(a, 1, (5, 9, 1), lock_ms=0)
    given(a, 2, (10, 19, 1))
    assert found(talk, CHANGED) == []


def test_what_is_stored_counts_for_the_window() -> None:
    talk = Conversation()
    stored = leader(talk)
    holding(talk, (0, 1999))
    stored.write(0, (0, 9, ACCEPTED, 1)).accepted()
    starves(talk)
    assert found(talk, FULL) == []
