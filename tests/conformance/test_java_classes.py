"""Bytes and values of Kafka's own message classes (java/README.md): read to their values, written to their bytes, in
every version.

The two releases together hold all that any release speaks: 3.9.2 what 4.0 dropped, 4.4.0 what came since.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kshark.codec import compile_reader, compile_writer, interpret, plain
from kshark.schema import versions_of
from kshark_dissectors.history import BY_HAND, FIELD_NAMES, MESSAGE_NAMES, NOT_READ
from kshark_dissectors.index import INDEX
from tests.conformance.values import Vector
from tools.sync.ours import our_layouts

FOLDER = Path(__file__).parent / "java"
RELEASES = ("3.9.2", "4.4.0")
#: The release whose layout of some versions is another one than today's.
BEFORE = "3.9.2"


@cache
def vectors(release: str) -> tuple[Vector, ...]:
    return tuple(_vectors(release))


def _vectors(release: str) -> Iterator[Vector]:
    ours = our_layouts()
    now = {before: name for name, before in MESSAGE_NAMES.items()}
    with gzip.open(FOLDER / f"kafka-{release}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            message, version = now.get(row["message"], row["message"]), row["version"]
            if message in NOT_READ:
                continue
            layout = ours[message].layout
            if version not in layout.versions and message.endswith("Key"):
                version = 0  # before 4.0 the version of a stored key was the record's type
            tags = {tag: bytes.fromhex(data) for tag, data in row.get("tags", {}).items()}
            name, older = f"{release} {message} {row['version']}", release == BEFORE and version in layout.older
            data, names = bytes.fromhex(row["hex"]), FIELD_NAMES.get(message, {})
            yield Vector(
                name, layout, version, data, row["json"], tags, defaults_named=False, older=older, older_names=names
            )


def pairs(release: str) -> set[tuple[str, int]]:
    return {(vector.layout.name, vector.version) for vector in vectors(release)}


def test_both_releases_together_hold_every_version_of_every_api() -> None:
    due = {
        (f"{name}{direction}", version)
        for name, _, versions in INDEX.values()
        for version in range(versions_of(versions).low, versions_of(versions).high + 1)
        for direction in ("Request", "Response")
    }
    assert len(due) == 2 * 368
    assert due - pairs("3.9.2") - pairs("4.4.0") == set()


def test_and_both_headers_and_every_stored_structure_that_has_a_definition() -> None:
    found = {name for release in RELEASES for name, _ in pairs(release)}
    assert our_layouts().keys() - found == BY_HAND


@pytest.mark.parametrize("release", RELEASES)
def test_the_compiled_reader_reads_kafkas_value(release: str) -> None:
    for vector in vectors(release):
        if not vector.older:
            buffer, end = b"\xff\x00" + vector.data + b"\x01\xff" * 9, 2 + len(vector.data)
            body, position = compile_reader(vector.layout, vector.version)(buffer, 2, end)
            assert (plain(body), position) == (vector.value, end), vector.name


@pytest.mark.parametrize("release", RELEASES)
def test_the_interpreter_reads_kafkas_value(release: str) -> None:
    for vector in vectors(release):
        reading = interpret(vector.layout, vector.version, vector.data, 0, len(vector.data))
        assert plain(reading.body) == vector.value, vector.name
        assert {fault.code for fault in reading.faults} <= ({"LAYOUT_DRIFT"} if vector.older else set()), vector.name


@pytest.mark.parametrize("release", RELEASES)
def test_kafkas_value_is_written_to_kafkas_bytes(release: str) -> None:
    for vector in vectors(release):
        assert compile_writer(vector.layout, vector.version)(vector.value) == vector.data, vector.name
