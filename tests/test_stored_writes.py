"""The WriteShareGroupState beside each change: during the request that it stores, or after a lock expired."""

from __future__ import annotations

from kshark.analysis import Analyzer, Delivery, DeliveryLog
from kshark.clusters import Clusters
from kshark.model import Exchange
from kshark.stored_writes import StoredWrites
from tests.analysis.coordinators import ACCEPTED, AVAILABLE, Sender
from tests.analysis.talks import handed
from tests.conversation import Conversation, Thinned, events

ACCEPT, RELEASE = 1, 2


def changes(talk: Conversation | Thinned) -> tuple[list[Delivery], StoredWrites]:
    log, writes = DeliveryLog(), StoredWrites(Clusters())
    analyzer = Analyzer(on_change=log.change)
    for event in events(talk):
        if isinstance(event, Exchange):
            writes.feed(event)
        analyzer.feed(event)
    analyzer.close()
    deliveries = log.since()
    writes.attach(deliveries)
    return deliveries, writes


def beside(talk: Conversation | Thinned) -> list[tuple[str, list[int]]]:
    """Each change, and the start offsets of the writes beside it."""
    return [(change.event, [write.start_offset for write in change.stored]) for change in changes(talk)[0]]


def test_a_leader_stores_an_acknowledgement_before_it_answers() -> None:
    """One answer accepts and releases records: one write, beside the last of the two changes."""
    talk = Conversation()
    a, leader = talk.member("a"), Sender(talk.connection())
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    asked = a.share_acknowledge(1, [(0, 4, ACCEPT), (5, 9, RELEASE)])
    sent = leader.write(5, (0, 4, ACCEPTED, 1), (5, 9, AVAILABLE, 1), complete=5).accepted()
    asked.answered()
    assert beside(talk) == [("acquired", []), ("accepted", []), ("released", [5])]
    (write,) = changes(talk)[0][-1].stored
    assert (write.packet, write.error_code, write.delivery_complete_count) == (sent.sent, 0, 5)
    assert [(it.first_offset, it.last_offset, it.state) for it in write.batches] == [
        (0, 4, "acknowledged"),
        (5, 9, "available"),
    ]


def test_a_leader_stores_that_a_lock_expired() -> None:
    talk = Conversation()
    a, leader = talk.member("a"), Sender(talk.connection())
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    talk.pause(31)
    leader.write(0, (0, 9, AVAILABLE, 1)).accepted()
    assert beside(talk) == [("acquired", []), ("lock_timeout", [0])]


def test_a_refused_write_and_one_without_an_answer_say_so() -> None:
    talk = Conversation()
    a, leader = talk.member("a"), Sender(talk.connection())
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    asked = a.share_acknowledge(1, [(0, 9, ACCEPT)])
    leader.write(10, (0, 9, ACCEPTED, 1)).refused(16)
    leader.write(10, (0, 9, ACCEPTED, 1))
    asked.answered()
    assert [write.error_code for write in changes(talk)[0][-1].stored] == [16, None]


def test_writes_of_records_that_the_capture_does_not_show_are_counted() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    Sender(talk.connection()).write(50, (40, 49, ACCEPTED, 1)).accepted()
    Sender(talk.connection(), partition=3).write(50, (40, 49, ACCEPTED, 1)).accepted()
    assert beside(talk) == [("acquired", [])]
    assert changes(talk)[1].apart == 2
