"""Fields by name: what `-e` prints of a message.

The common ones are a table; any other name is `kafka.` and the path of a body's field, or the end of one: `kafka.error_code` is every
error code at any depth, `kafka.topics.partitions.partition_index` one field only. Behind `_decoded`, which is what bytes hold, any path
may follow: `kafka.protocols.metadata_decoded.data.topics`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from kshark.codec import DECODED
from kshark.codec.paths import Names, paths, values
from kshark.errors import UsageError
from kshark.model import Message
from kshark.registry import Registry
from kshark.schema import Api

#: Every occurrence of a field in a message, in wire order.
Values = Callable[[Message], list[Any]]

PREFIX: Final = "kafka."
#: The one full path that means every depth.
_ANY_DEPTH: Final = ("error_code",)


@cache
def _record_paths() -> tuple[Names, ...]:
    """What lies below a field of type records: kshark.records makes it, no schema does."""
    from kshark.records.batch import Batch, OpenedRecord, RecordSizes  # numpy, which `kshark explain` does without

    record = dict.fromkeys(OpenedRecord.__struct_fields__ + RecordSizes.__struct_fields__)
    batch = [("batches", name) for name in Batch.__struct_fields__]
    return (("size",), ("partial_bytes",), ("batches",), *batch, *(("batches", "records", name) for name in record))


def _ends(message: Message) -> tuple[str, str]:
    """Sender and receiver as `address:port`."""
    return (message.broker, message.client) if message.kind == "response" else (message.client, message.broker)


def _addresses(message: Message) -> list[Any]:
    return [end.rpartition(":")[0].strip("[]") for end in _ends(message)]


def _ports(message: Message) -> list[Any]:
    return [int(end.rpartition(":")[2]) for end in _ends(message)]


def _latency(message: Message) -> list[Any]:
    return [message.latency_ns / 1e6] if isinstance(message.latency_ns, int) else []


class _Attribute:
    """A common field that is an attribute of the message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._get = attrgetter(name)

    def __call__(self, message: Message) -> list[Any]:
        value = self._get(message)
        return [] if value is UNSET else [value]


#: Name, what it is, how it is read.
COMMON: Final[dict[str, tuple[str, Values]]] = {
    "frame.number": ("number of the packet with which the message was complete", _Attribute("packet")),
    "frame.time_epoch": (
        "time of that packet, seconds since 1970",
        lambda m: [f"{m.time_ns // 1_000_000_000}.{m.time_ns % 1_000_000_000:09}"],
    ),
    "ip.addr": ("address of the sender, then of the receiver", _addresses),
    "tcp.port": ("port of the sender, then of the receiver", _ports),
    "kafka.flow": ("number of the TCP connection, from 0", _Attribute("flow")),
    "kafka.len": ("bytes of the frame without its length prefix", _Attribute("size")),
    "kafka.request": ("true for a request", lambda m: [m.kind == "request"]),
    "kafka.response": ("true for a response", lambda m: [m.kind == "response"]),
    "kafka.api_key": ("number of the API", _Attribute("api_key")),
    "kafka.api": ("name of the API", _Attribute("api")),
    "kafka.api_version": ("version of the API", _Attribute("version")),
    "kafka.correlation_id": ("correlation id of the header", _Attribute("correlation_id")),
    "kafka.client_id": ("client id of the request's header", _Attribute("client_id")),
    "kafka.latency_ms": ("milliseconds from the request's last byte to the response's first", _latency),
    "kafka.weird": ("codes of what is odd about the message", lambda m: m.weird if isinstance(m.weird, list) else []),
}


def opens(fields: Iterable[str]) -> bool:
    """Whether one of these fields is what bytes hold."""
    return any(part.endswith(DECODED) for name in fields for part in name.split("."))


def _until_decoded(names: Names) -> tuple[Names, Names]:
    """A path up to the first part that is decoded, and the rest."""
    cut = next((at + 1 for at, name in enumerate(names) if name.endswith(DECODED)), len(names))
    return names[:cut], names[cut:]


class Fields:
    """Finds fields by name in the common ones and in every known API's schema."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._body_names: set[str] | None = None

    def find(self, name: str) -> Values:
        """How a field is read. Raises UsageError, with what comes close, for a name that no message can have."""
        if name in COMMON:
            return COMMON[name][1]
        told, rest = _until_decoded(tuple(name.removeprefix(PREFIX).split(".")))
        if not name.startswith(PREFIX) or ".".join(told) not in self.body_names():
            raise UsageError(self._unknown(name))
        return _BodyField(self._registry, told, rest).values

    def body_names(self) -> set[str]:
        """Every path of every known body, and every end of one."""
        if self._body_names is None:
            apis = [api for api in map(self._registry.api, self._registry.names()) if api is not None]
            every = {names for api in apis for names in _names_of_all_versions(self._registry, api)}
            self._body_names = {".".join(names[at:]) for names in every for at in range(len(names))}
        return self._body_names

    def _unknown(self, name: str) -> str:
        candidates = [*COMMON, *(PREFIX + known for known in self.body_names())]
        close = closest(name, candidates)
        hint = f'; did you mean "{close}"?' if close else ""
        return f'no field "{name}"{hint} (kshark explain fields lists the common ones, kshark explain ShareFetch a body\'s)'


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The shortest name that ends like the wanted one, else the shortest with all its words, else the one most alike."""
    candidates = sorted(candidates, key=lambda known: (len(known), known))
    last = name.rpartition(".")[2]
    words = set(last.split("_"))
    ends = [known for known in candidates if known.endswith("." + last)]
    worded = [known for known in candidates if words <= set(known.rpartition(".")[2].split("_"))]
    return next(iter(ends or worded or get_close_matches(name, candidates, 1)), None)


def _names_of_all_versions(registry: Registry, api: Api) -> Iterator[Names]:
    for kind in ("request", "response"):
        for version in range(api.versions.low, api.versions.high + 1):
            yield from _names(registry, api, version, kind)


def _names(registry: Registry, api: Api, version: int, kind: str) -> Iterator[Names]:
    """Every field of a body, of the records in it, and of what its bytes hold."""
    opened = {place.way for place in registry.places(api.key, kind)}
    layout = api.request if kind == "request" else api.response
    for path in paths(layout.root, layout.versions.nearest(version)):
        yield path.names
        if path.field.type == "records":
            yield from ((*path.names, *inner) for inner in _record_paths())
        elif path.names in opened:
            yield (*path.names[:-1], path.names[-1] + DECODED)


class _BodyField:
    """A body's field by the end of its path; where that is in each (api, version, direction) is looked up once."""

    def __init__(self, registry: Registry, end: Names, rest: Names = ()) -> None:
        self._registry = registry
        self._end = end
        self._rest = rest
        self._places: dict[tuple[int, int, str], list[Names]] = {}

    def values(self, message: Message) -> list[Any]:
        body = message.body
        if body is None or body is UNSET or not isinstance(message.api_key, int) or not isinstance(message.version, int):
            return []
        key = (message.api_key, message.version, message.kind)
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = self._look_up(*key)
        return [value for names in places for value in values(body, (*names, *self._rest))]

    def _look_up(self, api_key: int, version: int, kind: str) -> list[Names]:
        api = self._registry.api(api_key)
        if api is None:
            return []
        every = list(_names(self._registry, api, version, kind))
        if self._end in every and self._end != _ANY_DEPTH:
            return [self._end]
        return [names for names in every if names[-len(self._end) :] == self._end]


def fields_lines(readers: Sequence[Values]) -> Callable[[Sequence[Message]], str]:
    """tshark's `-T fields`: a tab between fields, a comma between occurrences, nothing for an absent or null one; a line per message."""
    attributes = [reader.name for reader in readers if isinstance(reader, _Attribute)]
    if len(attributes) == len(readers):
        return partial(_attribute_lines, attributes)
    return lambda messages: "".join([_line([read(message) for read in readers]) + "\n" for message in messages])


def _attribute_lines(names: Sequence[str], messages: Sequence[Message]) -> str:
    """Column by column: 0.6 us a message, where a reader for each field takes 3."""
    columns = [[_TEXTS[type(value)](value) for value in map(attrgetter(name), messages)] for name in names]
    return "".join([line + "\n" for line in map("\t".join, zip(*columns, strict=True))])


def _line(found: Iterable[list[Any]]) -> str:
    return "\t".join([_text(occurrences[0]) if len(occurrences) == 1 else ",".join(map(_text, occurrences)) for occurrences in found])


_ESCAPES: Final = {ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
#: How values are written; those of other types as JSON.
_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    int: str,
    str: lambda value: value.translate(_ESCAPES) if not value.isalnum() else value,
    float: str,
    bool: lambda value: "true" if value else "false",
    bytes: lambda value: base64.b64encode(value).decode(),
    type(None): lambda value: "",
    UnsetType: lambda value: "",
}


def _text(value: Any) -> str:
    return _TEXTS.get(type(value), _json)(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
