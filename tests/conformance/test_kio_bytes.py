"""What kio writes is read by us to kio's value, and what we write of it kio reads to the same entity: random messages
of all it knows."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from kshark import decode, encode
from kshark_dissectors.index import INDEX
from tests.conformance.kio_entities import entity, kio_classes, ours
from tests.dissectors.schema_rows import dissector

#: Messages of each (api, version, direction): some on every run, many in the thorough one.
QUICK, THOROUGH = 2, 300


@pytest.mark.sweep(quick=12)
@pytest.mark.parametrize("key", sorted(INDEX))
def test_kio_and_we_read_and_write_the_same(key: int) -> None:
    compare(key, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(INDEX))
def test_kio_and_we_read_and_write_the_same_of_many(key: int) -> None:
    compare(key, THOROUGH)


def compare(key: int, messages: int) -> None:
    dice = random.Random(key)
    for version, direction, cls in kio_classes(key):
        layout = dissector(key).request if direction == "request" else dissector(key).response
        read, write = entity_reader(cls), entity_writer(cls)
        for _ in range(messages):
            theirs = entity(cls, dice)
            data, value = bytes_of(write, theirs), ours(theirs, layout.root, version)
            where = f"{layout.name} {version}"
            assert decode(key, version, direction, data) == value, where  # type: ignore[arg-type]
            assert encode(key, version, direction, value) == data, where  # type: ignore[arg-type]
            assert read(data, 0) == (theirs, len(data)), where


def bytes_of(write: Any, value: Any) -> bytes:
    out = io.BytesIO()
    write(out, value)
    return out.getvalue()
