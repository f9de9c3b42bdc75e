"""Which offsets of a records field have a record: told by headers alone, and the same however far the field was
opened."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from unittest.mock import patch

import msgspec
import pytest

from kshark import limits
from kshark.records import Kept, RecordsField, make_reader, spans_of
from kshark.records.spans import LAST
from kshark.records.writer import write_message
from tests.analysis.talks import batch_of

MARKER = batch_of(5, 5, control=True)


def spans(data: bytes, opened: object = "checked", *, spanned: bool = True) -> Sequence[tuple[int, int, str]]:
    reader = make_reader(opened, False)  # type: ignore[arg-type]
    field = reader(data, 0, len(data), kept=Kept(spans=spanned))
    told = spans_of(field)
    return told if isinstance(told, list) else ()


def everyhow(data: bytes) -> Sequence[tuple[int, int, str]]:
    """The same of a field that is only checked, of one whose headers are read, and of one that is open."""
    (told, *others) = [spans(data, opened) for opened in ("checked", "headers", True)]
    assert others == [told, told]
    return told


def test_batches_without_holes_are_one_span() -> None:
    assert everyhow(batch_of(0, 4) + batch_of(5, 9) + batch_of(12, 12)) == [(0, 9, "data"), (12, 12, "data")]


def test_markers_of_transactions_lie_between_records() -> None:
    assert everyhow(batch_of(0, 4) + MARKER + batch_of(6, 9)) == [(0, 4, "data"), (5, 5, "control"), (6, 9, "data")]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression_hides_nothing_that_the_header_says(codec: str) -> None:
    assert everyhow(batch_of(0, 4, codec=codec)) == [(0, 4, "data")]


def test_which_records_compaction_has_left_no_header_says() -> None:
    assert everyhow(batch_of(0, 4, without=[2])) == [(0, 4, "holed")]
    assert everyhow(batch_of(0, 4, without=range(5))) == [(0, 4, "holed")]


@pytest.mark.parametrize("header", [{"crc": 1}, {"count": 6}, {"count": -1}])
def test_of_a_batch_that_cannot_be_relied_on_nothing_is_known(header: dict[str, int]) -> None:
    assert everyhow(batch_of(0, 4, **header) + batch_of(5, 9)) == [(0, 4, "unread"), (5, 9, "data")]


@pytest.mark.parametrize(
    "data", [batch_of(0, 4) + batch_of(3, 9), batch_of(5, 9) + batch_of(0, 4), write_message(0, None, b"value")]
)
def test_of_batches_that_contradict_each_other_nothing_is_known(data: bytes) -> None:
    assert everyhow(data) == [(0, LAST, "unread")]


def test_behind_what_is_cut_off_anything_may_be() -> None:
    assert everyhow(batch_of(0, 4) + MARKER[:-1]) == [(0, 4, "data"), (5, LAST, "unread")]
    assert everyhow(b"\0") == [(0, LAST, "unread")]


def test_nothing_has_no_spans() -> None:
    assert everyhow(b"") == []


def test_only_so_many_are_told() -> None:
    with patch.object(limits, "RECORD_SPANS", 2):
        assert everyhow(b"".join(batch_of(at, at) for at in range(0, 10, 2))) == [(0, 0, "data"), (2, 8, "unread")]


def test_damage_is_told_in_the_same_way_however_far_a_field_is_opened() -> None:
    random = Random(61)
    whole = batch_of(0, 4) + MARKER + batch_of(8, 20, codec="gzip") + batch_of(21, 30, without=[25])
    for _ in range(300):
        data = bytearray(whole[: random.randrange(len(whole) + 1)])
        for _ in range(random.randrange(3)):
            if data:
                data[random.randrange(len(data))] = random.randrange(256)
        told = everyhow(bytes(data))
        assert all(first <= last for first, last, _ in told)
        assert all(one[1] < two[0] for one, two in pairwise(told))


def test_who_does_not_look_does_not_tell() -> None:
    assert spans(batch_of(0, 4), False) == ()
    assert spans(batch_of(0, 4), spanned=False) == ()


def test_they_stay_in_json_as_lists() -> None:
    data = batch_of(0, 4) + MARKER
    assert (
        msgspec.json.encode(RecordsField(9, spans=[*spans(data)]))
        == b'{"size":9,"spans":[[0,4,"data"],[5,5,"control"]]}'
    )
    assert msgspec.json.encode(RecordsField(9)) == b'{"size":9}'
