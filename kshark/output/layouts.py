"""An API's fields for a person: indented as they are nested, each with its type, versions, default and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kshark.output.spans import API, DIM, LABEL, PLAIN, VALUE, Line
from kshark.schema import NEVER, OPEN, Api, Field, Versions

#: Enumerations with more members are named, not listed.
_FEW_MEMBERS = 8


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    type: str
    notes: str


def api_lines(api: Api) -> Iterator[Line]:
    """The head of an API, then request and response."""
    line: Line = [(api.name, API), (f"  API {api.key} · versions {api.versions}", PLAIN)]
    if api.flexible != NEVER:
        line.append((f" · flexible {_within(api.flexible, api.versions) or 'all'}", PLAIN))
    if api.kip:
        line.append((f" · {api.kip}", PLAIN))
    yield line
    if api.about:
        yield [(api.about, PLAIN)]
    for title, layout in (("request", api.request), ("response", api.response)):
        yield []
        header = api.request_header_version if title == "request" else api.response_header_version
        versions = range(api.versions.low, api.versions.high + 1)
        yield [(title, API), (f"  header version {_headers([header(version) for version in versions])}", DIM)]
        rows = list(_rows(layout.root, api.versions, 1))
        if not rows:
            yield [("  no fields", DIM)]
        yield from _columns(rows)
        for version in layout.older:
            yield [(f"  version {version} once had another layout; the length decides which it is", DIM)]


def _headers(versions: list[int]) -> str:
    low, high = versions[0], versions[-1]
    return str(low) if low == high else f"{low}, in flexible versions {high}"


def _columns(rows: list[_Row]) -> Iterator[Line]:
    name = max((len(row.name) for row in rows), default=0)
    kind = max((len(row.type) for row in rows), default=0)
    for row in rows:
        line: Line = [(row.name.ljust(name) + "  ", LABEL), (row.type.ljust(kind if row.notes else 0), VALUE)]
        yield [*line, ("  " + row.notes, DIM)] if row.notes else line


def _rows(struct: Field, around: Versions, depth: int) -> Iterator[_Row]:
    for field in struct.fields:
        inner = field.element or field
        yield _Row("  " * depth + field.name, _type(field), " · ".join(_notes(field, around)))
        yield from _rows(inner, _narrower(field.versions, around), depth + 1)


def _type(field: Field) -> str:
    nullable = "?" if field.nullable != NEVER else ""
    if field.element is not None:
        return f"[{_type(field.element)}]{nullable}"
    return field.type + nullable


def _notes(field: Field, around: Versions) -> Iterator[str]:
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
    if field.about:
        yield field.about
    if inner.enum is not None:
        members = list(inner.enum)
        short = len(members) <= _FEW_MEMBERS
        yield ", ".join(f"{member.value} {member.name}" for member in members) if short else inner.enum.__name__


def _narrower(inner: Versions, outer: Versions) -> Versions:
    return Versions(max(inner.low, outer.low), min(inner.high, outer.high))


def _within(inner: Versions, outer: Versions) -> str:
    """How much of the versions around it; empty for all of them. `2+` where it goes on to the last one."""
    low, high = max(inner.low, outer.low), min(inner.high, outer.high)
    if (low, high) == (outer.low, outer.high):
        return ""
    return str(Versions(low, OPEN if high == outer.high and low != high else high))
