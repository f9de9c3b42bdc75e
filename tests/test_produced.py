"""What headers of a record in a dead-letter queue say: anybody may write such headers, whatever is in them."""

from __future__ import annotations

import pytest

from kshark.model import Exchange
from kshark.produced import DeadLetter, appended_by, dead_letters_in
from kshark.records.batch import Record
from kshark.records.writer import write_batch
from tests.analysis.talks import accepted, events, produced
from tests.conversation import Conversation

HEADERS = {
    "topic": b"orders",
    "partition": b"2",
    "offset": b"11",
    "group": b"g",
    "delivery.count": b"5",
    "message": b"too often",
}


def letters(error: int = 0, **headers: bytes | None) -> list[DeadLetter]:
    """What is said of a Produce of two records; the second one has these headers and those above."""
    pairs = tuple((f"__dlq.errors.{name}", value) for name, value in (HEADERS | headers).items())
    talk = Conversation()
    connection = talk.connection()
    produced(connection, write_batch([Record(0, 0, None, None, ()), Record(1, 0, None, None, pairs)]))
    accepted(connection, error)
    batches = [one for event in events(talk) if isinstance(event, Exchange) for one in appended_by(event)]
    return [letter for one in batches for letter in dead_letters_in(one, 11)]


def test_it_is_the_record_that_its_headers_name() -> None:
    (letter,) = letters()
    assert (letter.topic, letter.partition, letter.offset, letter.group_id) == ("orders", 2, 11, "g")
    assert (letter.queue, letter.queue_partition, letter.queue_offset) == ("t", 0, 1)
    assert (letter.delivery_count, letter.reason) == (5, "too often")


def test_what_the_broker_refused_is_nowhere() -> None:
    assert letters(error=6) == []


@pytest.mark.parametrize("text", [b"", b"-1", b"1.0", "\u00b2".encode(), b"9" * 5000, b"\xff", None, b"12"])
def test_an_offset_that_is_none_or_another(text: bytes | None) -> None:
    assert letters(offset=text) == []


@pytest.mark.parametrize("text", [b"", b"x", b"9" * 5000, None])
def test_a_number_of_deliveries_that_is_none(text: bytes | None) -> None:
    (letter,) = letters(**{"delivery.count": text})
    assert letter.delivery_count is None
