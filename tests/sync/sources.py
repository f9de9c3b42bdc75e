"""A folder of definitions as Kafka's sources have it, written by a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MESSAGES = "clients/src/main/resources/common/message"
RECORDS = "metadata/src/main/resources/common/metadata"


def message(
    name: str, *fields: dict[str, Any], versions: str = "0", flexible: str = "0+", **more: Any
) -> dict[str, Any]:
    """A definition; its kind follows from the name, unless told."""
    kind = next((kind for kind in ("request", "response") if name.lower().endswith(kind)), "data")
    return {
        "type": kind,
        "name": name,
        "validVersions": versions,
        "flexibleVersions": flexible,
        "fields": list(fields),
        **more,
    }


def field(name: str, type: str, versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "versions": versions, **more}


def write(folder: Path, *definitions: dict[str, Any], where: str = MESSAGES) -> Path:
    """The folder, with these definitions below it, each behind a comment."""
    there = folder / where
    there.mkdir(parents=True, exist_ok=True)
    for definition in definitions:
        text = "// Licensed to nobody\n" + json.dumps(definition, indent=2).replace(
            '"fields"', '// what it holds\n  "fields"', 1
        )
        (there / f"{definition['name']}.json").write_text(text)
    return folder
