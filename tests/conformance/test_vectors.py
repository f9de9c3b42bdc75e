"""Bytes made by Apache Kafka's own converters: both readers read them to Kafka's value, the writer writes that value to
the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kshark.codec import compile_reader, compile_writer, interpret, plain
from kshark.registry import Registry
from kshark_dissectors.headers import REQUEST_HEADER, RESPONSE_HEADER
from tests.conformance.values import Vector
from tests.shared import shared


def vectors() -> Iterator[Vector]:
    registry = Registry(installed=False)
    apis = [api for key in registry.names() if (api := registry.api(key))]
    layouts = {layout.name: layout for api in apis for layout in (api.request, api.response)}
    layouts |= {layout.name: layout for layout in (REQUEST_HEADER, RESPONSE_HEADER)}
    for path in sorted(shared("vectors").glob("*/*.json")):
        for row in json.loads(path.read_text())["vectors"]:
            if row["message"] in layouts:
                tags = {str(tag["tag"]): bytes.fromhex(tag["data_hex"]) for tag in row.get("unknown_tagged_fields", ())}
                name, data = f"{row['message']} {row['name']}", bytes.fromhex(row["hex"])
                yield Vector(name, layouts[row["message"]], row["version"], data, row["json_value"], tags)


@pytest.fixture(scope="module")
def every() -> list[Vector]:
    return list(vectors())


def test_most_of_kafkas_messages_have_vectors(every: list[Vector]) -> None:
    assert len(every) > 700
    assert len({vector.layout.name for vector in every}) > 100


def test_the_compiled_reader_reads_kafkas_value(every: list[Vector]) -> None:
    for vector in every:
        buffer, end = b"\xff\x00" + vector.data + b"\x01\xff" * 9, 2 + len(vector.data)
        body, position = compile_reader(vector.layout, vector.version)(buffer, 2, end)
        assert (plain(body), position) == (vector.value, end), vector.name


def test_the_interpreter_reads_kafkas_value(every: list[Vector]) -> None:
    for vector in every:
        reading = interpret(vector.layout, vector.version, vector.data, 0, len(vector.data))
        assert (plain(reading.body), reading.faults) == (vector.value, ()), vector.name


def test_kafkas_value_is_written_to_kafkas_bytes(every: list[Vector]) -> None:
    for vector in every:
        assert compile_writer(vector.layout, vector.version)(vector.value) == vector.data, vector.name
