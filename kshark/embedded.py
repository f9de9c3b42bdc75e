"""Structures inside bytes: what a body's opaque fields and its records hold, by rules that are data (kshark.places).

A structure becomes `{"name": …, "type": …, "version": …, "data": {…}}`, as Kafka's own tools print stored records: `name` is Kafka's name
of the message, `type` is there for records that have one, `version` where one is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark import limits
from kshark.codec import DECODED, Reader, compile_reader, interpret, plain
from kshark.codec.primitives import Misfit, uvarint
from kshark.otlp import read_metrics
from kshark.places import Foreign, Holding, Log, Numbers, Place, Structure
from kshark.records.batch import OpenedRecord, Record
from kshark.records.compression import CODEC_COUNT, decompress_into
from kshark.records.faults import DecompressionFailed, RoomExceeded
from kshark.schema import Layout

_INT16: Final = Struct(">h").unpack_from
#: Readers of formats that are not Kafka's: bytes to what they mean, and what is wrong with them ("" for nothing).
_FORMATS: Final[Mapping[str, Callable[[bytes], tuple[Any, str]]]] = {"otlp": read_metrics}


#: What stands around a field, from the outermost in: the request that is answered, the body, and the structs down to the field's own.
Owners = tuple[Any, ...]


class Companion(NamedTuple):
    """What a field holds, to stand beside it: `owner` is the object (or dict) that has the field, `name` the field's with `_decoded`.

    `value` is None where nothing could be read. `code` is one of the catalogue (None: a clean read), `detail` where.
    """

    owner: Any
    name: str
    value: Any
    code: str | None = None
    detail: str = ""

    def attach(self) -> None:
        """Puts the value where it belongs, as a key or an attribute of the owner."""
        if isinstance(self.owner, dict):
            self.owner[self.name] = self.value
        else:
            setattr(self.owner, self.name, self.value)


class _Opened(NamedTuple):
    value: Any
    code: str | None = None
    detail: str = ""


def companions(places: Sequence[Place], body: Any, *, request: Any = None, names: Mapping[str, str] | None = None) -> Iterator[Companion]:
    """What the fields at `places` hold in a body (of the codec, or as a dict), records included. Never raises on what bytes say.

    Records that hold something become OpenedRecords, which have room for it.
    `request`: the body of the request that this one answers. `names`: topic names by topic id.
    """
    yield from _companions(places, (body,) if request is None else (request, body), names or {})


def _companions(places: Sequence[Place], owners: Owners, names: Mapping[str, str]) -> Iterator[Companion]:
    for place in places:
        *way, field = place.path.split(".")
        for around in _walk(owners, way):
            content = _get(around[-1], field)
            if isinstance(content, bytes):
                if content:
                    opened = _open(place, content, around, names)
                    if opened is not None:
                        yield Companion(around[-1], field + DECODED, *opened)
            elif batches := _get(content, "batches"):
                yield from _records(place, batches, around, names)


def ordinary(place: Place, body: Any, names: Mapping[str, str], *, controls: bool) -> bool:
    """Whether a place for records, two arrays deep, surely holds users' records only: told quickly, for most messages of a capture.

    `controls`: there may be control batches, which users' topics have too.
    """
    topics, partitions, field = place.path.split(".")
    for topic in getattr(body, topics, None) or ():
        for by in place.by:
            value = getattr(topic, by, None)
            if value and names.get(value, value) in place.holds:
                return False
        if controls:
            for partition in getattr(topic, partitions, None) or ():
                batches = getattr(getattr(partition, field, None), "batches", None) or ()
                if any(getattr(batch, "control", False) for batch in batches):
                    return False
    return True


def _walk(owners: Owners, way: Sequence[str]) -> list[Owners]:
    """The owners of every field that lies that way, arrays walked through."""
    found = [owners]
    for name in way:
        further: list[Owners] = []
        for around in found:
            below = _get(around[-1], name)
            if isinstance(below, list):
                further += [(*around, each) for each in below]
            elif below is not UNSET and below is not None:
                further.append((*around, below))
        found = further
    return found


def _get(owner: Any, name: str) -> Any:
    return owner.get(name, UNSET) if isinstance(owner, dict) else getattr(owner, name, UNSET)


def _named(fields: Sequence[str], owners: Owners, names: Mapping[str, str]) -> Any:
    """The value of the innermost of these fields that has one; None where none has."""
    for owner in reversed(owners):
        for field in fields:
            value = _get(owner, field)
            if value is not UNSET and value is not None and value != "":
                return names.get(value, value)
    return None


# -- bytes fields


def _open(place: Place, data: bytes, owners: Owners, names: Mapping[str, str]) -> _Opened | None:
    """None where nothing is known to be there, or what is there need not be known."""
    called = {name: _named((field,), owners, names) for name, field in place.call.items()}
    value = _named(place.by, owners, names) if place.by else ""
    if value is None:
        fitting = [opened for each in place.holds.values() if (opened := _held(each, data, called, owners)).code is None]
        return fitting[0] if len(fitting) == 1 else None
    holding = place.holds.get(value)
    if holding is None:
        return None
    opened = _held(holding, data, called, owners)
    return opened if place.certain or opened.code is None else None


def _held(holding: Holding, data: bytes, called: Mapping[str, Any], owners: Owners) -> _Opened:
    match holding:
        case Structure():
            return _structure(holding, data, 0, called=called)
        case Foreign():
            return _foreign(holding, data, _named((holding.compression,), owners, {}))
        case Log():
            raise TypeError("records lie in batches, not in a field of bytes")


def _foreign(holding: Foreign, data: bytes, codec: Any) -> _Opened:
    if codec:
        if not isinstance(codec, int) or not 0 < codec < CODEC_COUNT:
            return _Opened(None, "CODEC_INVALID", f"codec {codec}")
        room = bytearray(limits.TELEMETRY_BYTES)
        try:
            data = bytes(memoryview(room)[: decompress_into(codec, memoryview(data), memoryview(room))])
        except DecompressionFailed as error:
            return _Opened(None, "DECOMPRESSION_FAILED", str(error))
        except RoomExceeded:
            return _Opened(None, "DECOMPRESSION_LIMIT", f"more than {limits.TELEMETRY_BYTES} bytes")
    value, wrong = _FORMATS[holding.format](data)
    return _Opened({"name": holding.format, "data": value}, "EMBEDDED_INVALID" if wrong else None, wrong)


# -- structures


def _structure(
    structure: Structure,
    data: bytes,
    position: int,
    *,
    type: int | None = None,
    version: int | None = None,
    called: Mapping[str, Any] | None = None,
) -> _Opened:
    """The structure that begins at `position` and ends with the data; `type` and `version` are those that numbers before it told."""
    layout = structure.layout
    if structure.version_from == "length":
        return _fitting(structure, data, position)
    if structure.version_from in ("prefix", "first_field"):
        if len(data) - position < 2:
            return _Opened(None, "EMBEDDED_INVALID", f"{layout.name}: {len(data) - position} bytes, no version")
        (version,) = _INT16(data, position)
        position += 2 if structure.version_from == "prefix" else 0
    told = layout.versions.low if version is None else version
    known = layout.versions.nearest(told)
    body, code, detail = _body(layout, known, data, position)
    if known != told:
        code, detail = "VERSION_UNKNOWN", f"{layout.name} version {told}, read as {known}"
    if body is not None and structure.inside:
        for inner in _companions(structure.inside, (called, body), {}):
            if inner.value is not None:
                inner.attach()
            if inner.code is not None and code is None:
                code, detail = inner.code, f"{layout.name}.{inner.name.removesuffix(DECODED)}: {inner.detail}"
    return _Opened(_told(layout, type, version, body), code, detail)


def _told(layout: Layout, type: int | None, version: int | None, body: Any) -> dict[str, Any]:
    value: dict[str, Any] = {"name": layout.name}
    if type is not None:
        value["type"] = type
    if version is not None:
        value["version"] = version
    value["data"] = body
    return value


def _fitting(structure: Structure, data: bytes, position: int) -> _Opened:
    """The newest version that ends where the data does."""
    layout = structure.layout
    for version in range(layout.versions.high, layout.versions.low - 1, -1):
        body, code, _ = _body(layout, version, data, position)
        if code is None:
            return _Opened(_told(layout, None, version, body))
    return _Opened(None, "EMBEDDED_INVALID", f"{layout.name}: no version ends where the bytes do")


@lru_cache(maxsize=1024)
def _reader(layout: Layout, version: int) -> Reader:
    return compile_reader(layout, version)


def _body(layout: Layout, version: int, data: bytes, position: int) -> _Opened:
    """The body from `position` to the end of the data as plain values, as far as it can be read."""
    try:
        body, stop = _reader(layout, version)(data, position)
        if stop == len(data):
            return _Opened(plain(body))
    except Exception:  # whatever the compiled reader stumbles over, the exact one names
        pass
    reading = interpret(layout, version, data, position, len(data))
    if reading.faults and reading.faults[0].code == "LAYOUT_DRIFT":
        return _Opened(plain(reading.body), "LAYOUT_DRIFT", layout.name)
    detail = "; ".join(f"{layout.name}.{fault.path}: {fault.detail}" for fault in reading.faults[:3])
    return _Opened(plain(reading.body), "EMBEDDED_INVALID" if reading.faults else None, detail)


# -- records


def _records(place: Place, batches: Sequence[Any], owners: Owners, names: Mapping[str, str]) -> Iterator[Companion]:
    log = place.holds.get(_named(place.by, owners, names))
    for batch in batches:
        of_batch = place.control if _get(batch, "control") is True else log
        if isinstance(of_batch, Log):
            records = _get(batch, "records")
            for index, record in enumerate(records):
                key, value = _get(record, "key"), _get(record, "value")
                if key is not UNSET and value is not UNSET and (found := list(_record(of_batch, record, key, value))):
                    if type(record) is Record:
                        record = records[index] = _with_room(record)
                    for one in found:
                        yield one._replace(owner=record)


def _with_room(record: Record) -> OpenedRecord:
    return OpenedRecord(record.offset, record.timestamp, record.key, record.value, record.headers, record.control)


def _record(log: Log, record: Any, key: bytes | None, value: bytes | None) -> Iterator[Companion]:
    """Companions of one record's key and value."""
    before_key, key_at = _numbers(log.key, key)
    before_value, value_at = _numbers(log.value, value)
    type = {**before_value, **before_key}.get("type")
    if type is None:
        if key is not None or value is not None:
            where = "key" if log.key.names else "value"
            yield Companion(record, where + DECODED, None, "EMBEDDED_INVALID", f"{where} of {_size(record, where)}, no record type")
        return
    if type not in log.types:
        where = "key" if "type" in before_key else "value"
        yield Companion(record, where + DECODED, {"type": type}, "EMBEDDED_UNKNOWN", f"record type {type}")
        return
    key_layout, structure = log.types[type]
    if key is not None and key_layout is not None:
        body, code, detail = _body(key_layout, key_layout.versions.low, key, key_at)
        yield Companion(record, "key" + DECODED, _told(key_layout, type, None, body), code, detail)
    if value is not None:
        yield Companion(record, "value" + DECODED, *_structure(structure, value, value_at, type=type, version=before_value.get("version")))


def _size(record: Any, field: str) -> str:
    content = _get(record, field)
    return "null" if content is None else f"{len(content)} bytes"


def _numbers(numbers: Numbers, data: bytes | None) -> tuple[dict[str, int], int]:
    """The numbers that begin the data, by name, and the position behind them; none where it is too short for them."""
    found: dict[str, int] = {}
    position = 0
    if data is None:
        return found, position
    try:
        for name in numbers.names:
            if numbers.encoding == "uvarint":
                found[name], position = uvarint(data, position)
            else:
                (found[name],) = _INT16(data, position)
                position += 2
    except (IndexError, Misfit, StructError):
        return {}, 0
    return found, position
