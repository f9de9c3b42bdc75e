"""Segments of a real broker, as Kafka's own kafka-dump-log prints them (captures/segments)."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

import pytest

from kshark.registry import Registry
from kshark.segments import Segment, SegmentBatch, SegmentFault
from tests.shared import CAPTURES

LOGS = ("__share_group_state-0", "__consumer_offsets-1", "__transaction_state-1")
_BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* position: (\d+) .* crc: (\d+) isvalid: true")
_RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? key: (\{.*\}) payload: (.*)")


def dumped(log: str) -> tuple[list[tuple[int, ...]], list[tuple[Any, ...]]]:
    """Return the batches (offsets, count, position, checksum) and records (offset, time, key, value) by Kafka."""
    text = gzip.decompress((CAPTURES / "segments" / f"{log}.dump-log.txt.gz").read_bytes()).decode()
    batches = [tuple(map(int, match.groups())) for match in _BATCH.finditer(text)]
    records = [
        (int(match[1]), int(match[2]), json.loads(match[3]), None if match[4] == "<DELETE>" else json.loads(match[4]))
        for match in _RECORD.finditer(text)
    ]
    return batches, records


def read(log: str) -> list[SegmentBatch | SegmentFault]:
    path = CAPTURES / "segments" / log / "00000000000000000000.log"
    return [item for page in Segment(str(path), Registry()) for item in page]


def contains(ours: Any, theirs: Any) -> bool:
    """True if everything that Kafka prints is in our value: Kafka leaves out tagged fields with their default."""
    if isinstance(theirs, dict):
        return all(contains(_member(ours, _snake(name), value), value) for name, value in theirs.items())
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(contains, ours, theirs))
    if isinstance(ours, bytes):
        return base64.b64encode(ours).decode() == theirs
    return bool(ours == theirs)


def _member(ours: Any, name: str, theirs: Any) -> Any:
    """Return a member; of bytes that Kafka prints decoded, what they hold."""
    opened = isinstance(theirs, dict) and isinstance(ours[name], bytes)
    return ours[f"{name}_decoded"]["data"] if opened else ours[name]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda letter: f"_{letter[1].lower()}", name)


@pytest.mark.parametrize("log", LOGS)
def test_batches_are_those_of_kafka(log: str) -> None:
    batches = [item for item in read(log) if isinstance(item, SegmentBatch)]
    ours = [
        (b.batch.base_offset, b.batch.base_offset + b.batch.last_offset_delta, b.batch.count, b.position, b.batch.crc)  # type: ignore[union-attr]
        for b in batches
    ]
    assert ours == dumped(log)[0]
    assert all(b.batch.crc_ok for b in batches)  # type: ignore[union-attr]
    assert {(b.topic, b.partition) for b in batches} == {(log.rpartition("-")[0], int(log[-1]))}


@pytest.mark.parametrize("log", LOGS)
def test_records_are_those_of_kafka(log: str) -> None:
    records: list[Any] = [
        record for item in read(log) if isinstance(item, SegmentBatch) for record in item.batch.records
    ]
    theirs = dumped(log)[1]
    assert [(record.offset, record.timestamp) for record in records] == [(record[0], record[1]) for record in theirs]
    wrong = [
        record.offset
        for record, (_, _, key, value) in zip(records, theirs, strict=True)
        if str(record.key_decoded["type"]) != key["type"]
        or not contains(record.key_decoded["data"], key["data"])
        or (record.value is None) != (value is None)
        or (
            value is not None
            and not (
                str(record.value_decoded["version"]) == value["version"]
                and contains(record.value_decoded["data"], value["data"])
            )
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("log", LOGS)
def test_a_sound_segment_has_no_notes(log: str) -> None:
    assert [item for item in read(log) if isinstance(item, SegmentFault) or isinstance(item.weird, list)] == []
