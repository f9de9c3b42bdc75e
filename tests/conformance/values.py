"""Values as Kafka's own JSON converters tell them, made the plain values that our readers give."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kshark.codec.shapes import UNKNOWN_TAGS, Shape, Slot, shape_of
from kshark.schema import Layout

ZEROS: Final[dict[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "uuid": "A" * 22,
    "string": "",
    "bytes": b"",
    "records": b"",
}


@dataclass(frozen=True)
class Vector:
    """A message's bytes and its value as Kafka writes it in JSON, made ours by the shape.

    `defaults_named`: the JSON names tagged fields at their default too, which are not sent. `older`: its layout is the
    one that this version once had. `older_names`: names that fields had before, by path
    (kshark_dissectors.history.FIELD_NAMES)."""

    name: str
    layout: Layout
    version: int
    data: bytes
    json_value: dict[str, Any]
    unknown_tags: dict[str, bytes]
    defaults_named: bool = True
    older: bool = False
    older_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def value(self) -> dict[str, Any]:
        """The value with every untagged field, and those tagged ones that are sent."""
        value = self._struct(shape_of(self.layout, self.version, self.older), self.json_value, "")
        return value | ({UNKNOWN_TAGS: self.unknown_tags} if self.unknown_tags else {})

    def _struct(self, shape: Shape, found: dict[str, Any], path: str) -> dict[str, Any]:
        by_name = {folded(name): value for name, value in found.items()}
        value = {}
        for slot in (*shape.slots, *shape.tags.values()):
            own_path = f"{path}{slot.name}"
            names = [
                folded(name) for name in (slot.name, f"{slot.name}_size_in_bytes", *self.older_names.get(own_path, ()))
            ]
            told = [self._slot(slot, by_name[name], f"{own_path}.") for name in names if name in by_name]
            if slot in shape.slots:
                value[slot.name] = told[0] if told else self._default(slot)
            elif told and not (self.defaults_named and told[0] == self._default(slot)):
                value[slot.name] = told[0]
        return value

    def _slot(self, slot: Slot, found: Any, path: str) -> Any:
        if found is None:
            return None
        if slot.shape is not None:
            return self._struct(slot.shape, found, path)
        if slot.element is not None:
            return [self._slot(slot.element, item, path) for item in found]
        if slot.type == "records" and isinstance(found, int):
            return counting(found)
        if slot.type in ("bytes", "records"):
            return base64.b64decode(found)
        return float(found) if slot.type == "float64" else found

    def _default(self, slot: Slot) -> Any:
        if slot.default is not None or slot.nullable:
            return slot.default
        if slot.shape is not None:
            return self._struct(slot.shape, {}, "")
        return [] if slot.element is not None else ZEROS.get(slot.type, 0)


def folded(name: str) -> str:
    """A name without what camelCase and snake_case differ in."""
    return name.replace("_", "").lower()


def counting(size: int) -> bytes:
    """What java/Maker.java puts where records stand, whose size is all that the converters tell."""
    return bytes(index & 255 for index in range(size))
