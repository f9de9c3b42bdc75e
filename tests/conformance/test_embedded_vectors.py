"""Bytes that Kafka made of structures that lie inside bytes: read to Kafka's value, written back to the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

from kshark.codec import compile_reader, compile_writer, interpret, plain
from kshark_dissectors.history import NOT_READ
from tests.conformance.values import Vector
from tests.shared import shared
from tools.sync.ours import our_layouts


@cache
def vectors() -> tuple[Vector, ...]:
    return tuple(_vectors())


def _vectors() -> Iterator[Vector]:
    ours = our_layouts()
    for folder in sorted(shared("vectors").iterdir()):
        if folder.name in ours and not folder.name.endswith(("Request", "Response", "Header")):
            for path in sorted(folder.glob("*.json")):
                for row in json.loads(path.read_text())["vectors"]:
                    tags = {
                        str(tag["tag"]): bytes.fromhex(tag["data_hex"]) for tag in row.get("unknown_tagged_fields", ())
                    }
                    name, layout = f"{row['message']} {row['name']}", ours[folder.name].layout
                    yield Vector(name, layout, row["version"], bytes.fromhex(row["hex"]), row["json_value"], tags)


def test_every_structure_that_has_vectors_is_held_against_them() -> None:
    kinds = {
        path.name
        for path in shared("vectors").iterdir()
        if path.is_dir() and not path.name.endswith(("Request", "Response", "Header"))
    }
    assert kinds - {vector.layout.name for vector in vectors()} <= NOT_READ.keys()
    assert len(vectors()) > 30


def test_kafkas_bytes_are_read_to_kafkas_value() -> None:
    for vector in vectors():
        body, position = compile_reader(vector.layout, vector.version)(vector.data, 0)
        assert (plain(body), position) == (vector.value, len(vector.data)), vector.name
        reading = interpret(vector.layout, vector.version, vector.data, 0, len(vector.data))
        assert (plain(reading.body), reading.faults) == (vector.value, ()), vector.name


def test_kafkas_value_is_written_to_kafkas_bytes() -> None:
    for vector in vectors():
        assert compile_writer(vector.layout, vector.version)(vector.value) == vector.data, vector.name
