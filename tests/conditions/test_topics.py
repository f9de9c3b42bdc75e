"""`kafka.topic`: fields that name a topic, held against Kafka's own message definitions, and ids with their names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kshark.codec.paths import paths_of_versions
from kshark.conditions.fields import Fields
from kshark.conditions.filter import Filter
from kshark.conditions.topics import is_topic_id, is_topic_name
from kshark.registry import Registry
from tests.output.messages import REGISTRY, request, response
from tests.shared import shared

ORDERS = "AAAAAAAAAAAAAAAAAAAABw"
OTHER = "AAAAAAAAAAAAAAAAAAAACA"
#: What dissectors write in another shape than Kafka: a field of only some versions that moved into another structure.
MOVED = {(4, "topic_states.partition_states.topic_name"), (4, "topics.partition_errors.topic_name")} | {
    (6, "topic_states.partition_states.topic_name")
}

FETCHES = request(
    "ShareFetch",
    1,
    group_id="g",
    topics=[{"topic_id": ORDERS, "partitions": []}, {"topic_id": OTHER, "partitions": []}],
)
NAMES = request("Metadata", 12, topics=[{"topic_id": ORDERS, "name": "orders"}])
NONE = request("ShareFetch", 1, group_id="g")
REFUSED = response("ShareFetch", 1, error_code=123)


def passes(text: str, message: Any, names: dict[str, str] | None = None) -> bool:
    fields = Fields(REGISTRY)
    fields.topics.name_of = lambda topic_id, packet: (names or {}).get(topic_id)
    return Filter(text, fields).passes(message)


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("== orders", True),
        ("== ordres", False),
        (f"== {ORDERS}", True),
        (f"== {OTHER}", True),
        ("!= orders", False),
        ("!= ordres", True),
        ("~= orders", True),
        ("=== orders", False),
        ("contains rder", True),
        ('matches "^ord"', True),
        ("in {a orders}", True),
        ("not in {a b}", True),
        ("not in {a orders}", False),
        ("", True),
    ],
)
def test_a_topic_is_its_name_and_its_id(test: str, expected: bool) -> None:
    assert passes(f"kafka.topic {test}", FETCHES, {ORDERS: "orders"}) is expected


def test_all_occurrences_are_equal_by_name_as_by_id() -> None:
    message = request("ShareFetch", 1, topics=[{"topic_id": ORDERS, "partitions": []}])
    for text in ("orders", ORDERS):
        assert passes(f"kafka.topic === {text}", message, {ORDERS: "orders"})
        assert not passes(f"kafka.topic ~= {text}", message, {ORDERS: "orders"})


def test_an_id_whose_name_nothing_shows_has_only_its_id() -> None:
    assert not passes("kafka.topic == orders", FETCHES)
    assert passes(f"kafka.topic == {ORDERS}", FETCHES)


@pytest.mark.parametrize("message", [NONE, REFUSED])
def test_messages_without_topics_pass_no_test(message: Any) -> None:
    assert not passes("kafka.topic", message)
    assert not passes("kafka.topic != orders", message)


def test_names_beside_ids_need_no_lookup() -> None:
    assert passes("kafka.topic == orders", NAMES)


def test_bodies_that_name_topics_are_read_too() -> None:
    needs = Filter("kafka.api == ShareFetch && kafka.topic == orders", Fields(REGISTRY)).needs
    assert {3, 19, 78} <= needs.bodies
    assert 0 not in needs.bodies
    assert needs.embedded


def test_the_fields_of_topics_are_those_that_kafka_calls_topic_names() -> None:
    """Oracle: the type topicName of Kafka's message definitions."""
    folder = shared("kafka-messages")
    registry, recognised, every = Registry(), set(), set()
    for key in registry.names():
        api = registry.api(key)
        for layout in () if api is None else (api.request, api.response):
            for path, _ in paths_of_versions(layout.root, layout.versions):
                every.add((key, str(path)))
                if is_topic_name(path):
                    recognised.add((key, str(path)))
    kafka = {topic for file in sorted(folder.rglob("*.json")) for topic in _topic_names(file)}
    assert len(kafka) > 90
    assert kafka - every == MOVED
    assert recognised == kafka & every


def _topic_names(file: Path) -> Iterator[tuple[int, str]]:
    """The fields of type topicName in a message definition, with its API."""
    data = json.loads(re.sub(r"^\s*//.*$|(?<!:)//[^\"\n]*$", "", file.read_text(), flags=re.M))
    if data.get("type") not in ("request", "response"):
        return
    common = {struct["name"]: struct["fields"] for struct in data.get("commonStructs", ())}
    waiting = [(data.get("fields", ()), "")]  # an API that was removed has none
    while waiting:
        fields, above = waiting.pop()
        for field in fields:
            name = above + re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", field["name"]).lower()
            if field.get("entityType") == "topicName":
                yield data["apiKey"], name
            waiting.append((field.get("fields") or common.get(field["type"].removeprefix("[]"), ()), f"{name}."))


def test_every_id_of_a_topic_is_recognised() -> None:
    registry = Registry()
    ids = {
        str(path)
        for api in filter(None, map(registry.api, registry.names()))
        for layout in (api.request, api.response)
        for path, _ in paths_of_versions(layout.root, layout.versions)
        if path.type.type == "uuid" and "topic" in path.names[-1] and not is_topic_id(path)
    }
    assert ids == set()
