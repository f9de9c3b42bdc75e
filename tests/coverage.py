"""Who confirmed what: for every version of every API, request and answer, the oracles that read the same bytes to the
same values.

`python -m tests.coverage` asks them all and writes conformance/COVERAGE.md; it needs the shared folder and tshark.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kio.serial import entity_writer

from kshark import decode, encode
from kshark.codec import compile_reader, compile_writer, interpret, plain
from kshark.schema import versions_of
from kshark_dissectors.index import INDEX
from tests.conformance import test_java_classes, test_vectors
from tests.conformance.kio_entities import entity, kio_classes, ours
from tests.conformance.test_kio_bytes import bytes_of
from tests.conformance.tshark import pairs_of
from tests.conformance.tshark_known import reads
from tests.conformance.values import Vector
from tests.dissectors.kafka_json import rows
from tests.dissectors.schema_rows import dissector, schema_rows
from tests.dissectors.test_facts import definitions_of
from tests.shared import CAPTURES, ROOT, shared
from tests.witness import compare

TABLE: Final = ROOT / "tests" / "conformance" / "COVERAGE.md"
#: Api key, version, "request" or "response".
Body = tuple[int, int, str]
KEYS: Final = {
    f"{name}{direction.capitalize()}": (key, direction)
    for key, (name, _, _) in INDEX.items()
    for direction in ("request", "response")
}


def every_body() -> list[Body]:
    ranges = {key: versions_of(versions) for key, (_, _, versions) in INDEX.items()}
    return [
        (key, version, direction)
        for key, versions in ranges.items()
        for version in range(versions.low, versions.high + 1)
        for direction in ("request", "response")
    ]


def by_definitions() -> set[Body]:
    """Names, types, order, nullability, tags and defaults are those of Kafka's own definitions."""
    found = set()
    for key, version, direction in every_body():
        layout = dissector(key).request if direction == "request" else dissector(key).response
        newest, *_ = definitions_of(layout.name, version)
        if schema_rows(layout.root, version) == rows(newest, version):
            found.add((key, version, direction))
    return found


def by_java() -> set[Body]:
    """Kafka's own classes, of 3.9.2 and 4.4.0, wrote the bytes and told the values."""
    return _right([vector for release in test_java_classes.RELEASES for vector in test_java_classes.vectors(release)])


def by_vectors() -> set[Body]:
    """Kafka's own converters did, in another project's collection."""
    return _right(list(test_vectors.vectors()))


def _right(vectors: list[Vector]) -> set[Body]:
    found, wrong = set(), set()
    for vector in vectors:
        if vector.layout.name in KEYS:
            key, direction = KEYS[vector.layout.name]
            (found if _both_ways(vector) else wrong).add((key, vector.version, direction))
    return found - wrong


def _both_ways(vector: Vector) -> bool:
    if vector.older:
        read = interpret(vector.layout, vector.version, vector.data, 0, len(vector.data)).body
    else:
        read, _ = compile_reader(vector.layout, vector.version)(vector.data, 0)
    return plain(read) == vector.value and compile_writer(vector.layout, vector.version)(vector.value) == vector.data


def by_kio() -> set[Body]:
    """kio wrote a random message; we read its value and wrote its bytes."""
    found = set()
    for key in INDEX:
        dice = random.Random(key)
        for version, direction, cls in kio_classes(key):
            root = (dissector(key).request if direction == "request" else dissector(key).response).root
            theirs = entity(cls, dice)
            data, value = bytes_of(entity_writer(cls), theirs), ours(theirs, root, version)
            if decode(key, version, direction, data) == value and encode(key, version, direction, value) == data:  # type: ignore[arg-type]
                found.add((key, version, direction))
    return found


def by_logs() -> set[Body]:
    """A broker logged what we read from the packets of a capture."""
    captures = [
        path for path in shared("captures", "kafka-4").glob("*.pcap") if path.with_suffix(".requests.jsonl.gz").exists()
    ]
    return {body for capture in captures for body in compare(capture).proved}


def by_tshark() -> set[Body]:
    """tshark shows the same bytes for every field."""
    captures = [*shared("captures", "third-party").glob("*.pcap*"), CAPTURES / "zk-old-clients.pcap"]
    captures += [shared("captures", "kafka-4", f"sweep-{release}.pcap") for release in ("3.9.2-zk", "4.3.1")]
    found = set()
    for pair in (pair for capture in captures for pair in pairs_of(capture)):
        if pair.agrees and pair.ours and reads(pair.api, pair.version, pair.direction):
            key, direction = KEYS[f"{pair.api}{pair.direction.capitalize()}"]
            found.add((key, pair.version, direction))
    return found


ORACLES: Final[dict[str, Callable[[], set[Body]]]] = {
    "definitions": by_definitions,
    "java": by_java,
    "kio": by_kio,
    "vectors": by_vectors,
    "log": by_logs,
    "tshark": by_tshark,
}


def table(confirmed: dict[str, set[Body]]) -> str:
    """COVERAGE.md."""
    bodies = every_body()
    pairs = sorted({(key, version) for key, version, _ in bodies})
    whole = [
        pair
        for pair in pairs
        if all(any((*pair, way) in found for found in confirmed.values()) for way in ("request", "response"))
    ]
    lines = [
        "# Every version of every API, and who confirmed it",
        "",
        f"{len(whole)} of {len(pairs)} pairs of API and version, requests and responses. Made by `python -m "
        f"tests.coverage`.",
        "",
        "| oracle | what it says | requests | responses |",
        "|---|---|--:|--:|",
    ]
    for oracle, found in confirmed.items():
        counts = [sum(way == direction for _, _, way in found) for direction in ("request", "response")]
        lines.append(f"| {oracle} | {ORACLES[oracle].__doc__} | {counts[0]} | {counts[1]} |")
    lines += ["", "| key | API | version | request | response |", "|--:|---|--:|---|---|"]
    for key, version in pairs:
        said = [
            " ".join(name for name, found in confirmed.items() if (key, version, way) in found)
            for way in ("request", "response")
        ]
        lines.append(f"| {key} | {INDEX[key][0]} | {version} | {said[0]} | {said[1]} |")
    return "\n".join(lines) + "\n"


def read_table(path: Path = TABLE) -> dict[Body, set[str]]:
    """The oracles of every body, as the file has them."""
    found = {}
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].isdecimal():
            for way, said in (("request", cells[3]), ("response", cells[4])):
                found[int(cells[0]), int(cells[2]), way] = set(said.split())
    return found


def main() -> None:
    TABLE.write_text(table({oracle: ask() for oracle, ask in ORACLES.items()}))
    print(TABLE.read_text().splitlines()[2])


if __name__ == "__main__":
    main()
