"""Parts of a message by name, for `-e` and `-Y`.

The common fields are a table. Any other name is `kafka.` and the path of a body's field, or the end of such a path:
`kafka.error_code` names every error code at any depth, `kafka.topics.partitions.partition_index` only one field. After
`_decoded`, the decoded content of bytes, any path may follow: `kafka.protocols.metadata_decoded.data.topics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark.anomaly import CATALOGUE
from kshark.attributes import ATTRIBUTES, Attribute, Values
from kshark.codec import DECODED
from kshark.codec.paths import Names, Path, paths, paths_of_versions, values
from kshark.conditions.condition import ALWAYS, Condition
from kshark.conditions.literals import ADDRESS, MILLISECONDS, NUMBER, TEXT, TIME, TRUTH, ValueType, named
from kshark.conditions.message import Made, Whether
from kshark.conditions.terms import F, Term
from kshark.conditions.topics import Topics
from kshark.endpoints import host_of, port_of
from kshark.errors import UsageError
from kshark.model import OWNER, Message
from kshark.records.fields import RECORDS
from kshark.registry import Registry
from kshark.schema import Api, Layout, struct
from kshark_dissectors.topics import NAMING_APIS

PREFIX: Final = "kafka."
#: A full path that still names the field at every depth.
_ANY_DEPTH: Final = ("error_code",)

#: Advice for an unknown name.
LISTED: Final = "kshark explain fields lists the common fields, kshark explain ShareFetch the fields of an API"

_ANSWERS: Final = F("kind") == "response"
_ASKS: Final = F("kind") == "request"


class Common(NamedTuple):
    """A field that every message may have.

    `about`: its description. `read`: reads its values for `-e`. `type`, `terms`: its type for `-Y`, and the terms that
    hold its occurrences, each valid if its condition is true. `array`: the array whose elements are the occurrences, if
    there is one. The topics of a message (TOPIC) are read by kshark.conditions.topics.
    """

    about: str
    read: Values
    type: ValueType
    terms: tuple[tuple[Condition, Term], ...] = ()
    array: F | None = None


def _attribute(about: str, field: str, type: ValueType) -> Common:
    name = ATTRIBUTES[field]
    return Common(about, Attribute(name), type, ((ALWAYS, F(name)),))


def _of_ends(about: str, part: Callable[[str], Any], type: ValueType, *ends: str) -> Common:
    """Return a field of one or both ends of the connection. `ends`: sender, receiver or both, in that order.

    A client behind a proxy has two: its own, and that of the TCP connection.
    """
    make: Callable[[Term], Term] = (lambda end: Made("port", port_of, end)) if type is NUMBER else (lambda end: end)
    client, proxy, broker = make(F("client")), make(F("proxy")), make(F("broker"))
    of_end = {
        "sender": ((_ANSWERS, broker), (~_ANSWERS, client), (~_ANSWERS, proxy)),
        "receiver": ((_ANSWERS, client), (_ANSWERS, proxy), (~_ANSWERS, broker)),
    }
    terms = of_end[ends[0]] if len(ends) == 1 else ((ALWAYS, client), (ALWAYS, proxy), (ALWAYS, broker))

    def read(message: Message) -> list[Any]:
        clients = [message.client] if message.proxy in (UNSET, message.client) else [message.client, message.proxy]
        both = ([message.broker], clients) if message.kind == "response" else (clients, [message.broker])
        named = zip(("sender", "receiver"), both, strict=True)
        return [part(end) for name, addresses in named if name in ends for end in addresses]

    return Common(about, read, type, terms)


def _address(end: str) -> str:
    return host_of(end).strip("[]")


#: Every topic of a message; its name is looked up by `Fields.topics`.
TOPIC: Final = "kafka.topic"

_CODE: Final = named({code: code for code in CATALOGUE}, "kshark explain")
#: The API names depend on the registry: `Fields` fills them in.
_API: Final = named({}, "kshark explain ApiKey")

COMMON: Final[dict[str, Common]] = {
    "frame.number": _attribute("number of the packet that completed the message", "frame.number", NUMBER),
    "frame.time_epoch": Common(
        "time of that packet, seconds since 1970",
        lambda m: [f"{m.time_ns // 1_000_000_000}.{m.time_ns % 1_000_000_000:09}"],
        TIME,
        ((ALWAYS, F("time_ns")),),
    ),
    "ip.addr": _of_ends("address of the sender, then of the receiver", _address, ADDRESS, "sender", "receiver"),
    "ip.src": _of_ends("address of the sender", _address, ADDRESS, "sender"),
    "ip.dst": _of_ends("address of the receiver", _address, ADDRESS, "receiver"),
    "tcp.port": _of_ends("port of the sender, then of the receiver", port_of, NUMBER, "sender", "receiver"),
    "tcp.srcport": _of_ends("port of the sender", port_of, NUMBER, "sender"),
    "tcp.dstport": _of_ends("port of the receiver", port_of, NUMBER, "receiver"),
    "kafka.client": _attribute("address:port of the client", "kafka.client", TEXT),
    "kafka.proxy": _attribute("address:port of the proxy that named the client", "kafka.proxy", TEXT),
    "kafka.flow": _attribute("number of the TCP connection, from 0", "kafka.flow", NUMBER),
    "kafka.len": _attribute("bytes of the frame without its length prefix", "kafka.len", NUMBER),
    "kafka.request": Common("true for a request", lambda m: [m.kind == "request"], TRUTH, ((ALWAYS, Whether(_ASKS)),)),
    "kafka.response": Common(
        "true for a response", lambda m: [m.kind == "response"], TRUTH, ((ALWAYS, Whether(_ANSWERS)),)
    ),
    "kafka.api_key": _attribute("number of the API", "kafka.api_key", NUMBER),
    "kafka.api": _attribute("name of the API", "kafka.api", _API),
    "kafka.api_version": _attribute("version of the API", "kafka.api_version", NUMBER),
    "kafka.correlation_id": _attribute("correlation id of the header", "kafka.correlation_id", NUMBER),
    "kafka.client_id": _attribute("client id of the request's header", "kafka.client_id", TEXT),
    "kafka.latency_ms": Common(
        "milliseconds from the request's last byte to the response's first",
        lambda m: [m.latency_ns / 1e6] if isinstance(m.latency_ns, int) else [],
        MILLISECONDS,
        ((ALWAYS, F("latency_ns")),),
    ),
    TOPIC: Common(
        "topics of the message, by name; those whose name no earlier packet shows by id (-Y takes both)",
        lambda m: [],
        TEXT,
    ),
    "kafka.weird": Common(
        "codes of the weirds of the message",
        lambda m: m.weird if isinstance(m.weird, list) else [],
        _CODE,
        array=F("weird"),
    ),
}


class ApiField(NamedTuple):
    """A field of an API's requests or responses."""

    api_key: int
    kind: str
    path: Path


class BodyField(NamedTuple):
    """A field of a body by the end of its path, and the path after `_decoded`."""

    end: Names
    rest: Names

    @property
    def owner(self) -> str | None:
        """The attribute that a response has instead of the field: copied from its request."""
        return self.end[0] if len(self.end) == 1 and self.end[0] in OWNER else None


class RequiredDecoding(NamedTuple):
    """Data that must be decoded for some fields: the bodies of these APIs, records, the content of bytes."""

    bodies: frozenset[int]
    records: bool
    embedded: bool


class Fields:
    """Find fields by name: the common fields and the fields of every known API."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.topics = Topics(registry)
        self._paths: dict[tuple[Names, int, int, str], list[Path]] = {}

    def find(self, name: str) -> Common | BodyField | None:
        """Return the field of that name; None for a name that no message can have."""
        if name in COMMON:
            return COMMON[name]
        end, rest = _until_decoded(tuple(name.removeprefix(PREFIX).split(".")))
        return BodyField(end, rest) if name.startswith(PREFIX) and self.places(end) else None

    def reader(self, name: str) -> Values:
        """Return a function that reads a field for `-e`.

        Raises UsageError, with a similar name, for a name that no message can have.
        """
        field = self.find(name)
        if field is None:
            raise UsageError(f"{self.unknown(name)} ({LISTED})")
        if isinstance(field, Common):
            return self.topics.read if name == TOPIC else field.read

        def read(message: Message) -> list[Any]:
            body = message.body
            if (
                body is None
                or body is UNSET
                or not isinstance(message.api_key, int)
                or not isinstance(message.version, int)
            ):
                return []
            ways = self.paths(field.end, message.api_key, message.version, message.kind)
            return [value for path in ways for value in values(body, (*path.names, *field.rest))]

        def read_owner(message: Message) -> list[Any]:
            owned = getattr(message, owner)
            return read(message) if owned is UNSET else [*filter(None, read(message)), owned]

        owner = field.owner or ""
        return read_owner if owner else read

    def needs(self, names: Sequence[str]) -> RequiredDecoding:
        """Return the data that must be decoded for these fields; `kafka.weird` needs everything.

        Unknown names need nothing.
        """
        body_fields = [field for field in map(self.find, names) if isinstance(field, BodyField)]
        has_topics = TOPIC in names
        api_fields = [api_field for field in body_fields for api_field in self.places(field.end)]
        holds_structures = any(map(self._holds, api_fields))
        if "kafka.weird" in names:
            return RequiredDecoding(frozenset(self.registry.names()), records=True, embedded=True)
        return RequiredDecoding(
            bodies=frozenset(api_field.api_key for api_field in api_fields)
            | (self.topics.apis | NAMING_APIS if has_topics else frozenset()),
            records=any(
                field.type == "records"
                for api_field in api_fields
                for field in (*api_field.path.owners, api_field.path.field)
            ),
            embedded=holds_structures or has_topics or any(field.end[-1].endswith(DECODED) for field in body_fields),
        )

    def _holds(self, api_field: ApiField) -> bool:
        """True if the bytes may contain structures: decoding them finds credentials in them."""
        names, field = api_field.path.names, api_field.path.field
        in_records = any(owner.type == "records" for owner in api_field.path.owners)
        return field.type == "bytes" and (in_records or names in self._ways(api_field.api_key, api_field.kind))

    def _ways(self, api_key: int, kind: str) -> set[Names]:
        """Return the paths of body fields that may contain structures."""
        return {place.way for place in self.registry.places(api_key, kind)}

    def type_of(self, common: Common) -> ValueType:
        """Return the type of a common field, with the names of the APIs in the registry."""
        return common.type._replace(names=self._api_names) if common.type is _API else common.type

    @cached_property
    def _api_names(self) -> dict[str, str]:
        names = self.registry.names()
        return {name.upper(): name for name in names.values()} | {str(key): name for key, name in names.items()}

    def places(self, end: Names) -> list[ApiField]:
        """Return every field of every API whose path has that end."""
        return [api_field for api_field in self._places.get(end[-1], ()) if api_field.path.names[-len(end) :] == end]

    def paths(self, end: Names, api_key: int, version: int, kind: str) -> list[Path]:
        """Return the paths of the field in bodies of that API, version and direction.

        A field whose full path has that name excludes all fields whose path only ends with it.
        """
        key = (end, api_key, version, kind)
        matching = self._paths.get(key)
        if matching is None:
            matching = self._paths[key] = self._look_up(*key)
        return matching

    def _look_up(self, end: Names, api_key: int, version: int, kind: str) -> list[Path]:
        every = self.every(api_key, version, kind)
        in_full = [path for path in every if path.names == end and end != _ANY_DEPTH]
        return in_full or [path for path in every if path.names[-len(end) :] == end]

    def every(self, api_key: int, version: int, kind: str) -> list[Path]:
        """Return all fields of bodies of that API, version and direction."""
        api = self.registry.api(api_key)
        if api is None or kind not in ("request", "response"):
            return []
        layout = _layout(api, kind)
        return list(self._within(api, kind, paths(layout.root, layout.versions.nearest(version))))

    def _within(self, api: Api, kind: str, every: Iterable[Path]) -> Iterator[Path]:
        """Return the fields and the fields inside them that no schema describes: in records and in decoded bytes."""
        opened = self._ways(api.key, kind)
        for path in every:
            yield path
            if path.field.type == "records":
                for inner in paths(RECORDS, 0, path):
                    yield inner
                    if inner.field.type == "bytes":
                        yield _decoded(inner)
            elif path.names in opened:
                yield _decoded(path)

    @cached_property
    def _places(self) -> dict[str, list[ApiField]]:
        """All fields by the last part of their path."""
        by_last_part: dict[str, list[ApiField]] = {}
        for api in filter(None, map(self.registry.api, self.registry.names())):
            for kind in ("request", "response"):
                layout = _layout(api, kind)
                every = (path for path, _ in paths_of_versions(layout.root, layout.versions))
                for path in self._within(api, kind, every):
                    by_last_part.setdefault(path.names[-1], []).append(ApiField(api.key, kind, path))
        return by_last_part

    def names(self) -> set[str]:
        """Return every name of a body's field: its path and every end of it, without `kafka.`."""
        every = {api_field.path.names for api_fields in self._places.values() for api_field in api_fields}
        return {".".join(names[index:]) for names in every for index in range(len(names))}

    def unknown(self, name: str) -> str:
        """Return the message for a name that no message can have, with a similar name if there is one."""
        close = closest(name, [*COMMON, *(PREFIX + field for field in self.names())])
        return f'unknown field "{name}"' + (f'; did you mean "{close}"?' if close else "")


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is most similar to a name.

    Prefers the shortest name with the same last part, then the shortest that has all its words, then the closest
    spelling.
    """
    candidates = sorted(candidates, key=lambda candidate: (len(candidate), candidate))
    last = name.rpartition(".")[2]
    words = set(last.split("_"))
    ends = [candidate for candidate in candidates if candidate.endswith("." + last)]
    worded = [candidate for candidate in candidates if words <= set(candidate.rpartition(".")[2].split("_"))]
    spelled = {candidate.removeprefix(PREFIX): candidate for candidate in reversed(candidates)}
    alike = get_close_matches(name.removeprefix(PREFIX), spelled, 1)
    return next(iter(ends or worded or [spelled[candidate] for candidate in alike]), None)


def _until_decoded(names: Names) -> tuple[Names, Names]:
    """Split a path after the first part that is decoded."""
    cut = next((at + 1 for at, name in enumerate(names) if name.endswith(DECODED)), len(names))
    return names[:cut], names[cut:]


def _decoded(path: Path) -> Path:
    """Return the path of the decoded content: a field next to the bytes."""
    name = path.names[-1] + DECODED
    return Path((*path.names[:-1], name), struct(name=name), path.owners)


def _layout(api: Api, kind: str) -> Layout:
    return api.request if kind == "request" else api.response
