"""An API's fields as text or objects: each with type, versions, default and meaning; text is indented by nesting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kshark.codec.paths import Names
from kshark.output.field_meanings import meaning_of
from kshark.output.spans import API, DIM, LABEL, PLAIN, VALUE, Line, folded, hanging
from kshark.places import Foreign, Log, OpaqueField, Structure, Whole
from kshark.registry import Registry
from kshark.schema import NEVER, OPEN, Api, EnumClass, Field, Layout, Versions

#: Larger enumerations are shown only by name.
_FEW_MEMBERS = 8
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    type: str
    notes: str


def api_lines(api: Api, registry: Registry | None = None, width: int | None = None) -> Iterator[Line]:
    """Return the API's head, its request and its response; `registry` knows the content of bytes fields.

    `width`: columns of the terminal; None: no limit.
    """
    line: Line = [(api.name, API), (f"  API {api.key} · versions {api.versions}", PLAIN)]
    if api.flexible != NEVER:
        line.append((f" · flexible {_within(api.flexible, api.versions) or 'all'}", PLAIN))
    if api.kip:
        line.append((f" · {api.kip}", PLAIN))
    yield line
    if about := api.about if registry is None else registry.about(api.key):
        yield from folded([(about, PLAIN)], _WIDTH)
    for title, layout in (("request", api.request), ("response", api.response)):
        yield []
        header = api.request_header_version if title == "request" else api.response_header_version
        versions = range(api.versions.low, api.versions.high + 1)
        yield [(title, API), (f"  header version {_headers([header(version) for version in versions])}", DIM)]
        places = registry.places(api.key, title) if registry is not None else ()
        yield from _table(layout, {place.way: _held(place) for place in places}, width)
        for version in layout.older:
            yield [(f"  version {version} had another layout earlier; the length shows which one it is", DIM)]


def _headers(versions: list[int]) -> str:
    low, high = versions[0], versions[-1]
    return str(low) if low == high else f"{low}, in flexible versions {high}"


def _table(layout: Layout, held: Mapping[Names, str], width: int | None) -> Iterator[Line]:
    """Return a line for each field; `held`: short texts about the content of bytes fields."""
    rows = [
        _Row(
            "  " * len(names) + field.name,
            type_of(field),
            " · ".join(
                [*notes_of(field, around, meaning_of(layout.name, names, field)), *filter(None, [held.get(names)])]
            ),
        )
        for names, field, around in _fields(layout.root, layout.versions, ())
    ]
    if not rows:
        yield [("  no fields", DIM)]
        return
    name = max(len(row.name) for row in rows)
    kind = max(len(row.type) for row in rows)
    for row in rows:
        line: Line = [(row.name.ljust(name) + "  ", LABEL), (row.type.ljust(kind if row.notes else 0), VALUE)]
        if row.notes:
            line.append(("  " + row.notes, DIM))
        yield from hanging(line, width, name + kind + 4)


def _fields(struct: Field, around: Versions, above: Names) -> Iterator[tuple[Names, Field, Versions]]:
    """Yield the path of every field, the field, and the versions of the struct that contains it."""
    for field in struct.fields:
        names = (*above, field.name)
        yield names, field, around
        yield from _fields(field.element or field, _narrower(field.versions, around), names)


def field_objects(layout: Layout) -> list[dict[str, Any]]:
    """Return the fields of a layout as objects, in wire order; versions in which it never occurs are left out."""
    return [
        {
            "field": ".".join(names),
            "type": type_of(field),
            "versions": str(_narrower(field.versions, around)),
            "nullable": None if field.nullable == NEVER else str(_narrower(field.nullable, field.versions & around)),
            "tag": field.tag,
            "default": field.default,
            "meaning": meaning_of(layout.name, names, field) or None,
            "values": None if inner.enum is None else inner.enum.__name__,
        }
        for names, field, around in _fields(layout.root, layout.versions, ())
        for inner in [field.element or field]
    ]


def _held(place: OpaqueField) -> str:
    """Return a short text about the content of a bytes or records field."""
    names = []
    for holding in place.holds.values():
        match holding:
            case Structure(layout):
                names.append(layout.name)
            case Whole(kind):
                names.append(f"a whole {kind}")
            case Foreign(format):
                names.append(format.upper())
            case Log():
                return "opened in Kafka's own topics"
    return "holds " + ", ".join(names)


def structure_lines(layout: Layout, width: int | None = None) -> Iterator[Line]:
    """Return a structure that occurs inside bytes."""
    yield [(layout.name, API), (f"  inside bytes · versions {layout.versions}", PLAIN)]
    yield from _table(layout, {}, width)
    for version in layout.older:
        yield [(f"  version {version} had another layout earlier; the length shows which one it is", DIM)]


def enum_lines(enum: EnumClass) -> Iterator[Line]:
    """Return an enumeration: Kafka's numbers with names."""
    about = (enum.__doc__ or "").partition(" Source:")[0]
    yield [(enum.__name__, API), (f"  {' '.join(about.split())}", PLAIN)]
    width = max(len(str(member.value)) for member in enum)
    for member in enum:
        yield [(f"  {member.value:>{width}}  ", VALUE), (member.name, LABEL)]


def type_of(field: Field) -> str:
    """Return `int32`, `string?` for a nullable field, `[struct]` for an array."""
    nullable = "?" if field.nullable != NEVER else ""
    if field.element is not None:
        return f"[{type_of(field.element)}]{nullable}"
    return field.type + nullable


def notes_of(field: Field, around: Versions, meaning: str) -> Iterator[str]:
    """Return further properties of a field; `around`: the versions of the struct that contains it."""
    inner = field.element or field
    if within := _within(field.versions, around):
        yield f"versions {within}" if "-" in within or "+" in within else f"version {within}"
    if field.nullable != NEVER and (within := _within(field.nullable, _narrower(field.versions, around))):
        yield f"null in {within}"
    if field.tag is not None:
        within = _within(field.tagged, _narrower(field.versions, around))
        yield f"tag {field.tag}" + (f" in {within}" if within else "")
    if field.default not in (None, 0, "", False):
        yield f"default {str(field.default).lower() if field.default is True else field.default}"
    if meaning:
        yield meaning
    if inner.enum is not None:
        members = list(inner.enum)
        short = len(members) <= _FEW_MEMBERS
        names = ", ".join(f"{member.value} {member.name}" for member in members) if short else inner.enum.__name__
        yield f"a bit for each {inner.enum.__name__}" if inner.bits else names


def _narrower(inner: Versions, outer: Versions) -> Versions:
    return Versions(max(inner.low, outer.low), min(inner.high, outer.high))


def _within(inner: Versions, outer: Versions) -> str:
    """Return the versions if they differ from the outer ones, otherwise an empty text; `2+` up to the last version."""
    low, high = max(inner.low, outer.low), min(inner.high, outer.high)
    if (low, high) == (outer.low, outer.high):
        return ""
    return str(Versions(low, OPEN if high == outer.high and low != high else high))
