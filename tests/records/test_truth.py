"""Real captures: the records that applications consumed are in the answers that the capture holds, byte for byte."""

from __future__ import annotations

import gzip
import hashlib
import json
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from kshark import face
from kshark.anomaly import CATALOGUE
from kshark.model import Message
from kshark.records import Record, RecordsField
from tests.shared import shared


def pages(*parts: str) -> Iterator[list[Any]]:
    return face.pages([shared("captures", *parts)])


def fields(value: Any, partition: int | None = None) -> Iterator[tuple[int | None, RecordsField]]:
    """Every records field below, with the number of the partition it belongs to."""
    if isinstance(value, RecordsField):
        yield partition, value
    elif isinstance(value, list):
        for one in value:
            yield from fields(one, partition)
    elif isinstance(value, msgspec.Struct):
        for name in ("partition_index", "partition", "index"):
            partition = getattr(value, name, partition)
        for name in value.__struct_fields__:
            yield from fields(getattr(value, name), partition)


@cache
def answers(*parts: str) -> tuple[dict[tuple[int, int], list[Record]], set[str]]:
    """Records in Fetch and ShareFetch answers by partition and offset (several topics may share a pair); the codes of
    all messages."""
    found: dict[tuple[int, int], list[Record]] = {}
    weird: set[str] = set()
    for page in pages(*parts):
        for message in page:
            if not isinstance(message, Message):
                continue
            weird.update(() if message.weird is UNSET else message.weird)
            if message.api not in ("Fetch", "ShareFetch") or message.kind != "response":
                continue
            for partition, field in fields(message.body):
                assert sum(batch.size for batch in field.batches) + field.partial_bytes == field.size
                for batch in field.batches:
                    for record in batch.records:
                        found.setdefault((partition, record.offset), []).append(record)
    return found, weird


def same(told: dict[str, Any] | None, content: bytes | None) -> bool:
    """Whether a truth file tells of these bytes: whole, or by length and hash."""
    if told is None or content is None:
        return told is content
    if "b64" in told:
        return b64decode(told["b64"]) == content
    return told["len"] == len(content) and hashlib.sha1(content).hexdigest().startswith(told["sha1"])


def truth(*parts: str) -> dict[str, Any]:
    with gzip.open(shared("captures", *parts)) as file:
        return json.load(file)


def lines(*parts: str) -> list[dict[str, Any]]:
    with gzip.open(shared("captures", *parts)) as file:
        return [json.loads(line) for line in file]


def of_records(weird: set[str]) -> set[str]:
    return {code for code in weird if CATALOGUE[code].group == "records"}


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", ["small-none", "small-snappy", "small-zstd", "txn", "mid"])
def test_what_librdkafka_consumed(name):
    if name == "mid":
        consumed = lines("librdkafka-mock", "mid.consumed.jsonl.gz")
    else:
        consumed = truth("librdkafka-mock", f"{name}.truth.json.gz")["consumed"]
    records, weird = answers("librdkafka-mock", f"{name}.pcap")

    assert len(consumed) > 100
    for told in consumed:
        headers = tuple((key, None if value is None else b64decode(value)) for key, value in told["headers"])
        assert any(
            same(told["key"], record.key)
            and same(told["value"], record.value)
            and (told["ts"][1], headers) == (record.timestamp, record.headers)
            for record in records[told["partition"], told["offset"]]
        ), told
    # librdkafka's mock broker writes its transaction markers without a CRC.
    assert of_records(weird) == ({"BATCH_CRC"} if name == "txn" else set())


def digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha1(content).hexdigest()[:16]


def test_what_java_consumed_of_all_codecs():
    told = truth("kafka-4", "produce-mix.truth.json.gz")
    records, weird = answers("kafka-4", "produce-mix.pcap")
    consumed = [step["rec"] for name in ("c-small", "c-assign", "c-big") for step in told[name] if "rec" in step]

    assert len(consumed) > 2000
    for _topic, partition, offset, when, _type, *content, headers in consumed:
        assert any(
            (when, content) == (record.timestamp, [digest(record.key), size(record.value), digest(record.value)])
            and headers == [[key, digest(value)] for key, value in record.headers]
            for record in records[partition, offset]
        ), (partition, offset)
    assert not of_records(weird)


def size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def test_what_clients_of_ten_years_consumed():
    told = truth("kafka-4", "zk-old-clients.truth.json.gz")
    records, weird = answers("kafka-4", "zk-old-clients.pcap")
    consumed = {tuple(step["rec"]) for name in told if name.startswith("c ") for step in told[name] if "rec" in step}

    assert len(consumed) > 300
    for _topic, partition, offset, key, length in consumed:
        assert any(
            (None if key is None else key.encode(), length) == (record.key, size(record.value))
            for record in records[partition, offset]
        ), (partition, offset)
    assert of_records(weird) == {"LEGACY_MAGIC"}


#: What was made to lie in each produce request of hostile-records, by the beginning of its event, and the codes for it.
LIES = {
    "bad crc": {"BATCH_CRC"},
    "magic 3": {"MAGIC_UNKNOWN"},
    "magic -1": {"MAGIC_UNKNOWN"},
    "batch length": {"BATCH_LENGTH_INVALID", "BATCH_CRC"},
    "count 3": {"BATCH_COUNT_MISMATCH"},
    "count 1": {"BATCH_COUNT_MISMATCH"},
    "count 2^31-1": {"BATCH_COUNT_MISMATCH"},
    "count -1": {"BATCH_COUNT_MISMATCH"},
    "last offset delta": {"BATCH_COUNT_MISMATCH"},
    "record length lies": {"RECORD_INVALID"},
    "negative record length": {"RECORD_INVALID"},
    "key length beyond": {"RECORD_INVALID"},
    "header count": {"RECORD_INVALID"},
    "overlong varint": {"RECORD_INVALID"},
    "codec 7": {"CODEC_INVALID"},
    "gzip flag": {"DECOMPRESSION_FAILED"},
    "gzip truncated": {"DECOMPRESSION_FAILED"},
    "snappy garbage": {"DECOMPRESSION_FAILED"},
    "lz4 garbage": {"DECOMPRESSION_FAILED"},
    "zstd garbage": {"DECOMPRESSION_FAILED"},
    "gzip bomb": {"DECOMPRESSION_LIMIT"},
    "control batch": {"RECORD_INVALID"},
    "magic 0": {"LEGACY_MAGIC"},
    "magic 1": {"LEGACY_MAGIC"},
    "random": {"MAGIC_UNKNOWN"},
}


def test_what_was_made_to_lie_is_told_and_nothing_else():
    steps = {
        step["local_port"]: step["event"].removeprefix("records: ")
        for step in truth("kafka-4", "hostile-records.truth.json.gz")["events"][1:-1]
    }
    told = {}
    for page in pages("kafka-4", "hostile-records.pcap"):
        for message in page:
            if isinstance(message, Message) and message.api == "Produce" and message.kind == "request":
                told[int(message.client.rsplit(":")[-1])] = set() if message.weird is UNSET else set(message.weird)

    assert len(told) > 50
    for port, event in steps.items():
        expected = next((codes for lie, codes in LIES.items() if event.startswith(lie)), set())
        assert bool(told[port] & expected) == bool(expected), event
        assert expected or not told[port], event
