"""Read Kafka's message definitions (JSON files in its sources) as layouts of kshark.schema.

Source: the README in clients/src/main/resources/common/message. The files extend JSON by `//` comments; numbers may be
strings, and defaults are always strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kshark import schema
from kshark.errors import SchemaError, UnreadableInput
from kshark.schema import FIXED, Field, Layout, array, layout, struct, versions_of

#: Where Kafka's source tree keeps the definitions; another folder is searched as a whole.
RESOURCES: Final = ("src", "main", "resources")
#: Kafka's types with another name in kshark.schema.
WORDS: Final = {"bool": "boolean", "bytes": "bytes_"}
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*')


@dataclass(frozen=True, slots=True)
class Definition:
    """One message: `kind` is the file's `type` (request, data, metadata, coordinator-key, …), `key` its api key or
    record type."""

    name: str
    kind: str
    key: int | None
    layout: Layout
    path: Path
    #: Structures with a name in the definition, by that name.
    structs: Mapping[str, Field]


def read_folder(folder: Path) -> dict[str, Definition]:
    """Return all messages below a folder by name, without those whose versions are `none`.

    Raises UnreadableInput if there are none.
    """
    files = sorted(folder.rglob("*.json"))
    inside = [path for path in files if any(path.parts[i : i + 3] == RESOURCES for i in range(len(path.parts)))]
    definitions = {}
    for path in inside or files:
        definition = _read(path)
        if definition is not None:
            definitions[definition.name] = definition
    if not definitions:
        raise UnreadableInput(
            f"{folder}: no message definitions of Kafka (a folder of its sources, or the JSON files themselves)"
        )
    return definitions


def snake_case(name: str) -> str:
    """Convert `TopicId` to topic_id; several capitals are one word.

    `KRaftVersion` becomes kraft_version, `Enable2Pc` becomes enable2_pc.
    """
    return re.sub(r"(?<![A-Z])([A-Z])", r"_\1", name).removeprefix("_").lower()


def _read(path: Path) -> Definition | None:
    try:
        raw = json.loads(
            _TOKEN.sub(lambda token: "" if token[0].startswith("//") else token[0], path.read_text("utf-8"))
        )
    except (OSError, ValueError) as error:
        raise UnreadableInput(f"{path}: {error}") from error
    if (
        not isinstance(raw, dict)
        or "name" not in raw
        or raw.get("validVersions", "none") == "none"
        or "fields" not in raw
    ):
        return None
    try:
        return _definition(raw, path)
    except KeyError as error:
        raise UnreadableInput(f"{path}: no type or attribute {error}") from error
    except (ValueError, SchemaError) as error:
        raise UnreadableInput(f"{path}: {error}") from error


def _definition(raw: dict[str, Any], path: Path) -> Definition:
    versions, key = raw["validVersions"], raw.get("apiKey")
    if raw["type"] == "data" and raw["name"].endswith(
        "Key"
    ):  # until 4.0, the version of a stored key is its record type
        key, versions = versions_of(versions).high, "0"
        raw = _without_versions(raw)
    reader = _Reader({common["name"]: common for common in raw.get("commonStructs", ())})
    fields = struct(*reader.fields(raw["fields"]))
    made = layout(raw["name"], versions=versions, flexible=raw.get("flexibleVersions", "none"), fields=fields)
    return Definition(raw["name"], raw["type"], key, made, path, reader.structs)


def _without_versions(raw: dict[str, Any]) -> dict[str, Any]:
    return {**raw, "fields": [{**field, "versions": "0+"} for field in raw["fields"]]}


class _Reader:
    """Read the fields of a definition; `structs`: structures with a name, in the order of their ends."""

    def __init__(self, common: Mapping[str, dict[str, Any]]) -> None:
        self.structs: dict[str, Field] = {}
        self._common = common

    def fields(self, raw: list[dict[str, Any]]) -> Iterator[Field]:
        for field in raw:
            yield self._field(field)

    def _field(self, raw: dict[str, Any]) -> Field:
        kind = str(raw["type"])
        tagged = raw.get("taggedVersions")
        attributes: dict[str, Any] = {
            "versions": raw.get("versions") or tagged or "0+",
            "nullable": raw.get("nullableVersions", "none"),
            "tag": int(raw["tag"]) if "tag" in raw else None,
            "tagged": tagged,
            "flexible": raw.get("flexibleVersions", "0+"),
        }
        name = snake_case(raw["name"])
        if kind.startswith("[]"):
            return array(name, self._type(kind[2:], raw), **attributes)
        if _is_scalar(kind):
            return word(kind)(name, default=_default(kind, raw.get("default")), **attributes)
        return struct(*self._type(kind, raw).fields, name=name, **attributes)

    def _type(self, kind: str, raw: dict[str, Any]) -> Field:
        if _is_scalar(kind):
            return word(kind)()
        if kind not in self.structs or "fields" in raw:
            own = raw if "fields" in raw else self._common[kind]
            self.structs[kind] = struct(*self.fields(own["fields"]))
        return self.structs[kind]


def _is_scalar(kind: str) -> bool:
    return kind in FIXED or kind in ("string", "bytes", "records")


def word(kind: str) -> Callable[..., Field]:
    """Return the function of kshark.schema that makes a field of a scalar type."""
    made: Callable[..., Field] = getattr(schema, WORDS.get(kind, kind))
    return made


def _default(kind: str, default: Any) -> float | bool | None:
    """Return the default of a number or bool; None if it is the type's zero, and for other types."""
    text = str(default).lower()
    if default is None or text == "null" or kind in ("string", "bytes", "records", "uuid"):
        return None
    if kind == "bool":
        return True if text == "true" else None
    number = float(text) if kind == "float64" else int(text, 0)
    return number or None
