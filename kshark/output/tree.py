"""A message with all its fields, one a line, indented by nesting: `kshark read -V`."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET

from kshark.codec import DECODED
from kshark.endpoints import via
from kshark.model import OWNER, Message
from kshark.names import TopicNames
from kshark.output.enumerations import named
from kshark.output.spans import API, DIM, ERROR, LABEL, PLAIN, REQUEST, RESPONSE, VALUE, WARN, Line, Span
from kshark.registry import Registry
from kshark.schema import Field
from kshark.units import clock, counted, duration, safe, size

_STEP: Final = "  "
#: Bytes of a long value that are shown before its full size.
_SHOWN: Final = 200


class Trees:
    """Lines of a message and its body.

    Names come from the schema, values from the body; every decoded value is shown. `names`: topic names, shown after
    topic ids.
    """

    def __init__(self, registry: Registry, names: TopicNames | None = None) -> None:
        self._registry = registry
        self._names = names

    def of(self, message: Message) -> Iterator[Line]:
        """Return a head of one or two lines, the body indented below it, and an empty line."""
        yield from _head(message)
        if message.body is None:
            yield [(_STEP + "body not read", DIM)]
        elif message.body is not UNSET:
            names, packet = self._names, message.packet
            topic = (lambda topic_id: names.at(topic_id, packet)) if names is not None else None
            yield from _Tree(self._registry, topic).members(message.body, self._root(message), 1)
        yield []

    def below(self, value: Any, depth: int) -> Iterator[Line]:
        """Return the lines of a structure that is no message: the fields of a stored batch."""
        return _Tree(self._registry, None).members(value, None, depth)

    def _root(self, message: Message) -> Field | None:
        api = self._registry.api(message.api_key) if isinstance(message.api_key, int) else None
        if api is None:
            return None
        return (api.request if message.kind == "request" else api.response).root


def _head(message: Message) -> Iterator[Line]:
    first, last = message.packets if isinstance(message.packets, tuple) else (message.packet, message.packet)
    where = f"packet {last}" if first == last else f"packets {first} to {last}"
    arrow = "←" if message.kind == "response" else "→"
    yield [
        (f"{where}  {clock(message.time_ns, 9)}  flow {message.flow}  ", DIM),
        (f"{via(message.client, message.proxy)} {arrow} {message.broker}  {counted(message.size, 'byte')}", DIM),
    ]
    style = RESPONSE if message.kind == "response" else REQUEST
    name = (
        message.api
        if isinstance(message.api, str)
        else f"api {message.api_key}"
        if message.api_key is not UNSET
        else "frame"
    )
    line: Line = [(name, API)]
    if message.version is not UNSET:
        line.append((f" v{message.version}", PLAIN))
    line.append((f" {message.kind}", style))
    if message.correlation_id is not UNSET:
        line += [("  correlation id ", LABEL), (str(message.correlation_id), VALUE)]
    if message.client_id is not UNSET:
        line += [("  client id ", LABEL), _quoted(message.client_id)]
    if isinstance(message.request_packet, int):
        line += [(f"  answers packet {message.request_packet}", LABEL)]
    if isinstance(message.latency_ns, int):
        line += [(f" after {duration(message.latency_ns)}", VALUE)]
    for name in OWNER:
        if isinstance(owner := getattr(message, name), str):
            line += [(f"  {name.removesuffix('_id')} ", LABEL), _quoted(owner)]
    yield line
    if isinstance(message.weird, list):
        yield [
            (_STEP + ", ".join(message.weird), WARN),
            (f"  {safe(message.detail)}" if isinstance(message.detail, str) else "", DIM),
        ]


def _quoted(text: str | None) -> Span:
    return ("null", DIM) if text is None else (f'"{safe(text)}"', VALUE)


class _Tree:
    """One body's lines; `topic` returns a topic's name by its id."""

    def __init__(self, registry: Registry, topic: Callable[[str], str | None] | None) -> None:
        self._registry = registry
        self._topic = topic

    def members(self, value: Any, field: Field | None, depth: int) -> Iterator[Line]:
        """Return the fields of a structure, in wire order; decoded contents follow their bytes fields."""
        fields = {f.name: f for f in field.fields} if field is not None else {}
        present = {name: member for name, member in _items(value) if member is not UNSET}
        for name, member in present.items():
            if not (name.endswith(DECODED) and name.removesuffix(DECODED) in present):
                decoded = present.get(name + DECODED)
                if decoded is not None and isinstance(member, bytes):
                    yield [(_STEP * depth + name, LABEL), (": ", DIM), (size(len(member)), DIM)]
                else:
                    yield from self._member(name, member, fields.get(name), depth)
                if decoded is not None:
                    yield from self._structure(name + DECODED, decoded, depth)

    def _structure(self, name: str, value: Any, depth: int) -> Iterator[Line]:
        """Return the decoded content of bytes: its name in one line, its data below."""
        if not isinstance(value, dict) or not ("data" in value or "body" in value):
            yield from self._member(name, value, None, depth)
            return
        version = f" v{value['version']}" if "version" in value else ""
        label: Line = [(_STEP * depth + name, LABEL), (": ", DIM)]
        if "data" in value:
            layout = self._registry.structure(value["name"])
            number = f"  type {value['type']}" if "type" in value else ""
            yield [*label, (value["name"], API), (version, PLAIN), (number, DIM)]
            yield from self.members(value["data"], None if layout is None else layout.root, depth + 1)
            return
        yield [*label, (value["api"], API), (version, PLAIN), (f" {value['kind']}", PLAIN)]
        headers = {"request": self._registry.request_header, "response": self._registry.response_header}
        yield from self._member("header", value["header"], headers[value["kind"]].root, depth + 1)
        api = self._registry.api(value["api_key"])
        layout = None if api is None else api.layout(value["kind"], value["version"])[0]
        yield from self._member("body", value["body"], None if layout is None else layout.root, depth + 1)

    def _member(self, name: str, value: Any, field: Field | None, depth: int) -> Iterator[Line]:
        label: Line = [(_STEP * depth + name, LABEL), (": ", DIM)]
        if isinstance(value, list | tuple):
            inner = field.element if field is not None else None
            if all(_is_scalar(element) for element in value):
                yield [*label, ("[", DIM), *self._listed(value, inner), ("]", DIM)]
            else:
                yield [*label, (str(len(value)), DIM)]
                for element in value:
                    yield from self._element(element, inner, depth + 1)
        elif isinstance(value, dict | msgspec.Struct):
            yield [(_STEP * depth + name, LABEL), (":", DIM)]
            yield from self.members(value, field, depth + 1)
        else:
            yield [*label, *self._value(value, field)]

    def _element(self, value: Any, field: Field | None, depth: int) -> Iterator[Line]:
        """Return an array's element; its first field follows a dash."""
        if _is_scalar(value) or isinstance(value, list | tuple):
            shown = self._listed(value, field) if isinstance(value, list | tuple) else self._value(value, field)
            yield [(_STEP * depth + "- ", DIM), *shown]
            return
        for index, line in enumerate(self.members(value, field, depth + 1)):
            if index == 0:
                (text, style), *rest = line
                yield [(_STEP * depth + "- ", DIM), (text[len(_STEP) * (depth + 1) :], style), *rest]
            else:
                yield line

    def _listed(self, elements: list[Any] | tuple[Any, ...], field: Field | None) -> Line:
        line: Line = []
        for index, value in enumerate(elements):
            if index:
                line.append((", ", DIM))
            line += self._value(value, field) if _is_scalar(value) else [(safe(repr(value)), VALUE)]
        return line

    def _value(self, value: Any, field: Field | None) -> Line:
        if value is None:
            return [("null", DIM)]
        if value is True or value is False:
            return [(str(value).lower(), VALUE)]
        if isinstance(value, bytes | bytearray | memoryview):
            return [(_bytes(bytes(value)), VALUE)]
        if isinstance(value, str):
            if field is None or field.type != "uuid":
                return [(f'"{safe(value)}"', VALUE)]
            topic = self._topic(value) if self._topic is not None else None
            return [(safe(value), VALUE), *([(f" {safe(topic)}", LABEL)] if topic else [])]
        failed = field is not None and field.enum is not None and field.enum.__name__ == "ErrorCode" and value
        return [(named(value, field), ERROR if failed else VALUE)]


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, msgspec.Struct):
        for name, shown in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            yield shown, getattr(value, name)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield str(key), member


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, list | tuple | dict | msgspec.Struct)


def _bytes(value: bytes) -> str:
    """Return bytes as text in quotes if they are text, otherwise as hexadecimal digits."""
    shown, cut = value[:_SHOWN], len(value) > _SHOWN
    rest = f"… ({size(len(value))})" if cut else ""
    try:
        text = getincrementaldecoder("utf-8")().decode(shown, final=not cut)
    except UnicodeDecodeError:
        text = "\0"
    return f'"{text}"{rest}' if text.isprintable() else shown.hex(" ") + rest
