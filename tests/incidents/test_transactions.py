"""Transactions that hang, as conversations: rule 156."""

from __future__ import annotations

import pytest

from kshark.model import Finding
from tests.analysis.producing import ABORT, COMMIT, Producer, fetch, named, write_markers
from tests.analysis.talks import handed
from tests.conversation import TOPIC, Asked, Connection, Conversation, Thinned, note, unknown
from tests.incidents.talks import incidents
from tests.incidents.test_retries import client

#: The timeout of the transaction, and the time after it at which a coordinator has certainly aborted it, in seconds.
TIMEOUT, OVER = 6, 17


def told(talk: Conversation | Thinned) -> list[Finding]:
    return [it for it in incidents(talk) if it.code == "TXN_HANGING"]


def add(producer: Producer, partition: int = 0) -> Asked:
    """AddPartitionsToTxn with its answer."""
    topics = [{"name": "orders", "partitions": [partition]}]
    body = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "topics": topics}
    body = {f"v3_and_below_{name}": value for name, value in {"transactional_id": producer.name, **body}.items()}
    asked = producer.connection.ask(24, "AddPartitionsToTxn", 3, body)
    row = {"partition_index": partition, "partition_error_code": 0}
    return asked.answered(None, results_by_topic_v3_and_below=[{"name": "orders", "results_by_partition": [row]}])


def started(*, begun: bool = True, added: bool = True, two_phase: bool = False) -> tuple[Conversation, Producer, Asked]:
    """A producer has written 5 to 9 of its transaction, in a Produce that comes last."""
    talk = Conversation()
    a = client(talk, "pay")
    named(a)
    producer = Producer(a)
    if begun:
        producer.begin(TIMEOUT * 1000, two_phase=two_phase)
    if added:
        add(producer)
    return talk, producer, producer.write(5, 9, version=11)


def read(reader: Connection, *, stable: int = 5) -> Asked:
    """A reader of committed records has come to offset 5, and the partition ends at 20."""
    return fetch(reader, 5, stable=stable, end=20)


def hangs(**how: bool) -> tuple[Conversation, Producer, Asked]:
    """A transaction that is open for longer than its timeout, and a reader that has waited for it all the time."""
    talk, producer, first = started(**how)
    reader = client(talk, "reader")
    read(reader)
    talk.pause(OVER)
    read(reader)
    return talk, producer, first


def test_a_transaction_is_open_for_longer_than_its_timeout() -> None:
    talk, _, first = hangs()
    (found,) = told(talk)
    assert found == note("TXN_HANGING", first, "not_aborted")
    assert (found.client_id, found.topic_id, found.partition) == ("pay", TOPIC, 0)
    assert "producer 7 (transactional id tx, client pay, 10.0.0.3)" in found.argument
    assert "in orders[0] at offset 5" in found.argument
    assert found.argument.endswith("client reader (10.0.0.3) gets no record after it")


def test_a_coordinator_has_ten_seconds_after_the_timeout() -> None:
    talk, _, _ = started()
    talk.pause(TIMEOUT + 9)
    read(client(talk, "reader"))
    assert told(talk) == []


def test_a_reader_of_all_records_shows_nothing() -> None:
    """Its answers have no last stable offset."""
    talk, _, _ = started()
    talk.pause(OVER)
    fetch(client(talk, "reader"), 5, stable=-1, end=20, isolation=0)
    assert told(talk) == []


def test_a_transaction_with_two_phases_has_no_timeout() -> None:
    assert told(hangs(two_phase=True)[0]) == []


def test_a_partition_was_never_added() -> None:
    """As in a recording of 4.4.0 without transaction.partition.verification.enable."""
    talk, _, first = hangs(added=False)
    assert told(talk) == [note("TXN_HANGING", first, "not_added")]


def test_a_late_batch_after_the_end_was_never_added() -> None:
    """KIP-890: a batch that arrives after the markers of its transaction begins one that nobody ends."""
    talk, producer, _ = started()
    producer.end(ABORT)
    write_markers(client(talk, "broker"), ABORT)
    late = producer.write(11, 12, version=11)
    talk.pause(OVER)
    read(client(talk, "reader"), stable=11)
    assert told(talk) == [note("TXN_HANGING", late, "not_added")]


def test_the_broker_adds_partitions_itself() -> None:
    """Since Produce 12 (KIP-890)."""
    talk, producer, first = started(added=False)
    producer.end(ABORT)
    producer.write(5, 9)
    talk.pause(OVER)
    read(client(talk, "reader"))
    (found,) = told(talk)
    assert found.cause == "not_aborted"
    assert found.packet > first.packet


def test_the_markers_of_an_ended_transaction_are_missing() -> None:
    talk, producer, first = started()
    producer.end(COMMIT)
    talk.pause(OVER)
    read(client(talk, "reader"))
    assert told(talk) == [note("TXN_HANGING", first, "no_marker")]


@pytest.mark.parametrize("by", ["markers", "offset"])
def test_it_ends(by: str) -> None:
    talk, _, first = hangs()
    if by == "markers":
        last = write_markers(client(talk, "admin"), ABORT)
        words = f"client admin (10.0.0.3) ended it with WriteTxnMarkers (packet {last.packet})"
    else:
        last = read(client(talk, "other"), stable=21)
        words = f"the last stable offset passed it (packet {last.packet})"
    (found,) = told(talk)
    assert found == note("TXN_HANGING", first, "not_aborted")
    assert found.until_packet == last.packet
    assert found.argument.endswith(words)


def test_a_timeout_that_is_not_shown_is_the_longest_one() -> None:
    talk, _, first = hangs(begun=False)
    assert told(talk) == []
    talk.pause(900)
    read(client(talk, "late"))
    assert told(talk) == [unknown("TXN_HANGING", first, "beginning_not_seen", "not_aborted")]


def test_a_producer_that_is_not_shown() -> None:
    talk = Conversation()
    reader = client(talk, "reader")
    named(reader)
    first = read(reader)
    talk.pause(911)
    read(reader)
    assert told(talk) == [unknown("TXN_HANGING", first, "beginning_not_seen", "unknown")]


def test_share_groups_wait_too() -> None:
    talk, _, _ = started()
    for group, reached in (("billing", 4), ("copies", 9)):
        member = talk.member(group, group=group)
        member.share_fetch(0, [0]).answered(responses=handed((0, 0, reached)))
    talk.pause(OVER)
    read(client(talk, "reader"))
    (found,) = told(talk)
    assert "share group billing" in found.argument
    assert "copies" not in found.argument


def test_a_lost_packet_accuses_nobody() -> None:
    talk, _, _ = hangs()
    for number, _ in talk.packets():
        assert all(it.verdict != "violation" for it in told(talk.without_packets({number})))
