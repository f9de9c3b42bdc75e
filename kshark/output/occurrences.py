"""Occurrences of a field in APIs and versions, requests or responses, structures in bytes: `kshark explain FIELD`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kshark.codec.paths import Names, paths_of_versions
from kshark.conditions.fields import COMMON, PREFIX
from kshark.output.field_meanings import meaning_of
from kshark.output.layouts import notes_of, type_of
from kshark.output.spans import API, DIM, LABEL, PLAIN, VALUE, Line, folded
from kshark.registry import Registry
from kshark.schema import Field, Layout, Versions
from kshark.units import counted

#: Columns before the rest of a line that is wider than the terminal.
_INDENT: Final = 6


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A field of one layout, and its versions; `where`: request, response or inside bytes; `layout`: its name."""

    owner: str
    where: str
    layout: str
    names: Names
    field: Field
    versions: Versions
    #: All versions of the layout.
    of: Versions


def occurrences(name: str, registry: Registry) -> list[Occurrence]:
    """Return every field whose path ends with this name.

    Ignores case and underscores: `ShareSessionEpoch`.
    """
    wanted = tuple(_plain(part) for part in name.removeprefix(PREFIX).split("."))
    matching = []
    for owner, where, layout in _layouts(registry):
        for path, versions in paths_of_versions(layout.root, layout.versions):
            if tuple(map(_plain, path.names[-len(wanted) :])) == wanted:
                matching.append(
                    Occurrence(owner, where, layout.name, path.names, path.field, versions, layout.versions)
                )
    return matching


def _plain(part: str) -> str:
    return part.replace("_", "").lower()


def _layouts(registry: Registry) -> Iterator[tuple[str, str, Layout]]:
    for key in registry.names():
        api = registry.api(key)
        if api is not None:
            yield api.name, "request", api.request
            yield api.name, "response", api.response
    for name, layout in registry.structures().items():
        yield name, "inside bytes", layout


def field_lines(name: str, occurrences: list[Occurrence], width: int | None = None) -> Iterator[Line]:
    """Return the occurrences as a table, and the name for `-e` and `-Y`."""
    yield [
        (occurrences[0].names[-1], API),
        (f"  in {counted(len({occurrence.owner for occurrence in occurrences}), 'structure')}", PLAIN),
    ]
    rows = [
        (
            occurrence.owner,
            occurrence.where,
            str(occurrence.versions),
            ".".join(occurrence.names),
            type_of(occurrence.field),
            _notes(occurrence),
        )
        for occurrence in occurrences
    ]
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(5)]
    for owner, where, versions, path, kind, about in rows:
        line: Line = [
            ("  " + owner.ljust(widths[0]), LABEL),
            (where.ljust(widths[1]), DIM),
            (versions.ljust(widths[2]), PLAIN),
        ]
        line += [(path.ljust(widths[3]), PLAIN), (kind.ljust(widths[4]) if about else kind, VALUE), (about, DIM)]
        yield from folded(line, width, _INDENT)
    if any(occurrence.where != "inside bytes" for occurrence in occurrences):
        end = occurrences[0].names[-(name.removeprefix(PREFIX).count(".") + 1) :]
        yield [(f"{PREFIX}{'.'.join(end)} is the name for -e and -Y", DIM)]


def _notes(occurrence: Occurrence) -> str:
    meaning = meaning_of(occurrence.layout, occurrence.names, occurrence.field)
    notes = notes_of(occurrence.field, occurrence.of, meaning)
    return " · ".join(note for note in notes if note == meaning or not note.startswith("version"))


def common_lines(name: str) -> Iterator[Line]:
    """Return the description of a common field."""
    yield [(name, API), (f"  {COMMON[name].about}", PLAIN)]
