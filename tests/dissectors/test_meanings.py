"""Meanings of fields: each field of each message and structure has one, in our own words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from kshark.output.field_meanings import meaning_of
from kshark.output.layouts import field_objects
from kshark.registry import kafka_registry
from kshark.schema import Layout
from kshark_dissectors.meanings import COVERED, EVERYWHERE, MEANINGS
from tests.dissectors.kafka_json import read_definition
from tests.dissectors.schema_rows import WRITTEN, dissector
from tests.shared import shared


def layouts() -> Iterator[Layout]:
    for key in WRITTEN:
        yield dissector(key).request
        yield dissector(key).response
    yield from kafka_registry().structures().values()


@pytest.mark.parametrize("layout", [*layouts()], ids=lambda layout: layout.name)
def test_each_field_has_a_meaning_or_is_an_enumeration(layout: Layout) -> None:
    assert [row["field"] for row in field_objects(layout) if not (row["meaning"] or row["values"])] == []


def test_every_row_is_used() -> None:
    used = {row["meaning"] for layout in layouts() for row in field_objects(layout)}
    assert [key for key, meaning in {**MEANINGS, **EVERYWHERE}.items() if meaning not in used] == []
    assert all(any(layout.name.startswith(beginning) for layout in layouts()) for beginning in COVERED)


def test_the_most_special_meaning_holds() -> None:
    api = dissector(1)
    (replica,) = [field for field in api.request.root.fields if field.name == "replica_id"]
    assert "-2: a debugging consumer" in meaning_of("FetchRequest", ("replica_id",), replica)
    assert "debugging" not in meaning_of("ListOffsetsRequest", ("replica_id",), replica)
    assert meaning_of("VoteRequest", ("topics", "partitions", "replica_id"), replica) == "id of the candidate"
    assert meaning_of("PauseGroupRequest", ("replica_id",), replica) == ""


def test_meanings_are_in_our_own_words() -> None:
    """No meaning is a sentence of Kafka's definitions, but "name of the topic" and the like."""
    theirs = {
        words(about) for path in shared("kafka-messages").rglob("*.json") for about in abouts(read_definition(path))
    }
    assert len(theirs) > 1000
    ours = [meaning for meaning in (*MEANINGS.values(), *EVERYWHERE.values()) if len(meaning.split()) > 4]
    assert [meaning for meaning in ours if words(meaning) in theirs] == []


def words(text: str) -> str:
    return " ".join(word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in ("the", "a", "an"))


def abouts(definition: object) -> Iterator[str]:
    yield from re.findall(r'"about": "((?:[^"\\]|\\.)*)"', json.dumps(definition))
