"""kio, written by others in another language, reads our bytes to our values and writes its values to our bytes."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import random
import uuid
from enum import Enum
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from kshark import decode, encode
from kshark.codec.primitives import uuid_text
from kshark.registry import Registry
from kshark.schema import Field

REGISTRY = Registry(installed=False)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)


def kio_classes(key: int) -> list[tuple[int, str, Any]]:
    """Version, direction and class of every body of an API that kio knows."""
    api = REGISTRY.api(key)
    assert api is not None
    folder = "".join(f"_{c.lower()}" if c.isupper() else c for c in api.name).lstrip("_")
    found = []
    for version in range(api.versions.low, api.versions.high + 1):
        for direction in ("request", "response"):
            try:
                module = importlib.import_module(f"kio.schema.{folder}.v{version}.{direction}")
            except ModuleNotFoundError:
                continue
            found.append((version, direction, getattr(module, f"{api.name}{direction.capitalize()}")))
    return found


def filled(struct: Field, version: int, dice: random.Random) -> dict[str, Any]:
    """A value with every field of that version, arrays of one or two elements, nulls now and then."""
    return {f.name: filled_field(f, version, dice) for f in struct.fields if version in f.versions}


def filled_field(f: Field, version: int, dice: random.Random) -> Any:
    if version in f.nullable and f.tag is None and dice.random() < 0.3:
        return None
    if f.element is not None:
        return [filled_field(f.element, version, dice) for _ in range(dice.randint(1, 2))]
    if f.enum is not None:
        return int(dice.choice([member for member in f.enum if 0 <= member <= 119]))  # kio lacks the newest error codes
    match f.type:
        case "struct":
            return filled(f, version, dice)
        case "bool":
            return True
        case "string":
            return dice.choice(["orders", "ä", "x" * 130])
        case "bytes" | "records":
            return dice.randbytes(dice.choice([1, 5, 130]))
        case "uuid":
            return uuid_text(dice.randbytes(16))
        case "float64":
            return dice.random()
        case _:
            return dice.randint(1, {"int8": 100, "int16": 30_000, "uint16": 60_000}.get(f.type, 1_000_000))


def ours(value: Any, f: Field, version: int) -> Any:
    """A value of kio's as our plain value; kio's fields stand in the order of the definition, as ours do."""
    if value is None and f.type == "uuid":
        return uuid_text(bytes(16))
    if isinstance(value, tuple):
        assert f.element is not None
        return [ours(item, f.element, version) for item in value]
    if dataclasses.is_dataclass(value):
        fields = [inner for inner in f.fields if version in inner.versions]
        names = dataclasses.fields(value)
        return {inner.name: ours(getattr(value, name.name), inner, version) for inner, name in zip(fields, names, strict=True)}
    match value:
        case Enum():
            return value.value
        case uuid.UUID():
            return uuid_text(value.bytes)
        case datetime.timedelta():
            return value // MILLISECOND
        case datetime.datetime():
            return (value - EPOCH) // MILLISECOND
        case _:
            return value


@pytest.mark.parametrize("key", sorted(REGISTRY.names()))
def test_kio_and_we_read_and_write_the_same(key: int) -> None:
    api = REGISTRY.api(key)
    assert api is not None
    dice = random.Random(key)
    for version, direction, kio_class in kio_classes(key):
        root = api.request.root if direction == "request" else api.response.root
        value = filled(root, version, dice)
        data = encode(key, version, direction, value)
        assert decode(key, version, direction, data) == value
        theirs, end = entity_reader(kio_class)(data, 0)
        assert (ours(theirs, root, version), end) == (value, len(data)), f"{direction} {version}"
        assert written_by_kio(kio_class, theirs) == data, f"{direction} {version}"


def written_by_kio(kio_class: Any, value: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(kio_class)(out, value)
    return out.getvalue()
