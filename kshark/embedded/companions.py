"""Decode structures inside bytes: the contents of a body's bytes fields and records, by rules that are data.

The rules are in kshark.places. A structure becomes `{"name": …, "type": …, "version": …, "data": {…}}`, as Kafka's own
tools print stored records: `name` is Kafka's name of the message; `type` only for records that have one; `version` only
if there is one in the bytes. A whole message has header and body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark.codec import DECODED
from kshark.codec.masking import masked
from kshark.codec.primitives import Misfit, uvarint
from kshark.embedded.opening import Opened, fitting, foreign, read_body, structure_value, whole
from kshark.embedded.otlp import is_installed
from kshark.places import Foreign, Holding, Log, Numbers, OpaqueField, Structure, Whole
from kshark.records.batch import OpenedRecord, Record
from kshark.registry import Registry

_INT16: Final = Struct(">h").unpack_from

#: The objects around a field, from the outside in: the answered request, the body, the structs down to the field's own.
Owners = tuple[Any, ...]


class Companion(NamedTuple):
    """The decoded content of a field.

    `owner` is the object (or dict) that has the field; `name` is the field's name with `_decoded`. `value` is None if
    nothing could be read. `code` is a code of the catalogue (None: no fault), `detail` gives the position.
    """

    owner: Any
    name: str
    value: Any
    code: str | None = None
    detail: str = ""
    #: Credentials in it are masked; the bytes themselves must be masked too.
    masked: bool = False

    def attach(self) -> None:
        """Put the value next to the field, as a key or an attribute of the owner."""
        _set(self.owner, self.name, self.value)
        if self.masked:
            field = self.name.removesuffix(DECODED)
            _set(self.owner, field, masked(_get(self.owner, field)))


class _Context(NamedTuple):
    """Information besides the bytes.

    It has the topic names by topic id, and the APIs whose whole messages the bytes may hold.
    """

    names: Mapping[str, str]
    registry: Registry | None = None
    secrets: bool = True


_NO_CONTEXT: Final = _Context({})


def companions(
    places: Sequence[OpaqueField],
    body: Any,
    *,
    request: Any = None,
    names: Mapping[str, str] | None = None,
    registry: Registry | None = None,
    secrets: bool = True,
) -> Iterator[Companion]:
    """Yield the contents of the fields at `places` in a body (of the codec, or a dict), records included.

    Never raises on damaged bytes. Records with decoded content become OpenedRecords, which have room for it. `request`:
    the body of the request that this body answers. `names`: topic names by topic id. `registry` opens whole messages
    inside bytes; without it they stay bytes. `secrets` False masks the credentials in the contents.
    """
    yield from _companions(
        places, (body,) if request is None else (request, body), _Context(names or {}, registry, secrets)
    )


def _companions(places: Sequence[OpaqueField], owners: Owners, context: _Context) -> Iterator[Companion]:
    for opaque in places:
        *way, field = opaque.way
        for around in _walk(owners, way):
            content = _get(around[-1], field)
            if isinstance(content, bytes):
                if content:
                    opened = _open(opaque, content, around, context)
                    if opened is not None:
                        yield Companion(around[-1], field + DECODED, *opened)
            elif batches := _get(content, "batches"):
                yield from _records(opaque, batches, around, context)


def ordinary(opaque: OpaqueField, body: Any, names: Mapping[str, str], *, controls: bool) -> bool:
    """True if a field of records, two arrays deep, certainly holds only users' records.

    It is a quick test that most messages pass. `controls`: there may be control batches, which users' topics have too.
    """
    topics, partitions, field = opaque.way
    for topic in getattr(body, topics, None) or ():
        for by in opaque.by:
            value = getattr(topic, by, None)
            if value and names.get(value, value) in opaque.holds:
                return False
        if controls:
            for partition in getattr(topic, partitions, None) or ():
                for batch in getattr(getattr(partition, field, None), "batches", None) or ():
                    if getattr(batch, "control", False):
                        return False
    return True


def _walk(owners: Owners, way: Sequence[str]) -> list[Owners]:
    """Return the owners of all fields at the end of this way, through arrays."""
    owner_chains = [owners]
    for name in way:
        further: list[Owners] = []
        for around in owner_chains:
            below = _get(around[-1], name)
            if isinstance(below, list):
                further += [(*around, element) for element in below]
            elif below is not UNSET and below is not None:
                further.append((*around, below))
        owner_chains = further
    return owner_chains


def _get(owner: Any, name: str) -> Any:
    return owner.get(name, UNSET) if isinstance(owner, dict) else getattr(owner, name, UNSET)


def _set(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, dict):
        owner[name] = value
    else:
        setattr(owner, name, value)


def _named(fields: Sequence[str], owners: Owners, names: Mapping[str, str]) -> Any:
    """Return the value of the innermost of these fields that has one; None if none has."""
    for owner in reversed(owners):
        for field in fields:
            value = _get(owner, field)
            if value is not UNSET and value is not None and value != "":
                return names.get(value, value)
    return None


# -- bytes fields


def _open(opaque: OpaqueField, data: bytes, owners: Owners, context: _Context) -> Opened | None:
    """Return the decoded content; None if its kind is unknown, or if it need not be decoded."""
    called = {name: _named((field,), owners, context.names) for name, field in opaque.call.items()}
    value = _named(opaque.by, owners, context.names) if opaque.by else ""
    if value is None:
        clean = [
            opened
            for holding in opaque.holds.values()
            if (opened := _held(holding, data, called, owners, context)).code is None
        ]
        return clean[0] if len(clean) == 1 else None
    holding = opaque.holds.get(value)
    if holding is None or not _can_be_read(holding, owners, context):
        return None
    opened = _held(holding, data, called, owners, context)
    return opened if opaque.certain or opened.code is None else None


def _can_be_read(holding: Holding, owners: Owners, context: _Context) -> bool:
    """False for a response without its request, and for metrics where their package is not installed."""
    if isinstance(holding, Whole):
        return context.registry is not None and (
            holding.kind == "request" or isinstance(_asked(holding, owners), bytes | dict)
        )
    return not isinstance(holding, Foreign) or is_installed()


def _asked(holding: Whole, owners: Owners) -> Any:
    """Return the request that is answered: its decoded content, which may be masked already, or its bytes."""
    decoded = _get(owners[0], holding.of + DECODED)
    return decoded if isinstance(decoded, dict) else _get(owners[0], holding.of)


def _held(holding: Holding, data: bytes, called: Mapping[str, Any], owners: Owners, context: _Context) -> Opened:
    match holding:
        case Structure():
            return _structure(holding, data, 0, called=called, secrets=context.secrets)
        case Foreign():
            return foreign(holding, data, _named((holding.compression,), owners, {}))
        case Whole():
            assert context.registry is not None
            return whole(holding, data, _asked(holding, owners), context.registry, secrets=context.secrets)
        case Log():
            raise TypeError("records lie in batches, not in a field of bytes")


# -- structures


def _structure(
    structure: Structure,
    data: bytes,
    position: int,
    *,
    type: int | None = None,
    version: int | None = None,
    called: Mapping[str, Any] | None = None,
    secrets: bool = True,
) -> Opened:
    """Read the structure that begins at `position` and ends with the data.

    `type` and `version` were read from numbers before it.
    """
    layout = structure.layout
    if structure.version_from == "length":
        return fitting(layout, data, position)
    if structure.version_from in ("prefix", "first_field"):
        if len(data) - position < 2:
            return Opened(None, "EMBEDDED_INVALID", f"{layout.name}: {len(data) - position} bytes, no version")
        (version,) = _INT16(data, position)
        position += 2 if structure.version_from == "prefix" else 0
    asked = layout.versions.low if version is None else version
    nearest = layout.versions.nearest(asked)
    body, code, detail, hidden = read_body(layout, nearest, data, position, secrets=secrets)
    if nearest != asked:
        code, detail = "VERSION_UNKNOWN", f"{layout.name} version {asked}, read as {nearest}"
    if body is not None and structure.inside:
        for inner in _companions(structure.inside, (called, body), _NO_CONTEXT):
            if inner.value is not None:
                inner.attach()
            if inner.code is not None and code is None:
                code, detail = inner.code, f"{layout.name}.{inner.name.removesuffix(DECODED)}: {inner.detail}"
    return Opened(structure_value(layout, type, version, body), code, detail, hidden)


# -- records


def _records(opaque: OpaqueField, batches: Sequence[Any], owners: Owners, context: _Context) -> Iterator[Companion]:
    log = opaque.holds.get(_named(opaque.by, owners, context.names))
    for batch in batches:
        of_batch = opaque.control if _get(batch, "control") is True else log
        if isinstance(of_batch, Log):
            records = _get(batch, "records")
            for index, record in enumerate(records):
                key, value = _get(record, "key"), _get(record, "value")
                if (
                    key is not UNSET
                    and value is not UNSET
                    and (record_companions := list(_record(of_batch, record, key, value, context.secrets)))
                ):
                    if type(record) is Record:
                        record = records[index] = _with_room(record)
                    for companion in record_companions:
                        yield companion._replace(owner=record)


def _with_room(record: Record) -> OpenedRecord:
    return OpenedRecord(record.offset, record.timestamp, record.key, record.value, record.headers, record.control)


def _record(log: Log, record: Any, key: bytes | None, value: bytes | None, secrets: bool) -> Iterator[Companion]:
    """Yield the companions of one record's key and value."""
    before_key, key_at = _numbers(log.key, key)
    before_value, value_at = _numbers(log.value, value)
    type = {**before_value, **before_key}.get("type")
    if type is None:
        if key is not None or value is not None:
            where = "key" if log.key.names else "value"
            yield Companion(
                record, where + DECODED, None, "EMBEDDED_INVALID", f"{where} of {_size(record, where)}, no record type"
            )
        return
    if type not in log.types:
        where = "key" if "type" in before_key else "value"
        yield Companion(record, where + DECODED, {"type": type}, "EMBEDDED_UNKNOWN", f"record type {type}")
        return
    key_layout, structure = log.types[type]
    if key is not None and key_layout is not None:
        body, code, detail, _ = read_body(key_layout, key_layout.versions.low, key, key_at)
        yield Companion(record, "key" + DECODED, structure_value(key_layout, type, None, body), code, detail)
    if value is not None:
        version = before_value.get("version")
        yield Companion(
            record,
            "value" + DECODED,
            *_structure(structure, value, value_at, type=type, version=version, secrets=secrets),
        )


def _size(record: Any, field: str) -> str:
    content = _get(record, field)
    return "null" if content is None else f"{len(content)} bytes"


def _numbers(numbers: Numbers, data: bytes | None) -> tuple[dict[str, int], int]:
    """Return the numbers at the beginning of the data, by name, and the position after them.

    There are none if the data is too short.
    """
    numbers_by_name: dict[str, int] = {}
    position = 0
    if data is None:
        return numbers_by_name, position
    try:
        for name in numbers.names:
            if numbers.encoding == "uvarint":
                numbers_by_name[name], position = uvarint(data, position)
            else:
                (numbers_by_name[name],) = _INT16(data, position)
                position += 2
    except (IndexError, Misfit, StructError):
        return {}, 0
    return numbers_by_name, position
