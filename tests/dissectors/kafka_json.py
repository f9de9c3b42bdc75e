"""A reader of Kafka's message definitions, written apart from kshark.schema: what a message holds in one version, row
by row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

MESSAGES = "clients/src/main/resources/common/message"
FOREVER = 1 << 15


class Row(NamedTuple):
    """One field of one version. `default` is a number, a bool or None; `rows` are the fields of a struct or of an
    array's elements."""

    name: str
    type: str
    nullable: bool
    tag: int | None
    default: Any
    rows: tuple[Row, ...]


def read_definition(path: Path) -> dict[str, Any]:
    """JSON with `//` comments, which may also stand inside strings."""
    token = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*')
    definition: dict[str, Any] = json.loads(
        token.sub(lambda m: "" if m[0].startswith("//") else m[0], path.read_text("utf-8"))
    )
    return definition


def read_definitions(folder: Path) -> dict[str, dict[str, Any]]:
    """All messages of a release by name, those without fields left out."""
    found = (read_definition(path) for path in sorted((folder / MESSAGES).glob("*.json")))
    return {definition["name"]: definition for definition in found if "fields" in definition}


def covers(text: str | None, version: int) -> bool:
    """Whether Kafka's `0-3`, `2+`, `4` or `none` holds a version."""
    if text is None or text == "none":
        return False
    low, plus, high = re.fullmatch(r"(\d+)(\+)?-?(\d+)?", text).groups()  # type: ignore[union-attr]
    return int(low) <= version <= (FOREVER if plus else int(high or low))


def snake_case(name: str) -> str:
    """`TopicId` topic_id; a run of capitals is one word, and the word behind it too: `KRaftVersion` kraft_version."""
    return re.sub(r"(?<![A-Z])(?=[A-Z])", "_", name).lstrip("_").lower()


def rows(definition: dict[str, Any], version: int) -> tuple[Row, ...]:
    shared = {common["name"]: common["fields"] for common in definition.get("commonStructs", [])}
    return _rows(definition["fields"], version, shared)


def _rows(fields: list[dict[str, Any]], version: int, shared: dict[str, Any]) -> tuple[Row, ...]:
    out = []
    for field in fields:
        if not covers(field.get("versions") or field["taggedVersions"], version):
            continue
        kind = field["type"].removeprefix("[]")
        inner = field.get("fields") or shared.get(kind)
        tagged = covers(field.get("taggedVersions"), version)
        out.append(
            Row(
                snake_case(field["name"]),
                ("[]" if field["type"].startswith("[]") else "") + ("struct" if inner else kind),
                covers(field.get("nullableVersions"), version),
                int(field["tag"]) if tagged else None,
                default_of(field),
                _rows(inner, version, shared) if inner else (),
            )
        )
    return tuple(out)


def default_of(field: dict[str, Any]) -> float | bool | None:
    """A number's or bool's default; the zero of its type where none is named, None for all other types."""
    text = str(field.get("default", "0")).lower()
    match field["type"]:
        case "bool":
            return text == "true"
        case "float64":
            return float(text)
        case "int8" | "int16" | "uint16" | "int32" | "uint32" | "int64":
            return int(text, 0)
        case _:
            return None
