"""Compare a folder of definitions with the dissectors: work for maintainers, and known differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from kshark.schema import Layout
from tools.sync.compare import Difference, differences
from tools.sync.definitions import Definition
from tools.sync.ours import Ours


@dataclass(slots=True)
class Report:
    """The result of a comparison; true if there is work to do.

    `new`: definitions without a layout; `gone`: layouts without a definition; `changed`: differences by message;
    `known`: differences that kshark_dissectors.history explains, with the reason.
    """

    new: list[Definition] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    changed: dict[str, list[Difference]] = field(default_factory=dict)
    known: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.new or self.gone or self.changed)


def compare(ours: Mapping[str, Ours], theirs: Mapping[str, Definition]) -> Report:
    """Compare messages of the same name (an old name counts), field by field."""
    comparison = _Comparison(ours, theirs)
    comparison.missing()
    for name, definition in sorted(comparison.theirs.items()):
        comparison.message(name, definition)
    return comparison.report


class _Comparison:
    def __init__(self, ours: Mapping[str, Ours], theirs: Mapping[str, Definition]) -> None:
        self.report = Report()
        self._history: Any = import_module("kshark_dissectors.history")
        self._ours = ours
        renamed = {old: new for new, old in self._history.MESSAGE_NAMES.items() if old in theirs and new not in theirs}
        self.theirs = {renamed.get(name, name): definition for name, definition in theirs.items()}
        self._know(f"{new}: was {old}" for old, new in renamed.items())
        #: True for the definitions of 3.9, which do not have messages added later.
        self._of_3_9 = not any(name in theirs for name in self._history.ADDED)

    def _know(self, lines: Iterable[str]) -> None:
        self.report.known += lines

    def missing(self) -> None:
        """Report layouts without a definition."""
        explained = self._history.ADDED if self._of_3_9 else self._history.DROPPED
        for name in sorted(set(self._ours) - set(self.theirs) - self._history.BY_HAND):
            if name in explained:
                self._know([f"{name}: {'newer than 3.9' if self._of_3_9 else 'dropped with 4.0'}"])
            else:
                self.report.gone.append(name)

    def message(self, name: str, definition: Definition) -> None:
        if name in self._history.NOT_READ:
            self._know([f"{name}: {self._history.NOT_READ[name]}"])
        elif name not in self._ours:
            self.report.new.append(definition)
        elif changes := [*self._key(name, definition), *self._fields(name, definition)]:
            self.report.changed[name] = changes

    def _key(self, name: str, definition: Definition) -> list[Difference]:
        key = self._ours[name].key
        if key is None or definition.key is None or key == definition.key:
            return []
        return [Difference(name, "", "~", f"its number is {definition.key}, here {key}")]

    def _fields(self, name: str, definition: Definition) -> list[Difference]:
        """Return differences that no old name, older layout of the same version or added field explains."""
        layout = self._ours[name].layout
        names = self._history.FIELD_NAMES.get(name, {})
        changes = differences(layout, definition.layout, names)
        if changes and any(not differences(_as_older(layout, version), definition.layout) for version in layout.older):
            self._know([f"{name}: an older layout of the same version"])
            return []
        if names and differences(layout, definition.layout) != changes:
            self._know(f"{name}.{path}: was {' or '.join(old)}" for path, old in names.items())
        joined = [
            change
            for change in changes
            if self._of_3_9 and change.sign == "-" and change.path in self._history.JOINED.get(name, ())
        ]
        self._know(f"{name}.{change.path}: joined after 3.9" for change in joined)
        return [change for change in changes if change not in joined]


def _as_older(layout: Layout, version: int) -> Layout:
    return replace(layout, root=layout.older[version])
