"""Every dissector says what Kafka's own definitions say: names, types, order, nullability, tags, defaults, in every
version."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from kshark.names import has_pairs
from kshark.schema import Layout
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.headers import REQUEST_HEADER, RESPONSE_HEADER
from kshark_dissectors.index import INDEX
from kshark_dissectors.topics import NAMING_APIS
from tests.dissectors.kafka_json import Row, covers, read_definitions, rows
from tests.dissectors.schema_rows import WRITTEN, dissector, schema_rows, span, walk
from tests.shared import shared

KEYS = sorted(WRITTEN)


@cache
def release(name: str) -> dict[str, dict[str, Any]]:
    """The definitions of `trunk` or `3.9.2` by message name."""
    return read_definitions(shared("kafka-messages", name))


def definitions_of(message: str, version: int) -> list[dict[str, Any]]:
    """Who knows this version of a message, trunk first."""
    known = (release(name).get(message) for name in ("trunk", "3.9.2"))
    return [definition for definition in known if definition and covers(definition["validVersions"], version)]


def bare(found: tuple[Row, ...]) -> tuple[Any, ...]:
    """What decides about the bytes: no names, no defaults."""
    return tuple((row.type, row.nullable, row.tag, bare(row.rows)) for row in found)


def layouts(key: int) -> tuple[Layout, Layout]:
    return dissector(key).request, dissector(key).response


@pytest.mark.parametrize("key", KEYS)
def test_a_dissector_says_what_the_newest_definition_says(key: int) -> None:
    for layout in layouts(key):
        for version in span(layout.versions):
            newest, *_ = definitions_of(layout.name, version)
            assert schema_rows(layout.root, version) == rows(newest, version), f"{layout.name} {version}"
            assert (version in layout.flexible) == covers(newest["flexibleVersions"], version), (
                f"{layout.name} {version}"
            )


@pytest.mark.parametrize("key", KEYS)
def test_older_releases_put_the_same_bytes_on_the_wire_or_their_layout_stands_beside(key: int) -> None:
    for layout in layouts(key):
        for version in span(layout.versions):
            ours = [
                bare(schema_rows(root, version))
                for root in (layout.root, layout.older.get(version))
                if root is not None
            ]
            theirs = [bare(rows(definition, version)) for definition in definitions_of(layout.name, version)]
            assert set(theirs) == set(ours), f"{layout.name} {version}"


@pytest.mark.parametrize("layout", [REQUEST_HEADER, RESPONSE_HEADER], ids=lambda layout: layout.name)
def test_headers_are_those_of_the_definitions(layout: Layout) -> None:
    for version in span(layout.versions):
        newest, *_ = definitions_of(layout.name, version)
        assert schema_rows(layout.root, version) == rows(newest, version)
        assert (version in layout.flexible) == covers(newest["flexibleVersions"], version)


def test_only_the_client_id_keeps_its_old_form_in_flexible_versions() -> None:
    definition = release("trunk")["RequestHeader"]
    assert [field["name"] for field in definition["fields"] if field.get("flexibleVersions") == "none"] == ["ClientId"]
    assert [field.name for field in REQUEST_HEADER.root.fields if 2 not in field.flexible] == ["client_id"]


def test_the_index_holds_every_key_with_every_version_ever_spoken() -> None:
    table = shared("protocol", "api-keys.md").read_text("utf-8")
    seen = re.findall(r"^\| (\d+) \| (\w+) \|.*\| (\S+) \(\d+\) \|$", table, re.MULTILINE)
    assert {key: (name, versions) for key, (name, _, versions) in INDEX.items()} == {
        int(key): (name, text) for key, name, text in seen
    }


def test_error_codes_are_all_there_with_their_names() -> None:
    table = shared("protocol", "errors.md").read_text("utf-8")
    listed = {int(code): name for code, name in re.findall(r"^\| (-?\d+) \| (\w+) \|", table, re.MULTILINE)}
    assert {code.value: code.name for code in ErrorCode} == listed
    assert len(listed) == 138


def test_a_field_that_kafka_calls_an_error_code_has_the_names_of_the_errors() -> None:
    for key in KEYS:
        for layout in layouts(key):
            unnamed = [
                path
                for path, field in walk(layout)
                if field.name.endswith("error_code") and field.enum is not ErrorCode
            ]
            assert unnamed == [], layout.name


def test_who_names_topics_is_known() -> None:
    assert {key for key in KEYS if any(has_pairs(layout.root) for layout in layouts(key))} == NAMING_APIS
