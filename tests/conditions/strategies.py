"""Conditions as hypothesis draws them, over a schema: every kind of term and condition that fits its fields."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from hypothesis import strategies as st

from kshark.conditions import ALWAYS, ELEMENT, NEVER, Condition, F, Term, any_of, by_version, size
from kshark.conditions.comparisons import Compare
from kshark.conditions.terms import KINDS, Const, term
from kshark.schema import Field

_COMPARISONS = st.sampled_from(["<", "<=", "==", "!=", ">=", ">"])
_PATTERNS = st.sampled_from(["^a", "[0-9]+", "x|y", "", "É", "(ab)*c"])
_CONSTANTS: dict[str, st.SearchStrategy[Any]] = {
    "number": st.one_of(st.integers(-3, 3), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 63, 255, 65_535])),
    "text": st.one_of(st.text(max_size=2), st.sampled_from(["é", "'", "\\", "x" * 126])),
    "bytes": st.binary(max_size=2),
    "truth": st.booleans(),
    "fraction": st.sampled_from([0.0, -1.5, 1e300]),
}


def conditions(struct: Field, depth: int = 3) -> st.SearchStrategy[Condition]:
    """Conditions that `check` takes for that schema."""
    arrays = {name: field.element for name, field in _fields(struct) if field.element is not None}
    leaves = [st.sampled_from([ALWAYS, NEVER]), _of_values(dict(_values(struct)), list(arrays))]
    names = [name for name, _ in _fields(struct)]
    if names:
        leaves.append(st.sampled_from(names).map(lambda name: F(name).present()))
    for name, element in arrays.items() if depth else ():
        leaves.append(conditions(element, depth - 1).map(partial(any_of, F(name))))
    return st.recursive(st.one_of(leaves), _joined, max_leaves=4)


def _joined(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    return st.one_of(
        st.builds(lambda a, b: a & b, parts, parts),
        st.builds(lambda a, b: a | b, parts, parts),
        parts.map(lambda a: ~a),
        st.builds(lambda a, b: by_version({"0-1": a, "3+": b}), parts, parts),
    )


def _fields(struct: Field, above: str = "") -> Iterator[tuple[str, Field]]:
    """Fields of a struct, and those of structs in it."""
    for field in struct.fields:
        yield above + field.name, field
        if field.type == "struct":
            yield from _fields(field, f"{above}{field.name}.")


def _values(struct: Field) -> Iterator[tuple[str, str]]:
    """Names of plain values and their kinds; of an array's plain element the empty name."""
    if struct.type in KINDS:
        yield "", KINDS[struct.type]
    for name, field in _fields(struct):
        if field.type in KINDS:
            yield name, KINDS[field.type]


@st.composite
def _of_values(draw: st.DrawFn, kinds: dict[str, str], arrays: list[str]) -> Condition:
    """What is said of one value, or of two."""
    kind = draw(st.sampled_from(sorted({*kinds.values(), "number"})))
    named = st.sampled_from(
        [ELEMENT if name == "" else F(name) for name, each in kinds.items() if each == kind] or [term(0)]
    )
    one: st.SearchStrategy[Term] = named
    if kind == "number":
        sizes = st.sampled_from([size(name) for name in arrays] or [term(1)])
        one = st.one_of(
            named,
            named,
            sizes,
            st.builds(lambda a, b: a + b, named, sizes),
            st.builds(lambda a, b: a - b - 1, named, named),
        )
    constants = _CONSTANTS[kind]
    left = draw(one)
    match draw(st.integers(0, 3)):
        case 0 if kind in ("text", "bytes"):
            return left.contains(draw(constants))
        case 1 if kind == "text":
            return left.matches(draw(_PATTERNS))
        case 1 if kind == "bytes":
            return left.matches(draw(st.sampled_from([b"^a", b"\\x00", b"[\x80-\xff]"])))
        case 2:
            return left.one_of(*draw(st.lists(constants, max_size=3)))
    right, operator = draw(st.one_of(one, constants.map(term))), draw(_COMPARISONS)
    if kind == "bytes" and not isinstance(right, Const) and operator not in ("==", "!="):
        right = term(draw(constants))  # bytes of two fields have no order
    return Compare(operator, left, right)
