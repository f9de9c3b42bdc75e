"""Batches of idempotent producers, as conversations: rules 153 and 154."""

from __future__ import annotations

import pytest

from kshark.model import Finding
from kshark_dissectors.enums import ErrorCode as E
from tests.analysis.talks import batch_of
from tests.conversation import Asked, Connection, Conversation, Thinned, note, unheard, unknown, violation
from tests.incidents.talks import incidents
from tests.incidents.test_retries import client

OUT_OF_ORDER = int(E.OUT_OF_ORDER_SEQUENCE_NUMBER)


def told(talk: Conversation | Thinned) -> list[Finding]:
    return [it for it in incidents(talk) if it.code in ("SEQUENCE_OUT_OF_ORDER", "DUPLICATE_BATCH")]


def records(sequence: int, count: int = 1, epoch: int = 0, *, offset: int = 0) -> bytes:
    return batch_of(offset, offset + count - 1, producer_id=9, producer_epoch=epoch, base_sequence=sequence)


def send(connection: Connection, data: bytes) -> Asked:
    rows = [{"name": "orders", "partition_data": [{"index": 0, "records": data}]}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": rows}
    return connection.ask(0, "Produce", 9, body)


def answer(asked: Asked, error: int = 0) -> Asked:
    row = {"index": 0, "error_code": int(error), "base_offset": 100}
    return asked.answered(None, responses=[{"name": "orders", "partition_responses": [row]}])


def write(connection: Connection, *of: int, error: int = 0) -> Asked:
    """A batch with sequence, number of records and epoch, and its answer."""
    return answer(send(connection, records(*of)), error)


def test_sequences_that_follow_each_other_are_silent() -> None:
    talk = Conversation()
    a = client(talk)
    for sequence in (0, 3, 6):
        write(a, sequence, 3)
    write(a, 0, 2, 1)
    write(a, 2, 2, 1)
    assert told(talk) == []


def test_a_client_counts_batches() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 3)
    wrong = write(a, 1, 3, error=OUT_OF_ORDER)
    assert told(talk) == [violation("SEQUENCE_OUT_OF_ORDER", wrong, "client", "counted_by_batch")]


def test_a_client_goes_on_after_a_refused_batch() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 3)
    write(a, 3, 3, error=E.MESSAGE_TOO_LARGE)
    wrong = write(a, 6, 3, error=OUT_OF_ORDER)
    assert told(talk) == [violation("SEQUENCE_OUT_OF_ORDER", wrong, "client", "gap_after_failure")]
    assert [it.verdict for it in told(unheard(talk))] == ["note"]


def test_batches_in_flight_behind_a_refused_one_are_nobodys_fault() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 3)
    sent = [send(a, records(sequence, 3)) for sequence in (3, 6, 9)]
    answer(sent[0], E.NOT_LEADER_OR_FOLLOWER)
    first, last = (answer(it, OUT_OF_ORDER) for it in sent[1:])
    (found,) = told(talk)
    assert found == note("SEQUENCE_OUT_OF_ORDER", first, "gap_after_failure")
    assert found.until_packet == last.packet


def test_a_higher_epoch_goes_on_with_the_old_sequence() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 3)
    wrong = write(a, 3, 3, 1, error=OUT_OF_ORDER)
    assert told(talk) == [violation("SEQUENCE_OUT_OF_ORDER", wrong, "client", "epoch_bump_left_others")]


def test_a_batch_of_the_higher_epoch_that_the_capture_lacks_accuses_nobody() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 3)
    missed = write(a, 0, 3, 1)
    write(a, 3, 3, 1, error=OUT_OF_ORDER)
    found = told(talk.without_packets(missed.all_packets))
    assert not [it for it in found if it.verdict == "violation"]


def test_a_broker_forgets_what_it_acknowledged() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 3)
    lost = write(a, 3, 3, error=OUT_OF_ORDER)
    assert told(talk) == [note("SEQUENCE_OUT_OF_ORDER", lost, "broker_lost")]


def test_a_producer_from_before_the_capture_is_unknown() -> None:
    talk = Conversation()
    late = write(client(talk), 30, 3, error=OUT_OF_ORDER)
    assert told(talk) == [unknown("SEQUENCE_OUT_OF_ORDER", late, "beginning_not_seen", "unknown")]


def test_a_sequence_that_nothing_explains_is_unknown() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 3)
    late = write(a, 30, 3, error=OUT_OF_ORDER)
    assert told(talk) == [unknown("SEQUENCE_OUT_OF_ORDER", late, "hidden_traffic", "unknown")]


# -- records that are written twice


def test_records_are_written_again_under_a_higher_epoch() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 3)
    again = write(a, 0, 3, 1)
    assert told(talk) == [violation("DUPLICATE_BATCH", again, "client", "written_twice")]


@pytest.mark.parametrize("error", [E.NOT_LEADER_OR_FOLLOWER, E.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_refused_records_may_be_written_again(error: E) -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 2)
    write(a, 2, 3, error=error)
    write(a, 0, 3, 1)
    assert [it for it in told(talk) if it.code == "DUPLICATE_BATCH"] == []


def test_records_without_an_answer_may_be_written_again() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 3)
    send(a, records(3, 3))
    a.reset()
    write(client(talk), 0, 3, 1)
    assert told(talk) == []


def test_the_capture_may_lack_the_refusal_of_records_that_are_written_again() -> None:
    """Without the answer they may be written again; without the whole exchange that is unknown."""
    talk = Conversation()
    a, b = client(talk), client(talk)
    write(a, 0, 3)
    elsewhere = write(b, 3, 3, error=E.NOT_LEADER_OR_FOLLOWER)
    write(b, 6, 1, error=OUT_OF_ORDER)
    again = write(a, 0, 3, 1)
    assert [it for it in told(talk) if it.code == "DUPLICATE_BATCH"] == []
    assert [it for it in told(talk.without_packets([elsewhere.packet])) if it.code == "DUPLICATE_BATCH"] == []
    found = [it for it in told(talk.without_packets(elsewhere.all_packets)) if it.code == "DUPLICATE_BATCH"]
    assert found == [unknown("DUPLICATE_BATCH", again, "gap", "written_twice")]


def test_other_records_of_the_same_size_are_no_duplicates() -> None:
    talk = Conversation()
    a = client(talk)
    data = batch_of(0, 2, producer_id=9, producer_epoch=0, base_sequence=0)
    answer(send(a, data))
    other = batch_of(0, 2, control=False, producer_id=9, producer_epoch=1, base_sequence=0)
    changed = other.replace(b"value", b"VALUE")
    answer(send(a, sealed(changed)))
    assert told(talk) == []


def sealed(data: bytes) -> bytes:
    """The batch with its checksum made right."""
    from kshark.records.crc import crc32c

    return data[:17] + crc32c()(data[21:]).to_bytes(4, "big") + data[21:]


def test_records_of_a_transaction_are_written_again_on_purpose() -> None:
    talk = Conversation()
    a = client(talk)
    for epoch in (0, 1):
        data = bytearray(batch_of(0, 2, producer_id=9, producer_epoch=epoch, base_sequence=0))
        data[22] |= 0x10
        answer(send(a, sealed(bytes(data))))
    assert told(talk) == []


def test_a_fetch_shows_that_a_refused_batch_was_appended() -> None:
    talk = Conversation()
    a = client(talk)
    write(a, 0, 2)
    write(a, 2, 3, error=E.NOT_LEADER_OR_FOLLOWER)
    again = write(a, 0, 3, 1)
    stored = records(2, 3, offset=10) + records(0, 3, 1, offset=13)
    row = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 100,
        "records": stored,
        "aborted_transactions": None,
    }
    body = {
        "replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "session_id": 0, "session_epoch": -1, "topics": [],
        "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip
    reader = client(talk, "reader", host="10.0.0.4")
    asked = reader.ask(1, "Fetch", 12, body)
    asked.answered(session_id=0, responses=[{"topic": "orders", "partitions": [row]}])
    (found,) = [it for it in told(talk) if it.code == "DUPLICATE_BATCH"]
    assert (found.verdict, found.client_id) == ("violation", "p1")
    assert again.packet < found.packet
