"""Records of aborted transactions in a records field: the same however far the field was opened."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest

from kshark.records import Kept, Record, TransactionBatch, make_reader, transactions_in
from kshark.records.transactions import RECORDS
from kshark.records.writer import write_batch

ABORT, COMMIT = 0, 1


def data(first: int, last: int, producer: int = 7, *, transactional: bool = True) -> bytes:
    records = [Record(offset, 0, None, b"v", ()) for offset in range(first, last + 1)]
    return write_batch(records, base_offset=first, producer_id=producer, transactional=transactional)


def marker(offset: int, type: int, producer: int = 7, **header: int) -> bytes:
    record = Record(offset, 0, struct.pack(">hh", 0, type), struct.pack(">hi", 0, 1), ())
    return write_batch([record], base_offset=offset, producer_id=producer, control=True, transactional=True, **header)


def aborted_of(batches: Iterable[TransactionBatch]) -> list[tuple[int, int]]:
    """The offsets of aborted batches, of all batches of a field in their order."""
    waiting: dict[int, list[tuple[int, int]]] = {}
    found: list[tuple[int, int]] = []
    for first, last, producer_id, _, type_ in batches:
        if type_ == RECORDS:
            waiting.setdefault(producer_id, []).append((first, last))
        else:
            ended = waiting.pop(producer_id, [])
            found += ended if type_ == ABORT else ()
    return found


def aborted(field: bytes) -> list[tuple[int, int]]:
    found = []
    for opened in ("checked", True):
        reader = make_reader(opened, True)  # type: ignore[arg-type]
        read = reader(field, 0, len(field), kept=Kept(spans=True))
        reader.fill()
        found.append(aborted_of(transactions_in(read)))
    assert found[0] == found[1]
    return found[0]


def test_a_transaction_ends_with_its_marker() -> None:
    assert aborted(data(0, 4) + marker(5, ABORT)) == [(0, 4)]
    assert aborted(data(0, 4) + marker(5, COMMIT)) == []
    assert aborted(data(0, 4)) == []


def test_each_producer_has_its_own() -> None:
    field = data(0, 4) + data(5, 9, 8) + data(10, 11) + marker(12, COMMIT, 8) + marker(13, ABORT) + data(14, 20)
    assert aborted(field) == [(0, 4), (10, 11)]


def test_the_next_transaction_of_a_producer_is_another_one() -> None:
    assert aborted(data(0, 4) + marker(5, COMMIT) + data(6, 9) + marker(10, ABORT)) == [(6, 9)]


def test_records_outside_transactions_stay() -> None:
    assert aborted(data(0, 4, transactional=False) + marker(5, ABORT)) == []


@pytest.mark.parametrize("cut", range(1, 80, 7))
def test_a_marker_that_is_cut_aborts_nothing(cut: int) -> None:
    assert aborted((data(0, 4) + marker(5, ABORT))[:-cut]) == []


def test_a_marker_with_a_wrong_checksum_aborts_nothing() -> None:
    assert aborted(data(0, 4) + marker(5, ABORT, crc=1)) == []
