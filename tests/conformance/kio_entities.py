"""kio's messages: found, filled at random, and as our plain values. kio is another project's code, generated from
Kafka's definitions."""

from __future__ import annotations

import dataclasses
import datetime
import random
import types
import typing
import uuid
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final

from kio.schema.errors import ErrorCode

from kshark.codec.primitives import uuid_text
from kshark.schema import Field, versions_of
from kshark_dissectors.index import INDEX
from tests.dissectors.test_kio import kio_class

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND: Final = datetime.timedelta(milliseconds=1)
TEXTS: Final = ("", "orders", "ä€😀", "x" * 126, "x" * 127, "x" * 128, "x" * 16_383)
SIZES: Final = (0, 1, 5, 126, 127, 128, 16_383)
#: Kinds of numbers by their bits. kio reads times through floats: those of the next centuries are exact.
BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32}
LAST_MS: Final = 86_400_000 * 365 * 200
#: An ApiVersions answer that begins with it is laid out in version 0 (KIP-511), whatever its version.
OTHER_LAYOUT: Final = ErrorCode.unsupported_version


def kio_classes(key: int) -> Iterator[tuple[int, str, Any]]:
    """Version, direction and class of every body of an API that kio knows."""
    versions = versions_of(INDEX[key][2])
    for version in range(versions.low, versions.high + 1):
        for direction in ("request", "response"):
            found = kio_class(key, version, direction)
            if found is not None:
                yield version, direction, found


def entity(cls: Any, dice: random.Random) -> Any:
    """An entity with random values; every second tagged field is left at its default."""
    values = {
        name: value(hint, kind, nullable, dice)
        for name, hint, kind, nullable, tagged in _fields(cls)
        if not (tagged and dice.random() < 0.5)
    }
    return cls(**values)


_known: dict[Any, list[tuple[str, Any, str | None, bool, bool]]] = {}


def _fields(cls: Any) -> list[tuple[str, Any, str | None, bool, bool]]:
    """Name, type, kind, whether null may be, and whether it has a tag whose absence means something."""
    if cls not in _known:
        hints = typing.get_type_hints(cls)
        _known[cls] = [
            (
                f.name,
                *_bare(hints[f.name], f.metadata.get("kafka_type")),
                "tag" in f.metadata and f.default is not dataclasses.MISSING,
            )
            for f in dataclasses.fields(cls)
        ]
    return _known[cls]


def _bare(hint: Any, kind: str | None) -> tuple[Any, str | None, bool]:
    if isinstance(hint, types.UnionType):
        (hint,) = (each for each in typing.get_args(hint) if each is not types.NoneType)
        return hint, kind, True
    return hint, kind, False


def value(hint: Any, kind: str | None, nullable: bool, dice: random.Random) -> Any:
    if nullable and dice.random() < 0.25:
        return None
    if typing.get_origin(hint) is tuple:
        inner, kind, nulls = _bare(typing.get_args(hint)[0], kind)
        return tuple(value(inner, kind, nulls, dice) for _ in range(dice.choice((0, 1, 1, 2, 3))))
    return entity(hint, dice) if dataclasses.is_dataclass(hint) else maker_of(kind)(dice)


def maker_of(kind: str | None) -> Callable[[random.Random], Any]:  # noqa: C901  # one kind of field a case
    match kind:
        case "bool":
            return lambda dice: dice.random() < 0.5
        case "string":
            return lambda dice: dice.choice(TEXTS)
        case "bytes" | "records":
            return lambda dice: dice.randbytes(dice.choice(SIZES))
        case "uuid":
            return lambda dice: uuid.UUID(bytes=dice.randbytes(16))
        case "error_code":
            return lambda dice: dice.choice([code for code in ErrorCode if code is not OTHER_LAYOUT])
        case "float64":
            return lambda dice: dice.choice((0.0, -1.5, dice.random() * 1e300))
        case "uint16":
            return lambda dice: dice.choice((0, 65_535, dice.randrange(65_536)))
        case "datetime_i64":
            return lambda dice: EPOCH + dice.randrange(LAST_MS) * MILLISECOND
        case "timedelta_i64":
            return lambda dice: dice.randrange(-LAST_MS, LAST_MS) * MILLISECOND
        case "timedelta_i32":
            return lambda dice: number(32, dice) * MILLISECOND
        case _:
            assert kind is not None
            return lambda dice: number(BITS[kind], dice)


def number(bits: int, dice: random.Random) -> int:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return dice.choice((low, high, -1, 0, 1, dice.randint(low, high), dice.randint(low, high)))


def ours(value: Any, f: Field, version: int) -> Any:
    """A value of kio's as our plain value; kio's fields stand in the order of the definition, as ours do."""
    if isinstance(value, tuple):
        assert f.element is not None
        return [ours(item, f.element, version) for item in value]
    if dataclasses.is_dataclass(value):
        inside = [inner for inner in f.fields if version in inner.versions]
        pairs = zip(inside, dataclasses.fields(value), strict=True)
        return {
            inner.name: ours(getattr(value, name.name), inner, version)
            for inner, name in pairs
            if not _unsent(value, name)
        }
    match value:
        case None:
            return {"uuid": uuid_text(bytes(16)), "int64": -1}.get(f.type)
        case Enum():
            return value.value
        case uuid.UUID():
            return uuid_text(value.bytes)
        case datetime.timedelta():
            return value // MILLISECOND
        case datetime.datetime():
            return (value - EPOCH) // MILLISECOND
        case _:
            return value


def _unsent(value: Any, name: dataclasses.Field[Any]) -> bool:
    """Whether a tagged field is at its default, so that kio does not write it; a struct without one: all its fields
    zero."""
    if "tag" not in name.metadata:
        return False
    found = getattr(value, name.name)
    return found == name.default if name.default is not dataclasses.MISSING else not any(dataclasses.astuple(found))
