"""What leaders store of acknowledgements: nearly wrong, and what the capture has to hold for an accusation."""

from __future__ import annotations

import pytest

from tests.analysis.coordinators import ACCEPTED, ARCHIVED, AVAILABLE, NOT_COORDINATOR, Sender
from tests.analysis.rules.promises.acknowledgements import (
    ACCEPT,
    GAP,
    INVALID_RECORD_STATE,
    REJECT,
    RELEASE,
    RENEW,
    holding,
)
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.rules.promises.persisted import acknowledges, orderly
from tests.analysis.talks import codes
from tests.conversation import Conversation, Member, Thinned, everything
from tests.test_guard import counting

ARCHIVING = 3
NOT_STORED = ("ACK_NOT_PERSISTED", "violation")
OTHERWISE = ("PERSISTED_STATE_MISMATCH", "violation")
HALF = ("ACK_ATOMICITY_BROKEN", "violation")
SLOW = ("PERSIST_SLOW", "note")


def accused(talk: Conversation | Thinned) -> list[str]:
    return [code for code, verdict in codes(talk) if verdict == "violation"]


def goes_on(a: Member, leads: Sender, epoch: int) -> None:
    acknowledges(a, leads, epoch, (90, 99, ACCEPT), (90, 99, ACCEPTED, 1))


# -- not stored


def test_it_is_told_once_the_leader_stores_on() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    acknowledges(a, leads, 4, (10, 19, ACCEPT))
    assert codes(talk) == []
    goes_on(a, leads, 5)
    assert codes(talk) == [NOT_STORED]


def test_part_of_it_is_not_stored() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    acknowledges(a, leads, 4, (10, 19, ACCEPT), (10, 14, ACCEPTED, 1))
    goes_on(a, leads, 5)
    assert codes(talk) == [NOT_STORED]


@pytest.mark.parametrize("times", [0, 1, 2])
def test_who_was_not_seen_to_store_in_order_may_store_elsewhere(times: int) -> None:
    talk = Conversation()
    a, leads = orderly(talk, times)
    acknowledges(a, leads, times + 1, (10, 19, ACCEPT))
    goes_on(a, leads, times + 2)
    assert codes(talk) == []


def test_what_the_start_offset_passes_is_stored_by_that() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    acknowledges(a, leads, 4, (3, 9, ACCEPT), (10, 10, ARCHIVED, 1), start=10)
    acknowledges(a, leads, 5, (90, 99, ACCEPT), (90, 99, ACCEPTED, 1), start=10)
    assert accused(talk) == []


def test_what_is_renewed_is_not_stored() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    a.share_acknowledge(4, [(10, 19, RENEW)], version=2, renew=True).answered(acquisition_lock_timeout_ms=30_000)
    goes_on(a, leads, 5)
    assert codes(talk) == []


def test_a_late_acceptance_below_the_start_offset_is_stored_by_nobody() -> None:
    """What brokers do: it is answered as if it had been taken."""
    talk = Conversation()
    a, leads = orderly(talk)
    talk.pause(31)
    leads.write(0, (3, 99, ARCHIVED, 1)).accepted()
    acknowledges(a, leads, 4, (10, 19, ACCEPT))
    leads.write(100, (100, 109, ACCEPTED, 1)).accepted()
    a.share_fetch(5).answered()
    assert accused(talk) == []


@pytest.mark.parametrize("why", ["another connection", "another leader", "not seen to go on", "stored later"])
def test_a_leader_may_store_elsewhere_by_now(why: str) -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    acknowledges(a, leads, 4, (10, 19, ACCEPT))
    if why == "another connection":
        goes_on(a, Sender(talk.connection()), 5)
    elif why == "another leader":
        leads.write(0, (90, 99, ACCEPTED, 1), leader_epoch=1).accepted()
        a.share_fetch(5).answered()
    elif why == "stored later":
        leads.write(0, (10, 19, ACCEPTED, 1)).accepted()
        a.share_fetch(5).answered()
    assert NOT_STORED not in codes(talk)


def test_a_refused_write_is_tried_again() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    asked = a.share_acknowledge(4, [(10, 19, ACCEPT)])
    leads.write(0, (10, 19, ACCEPTED, 1)).refused(NOT_COORDINATOR)
    leads.write(0, (10, 19, ACCEPTED, 1)).accepted()
    asked.answered()
    goes_on(a, leads, 5)
    assert NOT_STORED not in codes(talk)


def test_no_missing_packet_accuses_who_stores_all() -> None:
    talk = Conversation()
    a, leads = orderly(talk, 5)
    acknowledges(a, leads, 6, (10, 19, REJECT), (10, 19, ARCHIVED, 1))
    goes_on(a, leads, 7)
    a.share_fetch(8).answered()
    assert codes(talk) == []
    for number, _ in talk.packets():
        assert accused(talk.without_packets([number])) == [], number


def test_the_missing_packets_of_a_write_accuse_nobody() -> None:
    talk = Conversation()
    a, leads = orderly(talk, 5)
    before = len(talk.exchanges)
    acknowledges(a, leads, 6, (10, 19, ACCEPT), (10, 19, ACCEPTED, 1))
    goes_on(a, leads, 7)
    a.share_fetch(8).answered()
    write = talk.exchanges[before + 1]
    for lost in (write.all_packets, write.packets, write.answer_packets):
        assert accused(talk.without_packets(lost)) == []


# -- stored otherwise


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        (ACCEPT, {ACCEPTED}),
        (RELEASE, {AVAILABLE, ARCHIVING, ARCHIVED}),
        (REJECT, {ARCHIVING, ARCHIVED}),
        (GAP, {ACCEPTED, ARCHIVING, ARCHIVED}),
    ],
)
@pytest.mark.parametrize("state", [AVAILABLE, ACCEPTED, ARCHIVING, ARCHIVED])
def test_what_an_acknowledgement_is_stored_as(kind: int, right: set[int], state: int) -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    acknowledges(a, leads, 4, (10, 19, kind), (10, 19, state, 1))
    assert codes(talk) == ([] if state in right else [OTHERWISE])


def test_what_is_corrected_before_the_answer_is_right() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    asked = a.share_acknowledge(4, [(10, 19, ACCEPT)])
    leads.write(0, (10, 19, AVAILABLE, 1)).accepted()
    leads.write(0, (10, 19, ACCEPTED, 1)).accepted()
    asked.answered()
    assert codes(talk) == []


def test_a_lock_that_may_be_out_is_stored_as_such() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    talk.pause(29.99)
    acknowledges(a, leads, 4, (10, 19, ACCEPT), (10, 19, AVAILABLE, 1), took=0.05)
    assert accused(talk) == []


def test_what_was_sent_before_the_request_is_not_about_it() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    write = leads.write(0, (10, 19, AVAILABLE, 1))
    asked = a.share_acknowledge(4, [(10, 19, ACCEPT)])
    write.accepted()
    leads.write(0, (10, 19, ACCEPTED, 1)).accepted()
    asked.answered()
    assert OTHERWISE not in codes(talk)


def test_no_missing_packet_makes_it_otherwise() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    acknowledges(a, leads, 4, (10, 19, RELEASE), (10, 19, AVAILABLE, 1))
    given(a, 5, (10, 19, 2))
    acknowledges(a, leads, 6, (10, 19, ACCEPT), (10, 19, ACCEPTED, 2))
    assert codes(talk) == []
    for number, _ in talk.packets():
        assert accused(talk.without_packets([number])) == [], number


# -- refused, and stored


@pytest.mark.parametrize(("state", "told"), [(ACCEPTED, [HALF]), (AVAILABLE, [])])
def test_what_is_stored_of_a_refused_request(state: int, told: list[tuple[str, str]]) -> None:
    """Not what another event may have stored meanwhile."""
    talk = Conversation()
    a, leads = orderly(talk)
    holding(talk, (200, 209), name="b")
    asked = a.share_acknowledge(4, [(10, 19, ACCEPT), (200, 209, ACCEPT)])
    leads.write(0, (10, 19, state, 1)).accepted()
    asked.answered(acks={0: INVALID_RECORD_STATE})
    assert codes(talk) == [*told, ("ACK_NOT_OWNER", "violation")]


# -- slowly


@pytest.mark.parametrize(("took", "told"), [(0.2, [SLOW]), (0.05, [])])
def test_short_waits_are_worth_no_word(took: float, told: list[tuple[str, str]]) -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    acknowledges(a, leads, 4, (10, 19, ACCEPT), (10, 19, ACCEPTED, 1), took=took)
    assert codes(talk) == told


def test_another_part_of_it_is_slow() -> None:
    talk = Conversation()
    a, leads = orderly(talk)
    asked = a.share_acknowledge(4, [(10, 19, ACCEPT)])
    talk.pause(0.2)
    leads.write(0, (10, 19, ACCEPTED, 1)).accepted()
    asked.answered()
    assert codes(talk) == []


# -- how often it is looked at


def test_many_records_stored_one_by_one_are_each_looked_at_once() -> None:
    """A leader that stores five hundred in a Write, an acknowledgement of as many: each with each, and for each again,
    took minutes."""

    def lines(count: int) -> float:
        talk = Conversation()
        a, leads = orderly(talk)
        acks = [(10 + one, 10 + one, ACCEPT if one % 2 else REJECT) for one in range(count)]
        asked = a.share_acknowledge(4, acks)
        leads.write(
            0, *[(first, last, ACCEPTED if kind == ACCEPT else ARCHIVED, 1) for first, last, kind in acks]
        ).accepted()
        asked.answered(acks={0: 0})
        with counting() as counts:
            assert everything(talk, exact=True) == []
        return counts["lines"] / count

    lines(10)  # decoders are compiled
    assert lines(80) < 1.2 * lines(40)
