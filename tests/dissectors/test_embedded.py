"""Structures inside bytes are what Kafka's definitions say, under the right record type; kio agrees where it knows
them."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

from kshark_dissectors.embedded.places import LOGS, PLACES
from kshark_dissectors.history import BY_HAND, JOINED, NOT_READ
from kshark_dissectors.index import INDEX
from tests.dissectors.definitions import definitions_of, release
from tests.dissectors.kafka_json import Row, covers, rows
from tests.dissectors.schema_rows import dissector, schema_rows, span
from tests.dissectors.test_facts import bare
from tests.dissectors.test_kio import comparable, kio_rows
from tools.sync.ours import our_layouts

OF_APIS = {f"{name}{direction}" for name, _, _ in INDEX.values() for direction in ("Request", "Response")} | {
    "RequestHeader",
    "ResponseHeader",
}
EMBEDDED = {name: ours for name, ours in our_layouts().items() if name not in OF_APIS}
DEFINED = sorted(EMBEDDED.keys() - BY_HAND)
KNOWN_TO_KIO = {
    *(
        "ConsumerProtocolSubscription",
        "ConsumerProtocolAssignment",
        "DefaultPrincipalData",
        "EndTxnMarker",
        "LeaderChangeMessage",
    ),
    *("SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord"),
}


def older_bytes(definition: dict[str, Any], version: int) -> tuple[Any, ...]:
    return bare(rows(definition, version))


def without(found: tuple[Row, ...], joined: tuple[str, ...], path: str = "") -> tuple[Row, ...]:
    """Rows but those that joined a version that was there before."""
    return tuple(
        row._replace(rows=without(row.rows, joined, f"{path}{row.name}."))
        for row in found
        if f"{path}{row.name}" not in joined
    )


@pytest.mark.parametrize("name", DEFINED)
def test_a_structure_is_what_the_newest_definition_says(name: str) -> None:
    layout = EMBEDDED[name].layout
    for version in span(layout.versions):
        newest, *_ = definitions_of(name, version)
        if version in layout.older and rows(newest, version) == schema_rows(layout.older[version], version):
            continue  # dropped before the newest release; the older definition is the only one left
        assert schema_rows(layout.root, version) == rows(newest, version), f"{name} {version}"
        assert (version in layout.flexible) == covers(newest["flexibleVersions"], version), f"{name} {version}"


@pytest.mark.parametrize("name", DEFINED)
def test_a_record_stands_under_kafkas_number(name: str) -> None:
    newest, *_ = definitions_of(name, EMBEDDED[name].layout.versions.low)
    if "apiKey" in newest:
        assert EMBEDDED[name].key == newest["apiKey"]


@pytest.mark.parametrize("name", DEFINED)
def test_what_3_9_wrote_is_read_too(name: str) -> None:
    layout = EMBEDDED[name].layout
    for version in span(layout.versions):
        for definition in definitions_of(name, version):
            ours = [
                bare(schema_rows(root, version))
                for root in (layout.root, layout.older.get(version))
                if root is not None
            ]
            before = bare(without(schema_rows(layout.root, version), JOINED.get(name, ())))
            assert older_bytes(definition, version) in (*ours, before), f"{name} {version}"


def test_every_definition_of_kafka_is_read_or_excused() -> None:
    for name in ("trunk", "3.9.2"):
        messages = {
            message for message, definition in release(name).items() if definition.get("validVersions") != "none"
        }
        unread = messages - EMBEDDED.keys() - OF_APIS - NOT_READ.keys()
        assert {message for message in unread if not message.startswith("ListClientMetricsResources")} == set()


def test_places_lie_in_fields_that_hold_bytes_and_are_told_by_fields_that_are_there() -> None:
    for (key, direction), places in PLACES.items():
        layout = dissector(key).request if direction == "request" else dissector(key).response
        for place in places:
            around, struct = {field.name for field in layout.root.fields}, layout.root
            for part in place.path.split("."):
                field = next(field for field in struct.fields if field.name == part)
                struct = field.element or field
                around |= {field.name for field in struct.fields}
            assert struct.type in ("bytes", "records"), f"{layout.name}.{place.path}"
            told = {*place.by, *place.call.values()}
            request = {field.name for field in dissector(key).request.root.fields}
            assert told <= around | request, f"{layout.name}.{place.path}"


def test_types_of_stored_records_have_no_holes_but_kafkas_own() -> None:
    unused = {"__consumer_offsets": {18}, "__cluster_metadata": {6, 13, 16}}
    for topic, log in LOGS.items():
        assert set(range(max(log.types) + 1)) - log.types.keys() == unused.get(topic, set())


@pytest.mark.parametrize("name", sorted(KNOWN_TO_KIO))
def test_kio_agrees(name: str) -> None:
    layout = EMBEDDED[name].layout
    folder = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    for version in span(layout.versions):
        theirs = getattr(importlib.import_module(f"kio.schema.{folder}.v{version}.data"), name)
        assert tuple(map(comparable, schema_rows(layout.root, version))) == tuple(map(comparable, kio_rows(theirs)))
        assert theirs.__flexible__ == (version in layout.flexible)
