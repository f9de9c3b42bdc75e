"""The shown start offset passes records of aborted transactions, if the capture shows that the leader took them out."""

from __future__ import annotations

import pytest

from kshark.analysis import Analyzer
from kshark.pipeline import JUDGED
from tests.analysis.coordinators import leader
from tests.analysis.producing import ABORT, COMMIT, Producer, data, fetch, marker, named, plain, write_markers
from tests.analysis.talks import handed
from tests.conversation import Conversation, Member, Thinned, events

ACCEPT, GAP = 1, 0


def records(type: int) -> bytes:
    """Records 0 to 4, a transaction's from 5 to 9 with its marker at 10, and records 11 to 14."""
    return plain(0, 4) + data(5, 9) + marker(10, type) + plain(11, 14)


def acquire(a: Member, epoch: int, records: bytes, *ranges: tuple[int, int], count: int = 1) -> None:
    """Acquire these ranges of partition 0, and acknowledge all of them."""
    partitions = {"partitions": [0]} if epoch == 0 else {}
    responses = handed(*((0, *range_, count) for range_ in ranges), records=records)
    a.share_fetch(epoch, *partitions.values()).answered(responses=responses)
    a.share_acknowledge(epoch + 1, [(first, last, ACCEPT) for first, last in ranges]).answered()


def consumed(type: int, *ranges: tuple[int, int], count: int = 1) -> Conversation:
    """A member acquires these ranges of the records, and acknowledges all of them."""
    talk = Conversation()
    leader(talk)
    acquire(talk.member("a"), 0, records(type), *ranges, count=count)
    return talk


def start(talk: Conversation | Thinned) -> tuple[int | None, str | None, int | None]:
    analyzer = Analyzer(transactions=True)
    for event in events(talk, JUDGED):
        analyzer.feed(event)
    (state,) = analyzer.in_flight(0)
    return state.start_offset, state.start_source, state.start_least


def test_it_passes_them() -> None:
    assert start(consumed(ABORT, (0, 4), (10, 14))) == (15, "aborted", 15)


def test_without_an_abort_it_is_unknown() -> None:
    """Members outside the capture may have them."""
    assert start(consumed(COMMIT, (0, 4), (10, 14))) == (None, "passed_over", 5)


def test_it_does_not_pass_what_was_delivered() -> None:
    """share.isolation.level is read_uncommitted."""
    talk = Conversation()
    leader(talk)
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 14), records=records(ABORT)))
    a.share_acknowledge(1, [(0, 4, ACCEPT), (10, 14, ACCEPT)]).answered()
    assert start(talk) == (5, "seen", 5)


@pytest.mark.parametrize("count", [2, 3])
def test_records_that_are_delivered_again_do_not_show_it(count: int) -> None:
    """Then the leader skips what others hold."""
    assert start(consumed(ABORT, (0, 4), (10, 14), count=count)) == (None, "passed_over", 5)


def test_a_lost_packet_does_not_move_it_further() -> None:
    talk = consumed(ABORT, (0, 4), (10, 14))
    for number, _ in talk.packets():
        analyzer = Analyzer(transactions=True)
        for event in events(talk.without_packets({number}), JUDGED):
            analyzer.feed(event)
        assert all((state.start_offset or 0) <= 15 for state in analyzer.in_flight(0))


def across_answers(type: int, *, written: bool = True, again: bytes = b"") -> Conversation:
    """The leader cuts what it does not deliver off both ends of an answer (Kafka 4.1): no answer has records 5 to 9.
    `written`: their Produce is in the capture; `again`: another consumer fetches these batches."""
    talk = Conversation()
    leader(talk)
    if written:
        Producer(talk.connection()).write(5, 9)
    a = talk.member("a")
    acquire(a, 0, plain(0, 4), (0, 4))
    if again:
        fetch(talk.connection(), 5, stable=15, end=15, records=again)
    acquire(a, 2, marker(10, type) + plain(11, 14), (10, 14))
    return talk


def test_their_produce_shows_them() -> None:
    """As in packets 956 and 1007 of share-java-explicit, where the leader stored 62."""
    assert start(across_answers(ABORT)) == (15, "aborted", 15)
    assert start(across_answers(COMMIT)) == (None, "passed_over", 5)


def test_a_fetch_of_another_consumer_shows_them() -> None:
    assert start(across_answers(ABORT, written=False, again=data(5, 9))) == (15, "aborted", 15)
    assert start(across_answers(ABORT, written=False)) == (None, "passed_over", 5)


def test_a_marker_may_be_hidden_in_between() -> None:
    """Offset 8 may be the commit of 5 to 7."""
    talk = Conversation()
    leader(talk)
    Producer(talk.connection()).write(5, 7)
    a = talk.member("a")
    acquire(a, 0, plain(0, 4), (0, 4))
    acquire(a, 2, data(9, 9) + marker(10, ABORT) + plain(11, 14), (10, 14))
    assert start(talk) == (None, "passed_over", 5)


def waiting(talk: Conversation | Thinned) -> list[tuple[int, int, str | None, int | None]]:
    analyzer = Analyzer(transactions=True)
    for event in events(talk, JUDGED):
        analyzer.feed(event)
    return [(it.offset, it.producer_id, it.transactional_id, it.timeout_ms) for it in analyzer.waiting()]


def opened(*, begun: bool = True) -> tuple[Conversation, Producer]:
    """A producer has written 5 to 9, and a member has acquired and acknowledged all records before."""
    talk = Conversation()
    leader(talk)
    producer = Producer(talk.connection())
    if begun:
        producer.begin()
    producer.write(5, 9)
    acquire(talk.member("a"), 0, plain(0, 4), (0, 4))
    return talk, producer


def test_a_group_waits_for_an_open_transaction() -> None:
    assert waiting(opened()[0]) == [(5, 7, "tx", 60_000)]
    assert waiting(opened(begun=False)[0]) == [(5, 7, "tx", None)]


@pytest.mark.parametrize("type", [ABORT, COMMIT])
def test_the_end_of_the_transaction_ends_the_wait(type: int) -> None:
    talk, producer = opened()
    producer.end(type, error=51)  # CONCURRENT_TRANSACTIONS
    assert len(waiting(talk)) == 1
    producer.end(type)
    assert waiting(talk) == []


def test_markers_end_it() -> None:
    """A coordinator aborts a transaction that has taken too long, or an administrator does."""
    talk, _ = opened()
    named(talk.connection())
    write_markers(talk.connection(), ABORT, partition=1)
    assert len(waiting(talk)) == 1
    write_markers(talk.connection(), ABORT)
    assert waiting(talk) == []


def test_the_next_transaction_is_another_one() -> None:
    talk, producer = opened()
    producer.end()
    acquire(talk.member("a"), 2, data(5, 9) + marker(10, COMMIT), (5, 10))
    producer.write(11, 12)
    assert waiting(talk) == [(11, 7, "tx", 60_000)]


def test_a_group_that_has_acquired_its_records_does_not_wait() -> None:
    """share.isolation.level is read_uncommitted."""
    talk, _ = opened()
    acquire(talk.member("a"), 2, data(5, 9), (5, 9))
    assert waiting(talk) == []


def test_aborted_records_before_it_are_passed() -> None:
    """A consumer of another group has fetched 5 to 10."""
    talk, producer = opened()
    producer.end(ABORT)
    fetch(talk.connection(), 5, stable=11, end=11, records=data(5, 9) + marker(10, ABORT))
    producer.write(11, 12)
    assert waiting(talk) == []
    acquire(talk.member("a"), 2, marker(10, ABORT), (10, 10))
    assert waiting(talk) == [(11, 7, "tx", 60_000)]
