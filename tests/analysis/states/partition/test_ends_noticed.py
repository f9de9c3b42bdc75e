"""The end of a connection on which a request waits: its broker reads nothing more of it before it has answered, and
notices no end."""

from __future__ import annotations

import pytest

from kshark.analysis import Analyzer
from kshark.analysis.states.partition.share_partition import Change, SharePartition
from tests.analysis.talks import handed
from tests.conversation import (
    SHARE_SESSION_NOT_FOUND,
    Asked,
    Conversation,
    Member,
    events,
    everything,
    findings,
    unknown,
)

ACCEPT = 1
INVALID_RECORD_STATE = 121


def acquires(member: Member, epoch: int, first: int, last: int, count: int = 1) -> Asked:
    responses = handed((0, first, last, count))
    return member.share_fetch(epoch, [0] if epoch == 0 else []).answered(
        responses=responses, acquisition_lock_timeout_ms=30_000
    )


def changes(talk: Conversation) -> list[tuple[str, int]]:
    """What happened to records, with the packets."""
    told: list[Change] = []
    analyzer = Analyzer(on_change=told.append)
    analyzer.page(events(talk))
    analyzer.close()
    return [(one.event, one.packet) for one in told]


def reopened_before_that_was_noticed() -> tuple[Conversation, Member]:
    """The member's first connection ends while a fetch waits there; its next session takes the place of the first one,
    and its records."""
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, 0, 9)
    waits = a.share_fetch(1)
    a.connection.tcp.fin()
    again = a.on(talk.connection())
    again.share_fetch(0, [0]).answered()
    waits.answered()
    return talk, again


def test_records_go_over_to_the_session_that_was_opened_before_the_end_was_noticed() -> None:
    talk, a = reopened_before_that_was_noticed()
    a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    assert [event for event, _ in changes(talk)] == ["acquired", "accepted"]
    for exact in (False, True):
        assert not [one for one in everything(talk, exact=exact) if one.verdict == "violation"]


def test_whether_it_was_noticed_is_not_known_where_they_are_not_the_members_any_more() -> None:
    talk, a = reopened_before_that_was_noticed()
    asked = a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered(acks={0: INVALID_RECORD_STATE})
    assert unknown("ACK_REFUSED", asked, "lock_unknown") in findings(talk)


def test_records_are_free_with_the_answer_that_let_the_broker_notice() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    acquires(a, 0, 0, 9)
    waits = a.share_fetch(1)
    a.connection.tcp.fin()
    waits.answered()
    acquires(b, 0, 0, 9, 2)
    assert changes(talk)[1] == ("session_released", waits.packet)
    assert not [one for one in findings(talk) if one.verdict == "violation"]


@pytest.mark.parametrize("answered", [True, False])
def test_whoever_gets_them_before_the_answer_was_not_handed_what_is_held(answered: bool) -> None:
    """Where the answer is missing nobody knows when the broker noticed."""
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    acquires(a, 0, 0, 9)
    waits = a.share_fetch(1)
    a.connection.tcp.fin()
    acquires(b, 0, 0, 9, 2)
    if answered:
        waits.answered()
    assert not [one for one in findings(talk) if one.verdict == "violation"]


def test_an_end_behind_which_nothing_waits_is_noticed_at_once() -> None:
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, 0, 9)
    fin = a.connection.tcp.fin()
    assert changes(talk)[1:] == [("session_released", fin)]


def test_an_end_by_the_broker_is_no_news_to_it() -> None:
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, 0, 9)
    a.share_fetch(1)
    fin = a.connection.tcp.fin(1)
    assert changes(talk)[1:] == [("session_released", fin)]


def acquired_before_it_was_noticed() -> tuple[Conversation, Member]:
    """The session goes on elsewhere for as long as its broker has not noticed that the connection is gone which it was
    opened on."""
    talk = Conversation()
    a = talk.member("a")
    acquires(a, 0, 0, 9)
    elsewhere = a.on(talk.connection())
    a.connection.tcp.fin()
    acquires(elsewhere, 1, 10, 19)
    elsewhere.share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    elsewhere.share_fetch(0, [0]).answered()
    return talk, elsewhere


@pytest.mark.parametrize("exact", [False, True])
def test_what_was_acquired_meanwhile_goes_with_the_session(exact: bool) -> None:
    """Seen on 4.1.2: who asks next is handed them."""
    talk, _ = acquired_before_it_was_noticed()
    acquires(talk.member("b"), 0, 10, 19, 2)
    assert not [one for one in everything(talk, exact=exact) if one.verdict == "violation"]


def test_a_session_that_is_not_found_again_and_again_lets_go_once(monkeypatch: pytest.MonkeyPatch) -> None:
    talk, a = acquired_before_it_was_noticed()
    for _ in range(20):
        a.share_fetch(7).answered(SHARE_SESSION_NOT_FOUND)
    looked: list[int] = []
    let_go = SharePartition.let_go
    monkeypatch.setattr(
        SharePartition,
        "let_go",
        lambda self, member, packet, *of, **how: looked.append(packet) or let_go(self, member, packet, *of, **how),
    )
    everything(talk)
    assert len(looked) == 2, "at the end that was seen, and when it was not found"


def test_nor_has_the_member_them_any_more() -> None:
    talk, a = acquired_before_it_was_noticed()
    asked = a.share_acknowledge(1, [(10, 19, ACCEPT)]).answered(acks={0: INVALID_RECORD_STATE})
    assert unknown("ACK_REFUSED", asked, "lock_unknown") in findings(talk)
