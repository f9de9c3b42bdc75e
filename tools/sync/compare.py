"""Compare two layouts of a message field by field: new, removed and different fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kshark.schema import FIXED, OPEN, Field, Layout, Versions

Sign = Literal["+", "-", "~"]
#: Names that fields had in earlier releases, by path.
Renames = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """A difference.

    `sign`: + new in the definitions, - removed from them, ~ different. `path`: of the field, "" for the message itself.
    """

    message: str
    path: str
    sign: Sign
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.path or self.message}: {self.text}"


def differences(ours: Layout, theirs: Layout, renames: Renames | None = None) -> list[Difference]:
    """Return the differences in versions that both have, and the versions that only the definitions have.

    Versions that only the dissectors have are no difference: a release dropped them, or they are newer than the
    definitions, and clients may still use them.
    """
    result = list(_versions(ours, theirs))
    within = Versions(max(ours.versions.low, theirs.versions.low), theirs.versions.high)
    if within.low <= within.high:
        result += _Walk(ours.name, ours.flexible & within, theirs.flexible & within, renames or {}).structs(
            "", ours.root, theirs.root, within
        )
    return result


def _versions(ours: Layout, theirs: Layout) -> Iterator[Difference]:
    if theirs.versions.high > ours.versions.high:
        yield Difference(ours.name, "", "+", f"versions {ours.versions.high + 1} to {theirs.versions.high}")
    if theirs.versions.low < ours.versions.low:
        yield Difference(ours.name, "", "+", f"versions {theirs.versions.low} to {ours.versions.low - 1}")
    both = ours.versions & theirs.versions
    if str(ours.flexible & both) != str(theirs.flexible & both):
        yield Difference(ours.name, "", "~", f"flexible versions {theirs.flexible}, here {ours.flexible}")


@dataclass(frozen=True, slots=True)
class _Facts:
    """The attributes that define a field's bytes and default in the compared versions."""

    type: str
    versions: str
    nullable: str
    tag: str
    default: Any

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" if name != "type" else str(value) for name, value in self.reported())

    def reported(self) -> Iterator[tuple[str, Any]]:
        """Yield the attributes that a report shows."""
        yield "type", self.type
        yield "versions", self.versions
        for name, value in (("nullable", self.nullable), ("tag", self.tag), ("default", self.default)):
            if value not in ("none", 0, False, None):
                yield name, value


@dataclass(frozen=True, slots=True)
class _Walk:
    """Compare both sides of a message, struct by struct."""

    message: str
    our_flexible: Versions
    their_flexible: Versions
    renames: Renames

    def structs(self, path: str, ours: Field, theirs: Field, within: Versions) -> Iterator[Difference]:
        """Yield the differences of two structs, in the versions of the enclosing structs."""
        own = {field.name: field for field in ours.fields if _there(field, within)}
        others = {field.name: field for field in theirs.fields if _there(field, within)}
        for name, field in own.items():
            old = next(
                (old for old in self.renames.get(_join(path, name), ()) if old in others and name not in others), name
            )
            other = others.pop(old, None)
            if other is None:
                yield Difference(self.message, _join(path, name), "-", str(self._facts(field, within)))
            else:
                yield from self._fields(_join(path, name), field, other, within)
        for name, field in others.items():
            yield Difference(self.message, _join(path, name), "+", str(self._facts(field, within)))
        if not others and (version := _disorder(ours, theirs, within)) is not None:
            yield Difference(self.message, path, "~", f"fields in another order in version {version}")

    def _fields(self, path: str, ours: Field, theirs: Field, within: Versions) -> Iterator[Difference]:
        own, other = self._facts(ours, within), self._facts(theirs, within)
        if own != other:
            yield Difference(self.message, path, "~", f"{other}; here {own}")
        inside = within & ours.versions & theirs.versions
        yield from self.structs(path, ours.element or ours, theirs.element or theirs, inside)

    def _facts(self, field: Field, within: Versions) -> _Facts:
        there = within & field.versions
        tagged = there & field.tagged
        zero: Any = False if field.type == "bool" else 0 if field.type in FIXED and field.type != "uuid" else None
        return _Facts(
            f"array of {field.element.type}" if field.element else field.type,
            _ranged(there, within),
            _ranged(there & field.nullable, within),
            f"{field.tag} in {_ranged(tagged, within)}" if tagged.low <= tagged.high else "none",
            zero if field.default is None else field.default,
        )


def _there(field: Field, within: Versions) -> bool:
    both = field.versions & within
    return both.low <= both.high


def _ranged(versions: Versions, within: Versions) -> str:
    """Return versions in Kafka's notation; a range up to the last compared version is open."""
    if versions.low > versions.high:
        return "none"
    return str(Versions(versions.low, OPEN if versions.high == within.high else versions.high))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _disorder(ours: Field, theirs: Field, within: Versions) -> int | None:
    """Return the first version with the same untagged fields in another order; None if there is none."""
    for version in range(within.low, within.high + 1):
        own = [(field.name, field.type) for field in ours.in_wire_order(version)]
        others = [(field.name, field.type) for field in theirs.in_wire_order(version)]
        if len(own) == len(others) and own != others and sorted(own) == sorted(others):
            return version
    return None
