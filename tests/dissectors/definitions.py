"""Kafka's definitions of all messages, those of stored and embedded structures included, read apart from the engine."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.dissectors.kafka_json import covers, read_definition
from tests.shared import shared


@cache
def release(name: str) -> dict[str, dict[str, Any]]:
    """The definitions of `trunk` or `3.9.2` by message name, those without fields left out."""
    found = (read_definition(path) for path in sorted(shared("kafka-messages", name).rglob("*.json")))
    return {definition["name"]: definition for definition in found if "fields" in definition}


def definitions_of(message: str, version: int) -> list[dict[str, Any]]:
    """Who knows this version of a message, trunk first. Before 4.0 the version of a stored key was the record type: it
    is taken for 0."""
    known = [release(name).get(message) for name in ("trunk", "3.9.2")]
    return [found for each in known if each and covers((found := stored_key(each))["validVersions"], version)]


def stored_key(definition: dict[str, Any]) -> dict[str, Any]:
    if not definition["name"].endswith("Key") or definition["type"] != "data":
        return definition
    fields = [{**field, "versions": "0"} for field in definition["fields"]]
    return {
        **definition,
        "validVersions": "0",
        "apiKey": int(definition["validVersions"].split("-")[-1]),
        "fields": fields,
    }
