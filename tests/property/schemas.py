"""Schemas as hypothesis draws them: every type, versions, nulls, tags, structs and arrays inside each other, flexible
or not."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from kshark.codec.shapes import UNKNOWN_TAGS, Shape, Slot
from kshark.errors import SchemaError
from kshark.schema import FIXED, Field, Layout, array, layout, struct
from kshark.schema import _scalar as scalar

VERSIONS = range(4)
DEPTH = 3

_RANGES = st.sampled_from(["0+", "0+", "0+", "0+", "0+", "1+", "0-1", "1-2", "3", "none"])
_SCALARS = st.sampled_from([*FIXED, "string", "string", "bytes", "records", "varint", "varlong"])
_TAGS = st.sampled_from([0, 1, 2, 3, 7, 127, 128, 300, 70_000])


@st.composite
def _attributes(draw: st.DrawFn, type: str, flexible: str, tags: set[int]) -> dict[str, Any]:
    attributes: dict[str, Any] = {"versions": draw(_RANGES)}
    if type not in FIXED and type not in ("varint", "varlong"):
        attributes["nullable"] = draw(_RANGES) if draw(st.booleans()) else "none"
    if flexible != "none" and draw(st.integers(0, 3)) == 0:
        tag = draw(_TAGS)
        if tag not in tags:
            tags.add(tag)
            attributes |= {"tag": tag, "tagged": flexible}
    return attributes


@st.composite
def _element(draw: st.DrawFn, flexible: str, depth: int) -> Field:
    if depth < DEPTH and draw(st.integers(0, 2)) == 0:
        return draw(_struct("", flexible, depth + 1))
    type = draw(_SCALARS)
    nullable = "0+" if type not in FIXED and not type.startswith("var") and draw(st.integers(0, 3)) == 0 else "none"
    return scalar(type)(nullable=nullable)


@st.composite
def _field(draw: st.DrawFn, name: str, flexible: str, depth: int, tags: set[int]) -> Field:
    kind = draw(st.integers(0, 9))
    if kind < 2 and depth < DEPTH:
        return draw(_struct(name, flexible, depth + 1, tags))
    if kind < 5:
        return array(name, draw(_element(flexible, depth)), **draw(_attributes("array", flexible, tags)))
    type = draw(_SCALARS)
    narrowed = {"flexible": "none"} if draw(st.integers(0, 9)) == 0 else {}
    return scalar(type)(name, **draw(_attributes(type, flexible, tags)), **narrowed)


@st.composite
def _struct(draw: st.DrawFn, name: str, flexible: str, depth: int, owners_tags: set[int] | None = None) -> Field:
    attributes = draw(_attributes("struct", flexible, owners_tags)) if owners_tags is not None else {}
    tags: set[int] = set()
    count = draw(st.integers(3 if depth == 1 else 0, 6))
    fields = [draw(_field(f"f{index}", flexible, depth, tags)) for index in range(count)]
    return struct(*fields, name=name, **attributes)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """A layout of versions 0 to 3 that the vocabulary accepts."""
    flexible = draw(st.sampled_from(["none", "0+", "0+", "1+", "2+"]))
    fields = draw(_struct("", flexible, 1))
    try:
        return layout("Random", versions="0-3", flexible=flexible, fields=fields)
    except SchemaError as error:  # the one thing that these strategies may get wrong
        assume("elements take no byte" not in str(error))
        raise


_INTEGERS = {
    name: (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) for name, (_, size) in FIXED.items() if name.startswith("int")
}
_INTEGERS |= {
    "uint16": (0, 0xFFFF),
    "uint32": (0, 0xFFFFFFFF),
    "varint": (-(1 << 31), (1 << 31) - 1),
    "varlong": (-(1 << 63), (1 << 63) - 1),
}
_TEXT = st.one_of(st.text(max_size=8), st.sampled_from(["x" * 126, "y" * 127, "é" * 100]))
_BYTES = st.one_of(st.binary(max_size=8), st.sampled_from([bytes(126), bytes(127), bytes(16_383), bytes(16_384)]))
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_UUIDS = st.builds(str.__add__, st.text(_BASE64, min_size=21, max_size=21), st.sampled_from("AQgw"))


def values(shape: Shape, longest: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    """Plain values of a shape: every slot, some of the tagged fields, now and then tags nobody knows."""
    strategies = {slot.name: _value(slot, longest) for slot in shape.slots}
    if not shape.flexible:
        return st.fixed_dictionaries(strategies)
    optional: dict[str, Any] = {slot.name: _value(slot, longest) for slot in shape.tags.values()}
    free = [str(tag) for tag in (4, 5, 127, 128, 99_999) if tag not in shape.tags and tag not in shape.foreign]
    optional[UNKNOWN_TAGS] = st.dictionaries(st.sampled_from(free), st.binary(max_size=3), min_size=1, max_size=2)
    return st.fixed_dictionaries(strategies, optional=optional)


def _value(slot: Slot, longest: int) -> st.SearchStrategy[Any]:
    strategy: st.SearchStrategy[Any]
    if slot.type in _INTEGERS:
        low, high = _INTEGERS[slot.type]
        strategy = st.integers(low, high)
    elif slot.shape is not None:
        strategy = values(slot.shape, longest)
    elif slot.element is not None:
        strategy = st.lists(_value(slot.element, longest), max_size=longest)
    else:
        scalars = {"bool": st.booleans(), "float64": st.floats(allow_nan=False), "uuid": _UUIDS, "string": _TEXT}
        strategy = scalars.get(slot.type, _BYTES)
    return st.none() | strategy if slot.nullable else strategy


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes after a few accidents: overwritten, cut out, put in, doubled, cut short."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(out)))
        size = draw(st.integers(1, 4))
        match draw(st.integers(0, 4)):
            case 0:
                out[at : at + size] = draw(st.binary(min_size=size, max_size=size))
            case 1:
                del out[at : at + size]
            case 2:
                out[at:at] = draw(
                    st.sampled_from([b"\0", b"\1", b"\2", b"\x7f", b"\x80", b"\xff", b"\xff" * 4, b"\xff\xff\xff\xfe"])
                )
            case 3:
                out[at:at] = out[at : at + size]
            case _:
                del out[at:]
    return bytes(out)
