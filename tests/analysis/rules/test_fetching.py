"""Where members fetch from: nearly the same as what is wrong, and what the capture has to hold for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kshark.analysis.rules import fetching
from tests.analysis.coordinators import leader
from tests.analysis.rules.promises.acknowledgements import holding
from tests.analysis.rules.promises.fetching import left_to, stays
from tests.analysis.talks import (
    UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
    assigned,
    codes,
    handed,
    led_elsewhere,
    left,
    metadata,
    sent,
    unchanged,
)
from tests.answers import untold
from tests.conversation import BROKER, Conversation, Member
from tests.shared import CAPTURES

IGNORED = [("LEADER_HINT_IGNORED", "violation")]

UNKNOWN = [("TOPIC_ID_UNKNOWN", "note")]
UNINITIALIZED = [("PARTITION_UNINITIALIZED", "note")]


def fetches(talk: Conversation, *answers: dict[str, Any], pause: float = 6) -> Conversation:
    """A member whose fetches are answered so, one behind the other."""
    a = talk.member("a")
    for epoch, answer in enumerate(answers):
        a.share_fetch(epoch, [0] if epoch == 0 else []).answered(**answer)
        talk.pause(pause)
    return talk


def test_one_that_goes_on_is_told_once_of_each_leader() -> None:
    here, there = led_elsewhere(), led_elsewhere(3, "10.0.0.7:9092", epoch=6)
    assert codes(fetches(Conversation(), here, here, here, there, there, there)) == IGNORED * 2


@pytest.mark.parametrize("pause", [0.1, 4.9])
def test_the_broker_may_not_know_yet_that_it_leads(pause: float) -> None:
    """The client has newer Metadata, and comes too early."""
    assert codes(fetches(Conversation(), led_elsewhere(), led_elsewhere(), {}, pause=pause)) == []


def test_who_came_back_in_between_has_another_reason() -> None:
    assert codes(fetches(Conversation(), led_elsewhere(), {}, led_elsewhere())) == []
    assert codes(fetches(Conversation(), led_elsewhere(), led_elsewhere(epoch=7))) == []


def test_a_broker_that_names_itself_names_nobody_else() -> None:
    itself = led_elsewhere(1, BROKER)
    assert codes(fetches(Conversation(), itself, itself)) == []
    talk = Conversation()
    metadata(talk.connection(), {1: BROKER})
    named = led_elsewhere(1, "broker-1:9092")
    assert codes(fetches(talk, named, named)) == []


@pytest.mark.parametrize(("error", "told"), [(3, UNKNOWN), (100, UNKNOWN), (-1, UNINITIALIZED)])
def test_other_errors_name_no_leader(error: int, told: list[tuple[str, str]]) -> None:
    assert codes(fetches(Conversation(), led_elsewhere(error=error), led_elsewhere(error=error))) == told * 2


def test_a_leader_without_an_address_is_not_to_be_found() -> None:
    lost = {**led_elsewhere(), "node_endpoints": []}
    assert codes(fetches(Conversation(), lost, lost)) == []


def test_no_missing_packet_accuses_anybody() -> None:
    talk = Conversation()
    stays(talk, talk.member("a"))
    assert codes(talk) == IGNORED
    good = fetches(Conversation(), led_elsewhere(), {}, led_elsewhere(), {})
    for number, _ in good.packets():
        assert [it for it in codes(good.without_packets([number])) if it[1] == "violation"] == [], number


# -- partitions without a state


def failing() -> dict[str, Any]:
    return led_elsewhere(error=UNKNOWN_SERVER_ERROR)


def test_each_refusal_has_its_cause() -> None:
    assert codes(fetches(Conversation(), *[failing()] * 11, pause=0.1)) == UNINITIALIZED * 11


@pytest.mark.parametrize("who", ["a", "b"])
def test_records_of_it_were_handed_out_before(who: str) -> None:
    """To whomever: the partition has a state, and fails for another reason."""
    talk = Conversation()
    holding(talk, (0, 9), name=who)
    talk.member("c").share_fetch(0, [0]).answered(**failing())
    assert codes(talk) == []


def test_its_state_was_read_before() -> None:
    talk = Conversation()
    leader(talk)
    talk.member("a").share_fetch(0, [0]).answered(**failing())
    assert codes(talk) == []


def test_an_answer_that_was_cut_tells_nothing() -> None:
    talk = Conversation()
    fetch = talk.member("a").share_fetch(0, [0]).answered(**failing())
    assert codes(talk.without_packets(fetch.answer_packets)) == []


# -- partitions that are assigned

LEFT = [("ASSIGNED_NEVER_FETCHED", "note")]


def test_it_is_told_once_of_an_assignment() -> None:
    talk = Conversation()
    a = talk.member("a")
    left_to(talk, a, talk.member("b"))
    for _ in range(3):
        talk.pause(5)
        unchanged(a)
    assert codes(talk) == LEFT


def test_whoever_lists_all_that_it_was_assigned_leaves_nothing_aside() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(0, [1]).answered()
    left_to(talk, a.on(talk.connection()), b)
    assert "ASSIGNED_NEVER_FETCHED" not in dict(codes(talk))


def test_a_partition_that_was_listed_later_was_fetched() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    assigned(a, 0, 1)
    a.share_fetch(0, [0]).answered()
    b.share_fetch(0, [1]).answered(responses=handed((1, 0, 9)))
    talk.pause(5)
    unchanged(a)
    a.share_fetch(1, [1]).answered()
    talk.pause(5)
    unchanged(a)
    assert codes(talk) == []


@pytest.mark.parametrize(("pauses", "told"), [((5, 4.9), []), ((5, 5), LEFT), ((9.9,), []), ((10.1,), LEFT)])
def test_a_young_assignment_is_no_witness(pauses: tuple[float, ...], told: list[tuple[str, str]]) -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(0, [0]).answered()
    assigned(a, 0, 1)
    b.share_fetch(0, [1]).answered(responses=handed((1, 0, 9)))
    for pause in pauses:
        talk.pause(pause)
        unchanged(a)
    assert [one for one in codes(talk) if one[0] != "HEARTBEAT_LATE"] == told


def test_its_leader_may_be_one_with_whom_the_member_speaks_unseen() -> None:
    talk = Conversation()
    left_to(talk, talk.member("a"), talk.member("b", connection=talk.connection("10.0.0.8:9092")))
    assert codes(talk) == []


def test_where_nobody_was_handed_records_there_may_be_none() -> None:
    talk = Conversation()
    a = talk.member("a")
    assigned(a, 0, 1)
    a.share_fetch(0, [0]).answered()
    for _ in range(2):
        talk.pause(5)
        unchanged(a)
    assert codes(talk) == []


def test_a_member_that_was_told_otherwise_since_fetches_what_it_has_now() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    assigned(a, 0, 1)
    a.share_fetch(0, [0]).answered()
    b.share_fetch(0, [1]).answered(responses=handed((1, 0, 9)))
    talk.pause(5)
    assigned(a, 0)
    talk.pause(6)
    unchanged(a)
    talk.pause(6)
    unchanged(a)
    assert codes(talk) == []


@pytest.mark.parametrize(("from_syn", "joined"), [(True, False), (False, True), (False, False)])
def test_what_a_member_listed_before_its_beginning_is_not_known(from_syn: bool, joined: bool) -> None:
    talk = Conversation()
    connection = talk.connection(from_syn=from_syn, introduced=False)
    left_to(talk, talk.member("a", connection=connection, joined=joined), talk.member("b"))
    assert codes(talk) == []


def test_a_connection_that_began_before_the_capture_may_have_carried_an_earlier_life() -> None:
    talk = Conversation()
    connection = talk.connection(from_syn=False)
    for _ in range(9):
        metadata(connection, {1: BROKER})
    a = talk.member("a", connection=connection)
    left_to(talk, a, talk.member("b"))
    assert codes(talk) == []


@pytest.mark.parametrize("epochs", [(1, 2), (2, 2)])
def test_another_assignment_may_have_come_unseen(epochs: tuple[int, ...]) -> None:
    """The epoch is one that the member was not seen to be given."""
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    assigned(a, 0, 1)
    a.share_fetch(0, [0]).answered()
    b.share_fetch(0, [1]).answered(responses=handed((1, 0, 9)))
    for epoch in epochs:
        talk.pause(5)
        a.heartbeat(epoch).given(epoch)
    assert codes(talk) == []


def test_a_request_that_could_not_be_read_may_have_listed_it() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(0, [0]).answered()
    sent(a.connection, 78, 99, b"?")
    left_to(talk, a.on(talk.connection()), b)
    assert "ASSIGNED_NEVER_FETCHED" not in dict(codes(talk))


@pytest.mark.parametrize("out", [left, lambda a: a.heartbeat(1).answered(UNKNOWN_MEMBER_ID)])
def test_whoever_joins_again_has_what_that_brings(out: Callable[[Member], object]) -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    assigned(a, 0, 1)
    a.share_fetch(0, [0]).answered()
    b.share_fetch(0, [1]).answered(responses=handed((1, 0, 9)))
    out(a)
    a.heartbeat(0, ["t"]).given(1)
    talk.pause(10)
    unchanged(a)
    assert "ASSIGNED_NEVER_FETCHED" not in dict(codes(talk))


def test_a_missing_packet_may_be_the_one_that_lists_it() -> None:
    """Be it on another connection than its heartbeats'."""
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    assigned(a, 0, 1)
    fetches_on = a.on(talk.connection())
    for epoch, listed in enumerate(([0], [1])):
        fetches_on.share_fetch(epoch, listed).answered()
    b.share_fetch(0, [1]).answered(responses=handed((1, 0, 9)))
    for _ in range(3):
        talk.pause(5)
        unchanged(a)
    assert codes(talk) == []
    for number, _ in talk.packets():
        assert "ASSIGNED_NEVER_FETCHED" not in dict(codes(talk.without_packets([number]))), number


# -- the answer keys

NUMBERS = {rule.number for rule in fetching.ROWS}


@pytest.mark.parametrize("name", ["adv-members", "adv-sessions-4.2.1", "adv-races-4.1.2"])
def test_steps_of_the_answer_keys_are_told(name: str) -> None:
    assert untold(CAPTURES / f"{name}.pcap", NUMBERS) == []
