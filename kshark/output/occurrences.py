"""Where a field occurs: APIs and versions, requests or responses, structures inside bytes: `kshark explain FIELD`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kshark.codec.paths import Names, paths_of_versions
from kshark.conditions.fields import COMMON, PREFIX
from kshark.output.layouts import notes_of, type_of
from kshark.output.spans import API, DIM, LABEL, PLAIN, VALUE, Line
from kshark.output.units import counted
from kshark.registry import Registry
from kshark.schema import Field, Layout, Versions


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A field of one layout, in these versions of it; `where`: request, response or inside bytes."""

    owner: str
    where: str
    names: Names
    field: Field
    versions: Versions
    #: All versions that the layout has.
    of: Versions


def occurrences(name: str, registry: Registry) -> list[Occurrence]:
    """Every field whose path ends with this name; case and underscores do not matter: `ShareSessionEpoch`."""
    wanted = tuple(_plain(part) for part in name.removeprefix(PREFIX).split("."))
    found = []
    for owner, where, layout in _layouts(registry):
        for path, versions in paths_of_versions(layout.root, layout.versions):
            if tuple(map(_plain, path.names[-len(wanted) :])) == wanted:
                found.append(Occurrence(owner, where, path.names, path.field, versions, layout.versions))
    return found


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


def field_lines(name: str, found: list[Occurrence]) -> Iterator[Line]:
    """The occurrences as a table, and how to ask for them."""
    yield [(found[0].names[-1], API), (f"  in {counted(len({each.owner for each in found}), 'structure')}", PLAIN)]
    rows = [
        (each.owner, each.where, str(each.versions), ".".join(each.names), type_of(each.field), _notes(each))
        for each in found
    ]
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(5)]
    for owner, where, versions, path, kind, about in rows:
        line: Line = [
            ("  " + owner.ljust(widths[0]), LABEL),
            (where.ljust(widths[1]), DIM),
            (versions.ljust(widths[2]), PLAIN),
        ]
        yield [*line, (path.ljust(widths[3]), PLAIN), (kind.ljust(widths[4]) if about else kind, VALUE), (about, DIM)]
    if any(each.where != "inside bytes" for each in found):
        end = found[0].names[-(name.removeprefix(PREFIX).count(".") + 1) :]
        yield [(f"{PREFIX}{'.'.join(end)} names them for -e and -Y", DIM)]


def _notes(each: Occurrence) -> str:
    return " · ".join(note for note in notes_of(each.field, each.of) if not note.startswith("version"))


def common_lines(name: str) -> Iterator[Line]:
    """One of the common fields."""
    yield [(name, API), (f"  {COMMON[name].about}", PLAIN)]
