"""A message with all its fields, one a line, indented as they are nested: `kshark read -V`."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET

from kshark.model import Message
from kshark.output.spans import API, DIM, ERROR, LABEL, PLAIN, REQUEST, RESPONSE, VALUE, WARN, Line, Span
from kshark.output.units import clock, counted, duration, safe, size
from kshark.registry import Registry
from kshark.schema import Field

_STEP: Final = "  "
#: Longest piece of a value that is shown; its full size stands behind it.
_SHOWN: Final = 200


class Trees:
    """Lines of a message and its body; names come from the schema, values from the body, so that nothing read is left out."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def of(self, message: Message) -> Iterator[Line]:
        """A head of one or two lines, the body indented below it, an empty line at the end."""
        yield from _head(message)
        if message.body is None:
            yield [(_STEP + "body not read", DIM)]
        elif message.body is not UNSET:
            yield from _members(message.body, self._root(message), 1)
        yield []

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
        (f"{message.client} {arrow} {message.broker}  {counted(message.size, 'byte')}", DIM),
    ]
    style = RESPONSE if message.kind == "response" else REQUEST
    name = message.api if isinstance(message.api, str) else f"api {message.api_key}" if message.api_key is not UNSET else "frame"
    line: Line = [(name, API)]
    if message.version is not UNSET:
        line.append((f" v{message.version}", PLAIN))
    line.append((f" {message.kind}", style))
    if message.correlation_id is not UNSET:
        line += [("  correlation id ", LABEL), (str(message.correlation_id), VALUE)]
    if message.client_id is not UNSET:
        line += [("  client id ", LABEL), _quoted(message.client_id)]
    if isinstance(message.request_packet, int):
        line += [("  answers packet ", LABEL), (str(message.request_packet), VALUE)]
    if isinstance(message.latency_ns, int):
        line += [(f" after {duration(message.latency_ns)}", VALUE)]
    yield line
    if isinstance(message.weird, list):
        yield [(_STEP + ", ".join(message.weird), WARN), (f"  {safe(message.detail)}" if isinstance(message.detail, str) else "", DIM)]


def _quoted(text: str | None) -> Span:
    return ("null", DIM) if text is None else (f'"{safe(text)}"', VALUE)


def _members(value: Any, field: Field | None, depth: int) -> Iterator[Line]:
    """The fields of a structure, in wire order."""
    known = {f.name: f for f in field.fields} if field is not None else {}
    for name, member in _items(value):
        if member is not UNSET:
            yield from _member(name, member, known.get(name), depth)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, msgspec.Struct):
        for name, shown in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            yield shown, getattr(value, name)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield str(key), member


def _member(name: str, value: Any, field: Field | None, depth: int) -> Iterator[Line]:
    label: Line = [(_STEP * depth + name, LABEL), (": ", DIM)]
    if isinstance(value, list | tuple):
        inner = field.element if field is not None else None
        if all(_is_scalar(element) for element in value):
            yield [*label, ("[", DIM), *_listed(value, inner), ("]", DIM)]
        else:
            yield [*label, (str(len(value)), DIM)]
            for element in value:
                yield from _element(element, inner, depth + 1)
    elif isinstance(value, dict | msgspec.Struct):
        yield [(_STEP * depth + name, LABEL), (":", DIM)]
        yield from _members(value, field, depth + 1)
    else:
        yield [*label, _value(value, field)]


def _element(value: Any, field: Field | None, depth: int) -> Iterator[Line]:
    """An array's element: its first field stands behind a dash."""
    if _is_scalar(value) or isinstance(value, list | tuple):
        yield [(_STEP * depth + "- ", DIM), *(_listed(value, field) if isinstance(value, list | tuple) else [_value(value, field)])]
        return
    for index, line in enumerate(_members(value, field, depth + 1)):
        if index == 0:
            (text, style), *rest = line
            yield [(_STEP * depth + "- ", DIM), (text[len(_STEP) * (depth + 1) :], style), *rest]
        else:
            yield line


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, list | tuple | dict | msgspec.Struct)


def _listed(found: list[Any] | tuple[Any, ...], field: Field | None) -> Line:
    line: Line = []
    for index, value in enumerate(found):
        if index:
            line.append((", ", DIM))
        line.append(_value(value, field) if _is_scalar(value) else (safe(repr(value)), VALUE))
    return line


def _value(value: Any, field: Field | None) -> Span:
    if value is None:
        return "null", DIM
    if value is True or value is False:
        return str(value).lower(), VALUE
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value)), VALUE
    if isinstance(value, str):
        return (f'"{safe(value)}"' if field is None or field.type != "uuid" else safe(value)), VALUE
    enum = field.enum if field is not None else None
    if enum is not None and value in enum._value2member_map_:
        return f"{value} {enum(value).name}", ERROR if enum.__name__ == "ErrorCode" and value else VALUE
    return str(value), VALUE


def _bytes(value: bytes) -> str:
    """As text in quotes where it is text, else as hexadecimal digits."""
    shown, cut = value[:_SHOWN], len(value) > _SHOWN
    rest = f"… ({size(len(value))})" if cut else ""
    try:
        text = getincrementaldecoder("utf-8")().decode(shown, final=not cut)
    except UnicodeDecodeError:
        text = "\0"
    return f'"{text}"{rest}' if text.isprintable() else shown.hex(" ") + rest
