"""Random plain values of a layout's version, quick to make: lengths and numbers at the edges of what their types
hold."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from kshark.codec.shapes import UNKNOWN_TAGS, Shape, Slot
from kshark.schema import FIXED

_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_BITS: Final = {name: 8 * size for name, (_, size) in FIXED.items() if "int" in name} | {"varint": 32, "varlong": 64}
_TEXTS: Final = ("", "a", "topic-1", "é", "x" * 126, "y" * 127, "\0\x1b[2J", "consumer")
_SIZES: Final = (0, 0, 1, 1, 2, 3, 5, 17)


def value_of(shape: Shape, random: Random) -> dict[str, Any]:
    """Every slot; now and then tagged fields, known ones and others."""
    made = {slot.name: _value(slot, random) for slot in shape.slots}
    for slot in shape.tags.values():
        if random.random() < 0.4:
            made[slot.name] = _value(slot, random)
    if shape.flexible and random.random() < 0.1:
        free = [str(tag) for tag in (4, 5, 127, 128, 99_999) if tag not in shape.tags]
        made[UNKNOWN_TAGS] = {tag: random.randbytes(random.choice(_SIZES)) for tag in random.sample(free, 2)}
    return made


def _value(slot: Slot, random: Random) -> Any:
    if slot.nullable and random.random() < 0.2:
        return None
    if slot.type in _BITS:
        return _number(_BITS[slot.type], slot.type.startswith("uint"), random)
    if slot.shape is not None:
        return value_of(slot.shape, random)
    if slot.element is not None:
        return [_value(slot.element, random) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    match slot.type:
        case "bool":
            return random.random() < 0.5
        case "float64":
            return random.choice((0.0, -1.5, 1e300, random.random()))
        case "uuid":
            return "".join(random.choices(_BASE64, k=21)) + random.choice("AQgw")
        case "string":
            return random.choice(_TEXTS)
    return random.randbytes(random.choice(_SIZES))


def _number(bits: int, unsigned: bool, random: Random) -> int:
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return random.choice((0, 1, 2, 3, low, high, random.randint(low, high), min(100, high)))
