"""Two layouts of one message, field by field: what only the definitions have, what only we have, and what differs."""

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
    """`sign`: + new in the definitions, - gone from them, ~ different; `path` of the field, "" for the message
    itself."""

    message: str
    path: str
    sign: Sign
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.path or self.message}: {self.text}"


def differences(ours: Layout, theirs: Layout, renames: Renames | None = None) -> list[Difference]:
    """What differs in versions that both know, and in those that only the definitions know. Versions that only we know,
    because a release dropped them or they are newer than these definitions, are no difference: somebody may speak them.
    """
    found = list(_versions(ours, theirs))
    within = Versions(max(ours.versions.low, theirs.versions.low), theirs.versions.high)
    if within.low <= within.high:
        found += _Walk(ours.name, ours.flexible & within, theirs.flexible & within, renames or {}).structs(
            "", ours.root, theirs.root, within
        )
    return found


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
    """What decides about a field's bytes, and about the meaning of an absent one, in the compared versions."""

    type: str
    versions: str
    nullable: str
    tag: str
    default: Any

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" if name != "type" else str(value) for name, value in self.told())

    def told(self) -> Iterator[tuple[str, Any]]:
        """What is worth reporting."""
        yield "type", self.type
        yield "versions", self.versions
        for name, value in (("nullable", self.nullable), ("tag", self.tag), ("default", self.default)):
            if value not in ("none", 0, False, None):
                yield name, value


@dataclass(frozen=True, slots=True)
class _Walk:
    """Both sides of one message, struct by struct."""

    message: str
    our_flexible: Versions
    their_flexible: Versions
    renames: Renames

    def structs(self, path: str, ours: Field, theirs: Field, within: Versions) -> Iterator[Difference]:
        """Differences of two structs, in the versions that the structs around them have."""
        mine = {field.name: field for field in ours.fields if _there(field, within)}
        others = {field.name: field for field in theirs.fields if _there(field, within)}
        for name, field in mine.items():
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
        mine, other = self._facts(ours, within), self._facts(theirs, within)
        if mine != other:
            yield Difference(self.message, path, "~", f"{other}; here {mine}")
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
    """Versions as Kafka writes them; up to the last one compared is open."""
    if versions.low > versions.high:
        return "none"
    return str(Versions(versions.low, OPEN if versions.high == within.high else versions.high))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _disorder(ours: Field, theirs: Field, within: Versions) -> int | None:
    """The first version in which both have equally many untagged fields, but types in another order."""
    for version in range(within.low, within.high + 1):
        mine = [(field.name, field.type) for field in ours.in_wire_order(version)]
        others = [(field.name, field.type) for field in theirs.in_wire_order(version)]
        if len(mine) == len(others) and mine != others and sorted(mine) == sorted(others):
            return version
    return None
