"""Bytes made by Apache Kafka's own converters: both readers read them to Kafka's value, the writer writes that value to the same bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from dissectors.headers import REQUEST_HEADER, RESPONSE_HEADER
from kshark.codec import compile_reader, compile_writer, interpret, plain
from kshark.codec.shapes import UNKNOWN_TAGS, Shape, Slot, shape_of
from kshark.registry import Registry
from kshark.schema import Layout
from tests.shared import shared

ZEROS: dict[str, Any] = {"bool": False, "float64": 0.0, "uuid": "A" * 22, "string": "", "bytes": b"", "records": b""}


@dataclass(frozen=True)
class Vector:
    """A message's bytes and its value as Kafka writes it in JSON, made ours by the shape."""

    name: str
    layout: Layout
    version: int
    data: bytes
    json_value: dict[str, Any]
    unknown_tags: dict[str, bytes]

    @property
    def value(self) -> dict[str, Any]:
        """The value with every untagged field, and the tagged ones that are not at their default."""
        value = of_struct(shape_of(self.layout, self.version), self.json_value)
        return value | ({UNKNOWN_TAGS: self.unknown_tags} if self.unknown_tags else {})


def of_struct(shape: Shape, found: dict[str, Any]) -> dict[str, Any]:
    by_name = {name.lower(): value for name, value in found.items()}
    value = {slot.name: of_slot(slot, by_name[folded(slot)]) if folded(slot) in by_name else default(slot) for slot in shape.slots}
    for slot in shape.tags.values():
        if folded(slot) in by_name and (tagged := of_slot(slot, by_name[folded(slot)])) != default(slot):
            value[slot.name] = tagged
    return value


def folded(slot: Slot) -> str:
    return slot.name.replace("_", "")


def of_slot(slot: Slot, found: Any) -> Any:
    if found is None:
        return None
    if slot.shape is not None:
        return of_struct(slot.shape, found)
    if slot.element is not None:
        return [of_slot(slot.element, item) for item in found]
    if slot.type in ("bytes", "records"):
        return base64.b64decode(found)
    return float(found) if slot.type == "float64" else found


def default(slot: Slot) -> Any:
    if slot.default is not None:
        return slot.default
    if slot.shape is not None and not slot.nullable:
        return of_struct(slot.shape, {})
    return [] if slot.element is not None else ZEROS.get(slot.type, 0)


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
