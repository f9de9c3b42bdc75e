"""A message in one line, for `kshark read`.

Three layouts: without a width limit in a pipe; with both addresses on a wide terminal; with the flow's number instead
on a narrow one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import UnsetType

from kshark.endpoints import via
from kshark.model import Message
from kshark.names import TopicNames
from kshark.output.clock import Clock
from kshark.output.items import line_of
from kshark.output.spans import API, DIM, NOTE, PLAIN, REQUEST, RESPONSE, VALUE, WARN, Line, plain
from kshark.output.summary import Summaries
from kshark.registry import Registry
from kshark.units import clock, duration, size

#: The text of the API column, and the items of the message's body.
Begun = tuple[str, list[Callable[[Any], str]]]

_ARROWS: Final = {"request": "→", "response": "←", "unknown": "↔"}
#: Least terminal width for both addresses.
_WIDE: Final = 140
#: Least width for complete identifiers.
_VERY_WIDE: Final = 190
#: Least width for correlation ids and microseconds.
_NARROW: Final = 100
#: Most width of the column with an API's name and version; longer texts shift the rest to the right.
_API_WIDTH: Final = 22
#: Cached texts of a column.
_KEPT: Final = 4096


class MessageLines:
    """Lines with aligned columns; a column is as wide as its widest cell so far."""

    def __init__(self, registry: Registry, width: int | None = None, names: TopicNames | None = None) -> None:
        columns = width or _VERY_WIDE
        self._wide = columns >= _WIDE
        self._narrow = columns < _NARROW
        self._summaries = Summaries(registry, 40 if columns >= _VERY_WIDE else 5 if self._narrow else 9, names)
        self._clock = Clock()
        self._number, self._client, self._broker, self._api = 5, 1, 1, 1
        #: Cached texts of earlier lines, valid until a column grows.
        self._padded_ends: dict[tuple[str, str | UnsetType, str, str], str] = {}
        self._begun: dict[tuple[Any, Any, str, type], Begun] = {}

    def brief(self, message: Message) -> str:
        """Return API, correlation id and content, without time and addresses: `ShareFetch v1 #5 epoch=5`."""
        parts = [(f"{_api(message)} #{message.correlation_id}", PLAIN)] if isinstance(message.version, int) else []
        owner = line_of(self._summaries.owner, message)
        for part in (self._latency(message), self._content(message), owner, self._weirds(message)):
            parts += [(" ", PLAIN), *part] if part else []
        text = plain(parts).strip()
        return f"{message.kind} {text}" if isinstance(message.version, int) else f"{message.kind} of {text}"

    def _measure(self, message: Message) -> None:
        """Widen the columns for this message if needed."""
        api = min(len(_api(message)), _API_WIDTH) if isinstance(message.version, int) else 0
        widths = (
            max(self._number, len(str(message.packet))),
            max(self._client, len(via(message.client, message.proxy))),
            max(self._broker, len(message.broker)),
            max(self._api, api),
        )
        if widths != (self._number, self._client, self._broker, self._api):
            self._number, self._client, self._broker, self._api = widths
            self._forget()

    def text(self, messages: Iterable[Message]) -> str:
        """Return the messages' lines without styles and without a width limit, for a pipe."""
        return "".join([self._text(message) for message in messages])

    def _text(self, message: Message) -> str:
        """Return the same text as `of`, but reuse cached parts."""
        number, body, latency, weird = str(message.packet), message.body, message.latency_ns, message.weird
        ends = self._padded_ends.get((message.client, message.proxy, message.broker, message.kind))
        begun = self._begun.get((message.api_key, message.version, message.kind, type(body)))
        if ends is None or begun is None or len(number) > self._number:
            if not isinstance(message.version, int):
                return plain(self.of(message)) + "\n"
            ends, begun = self._begin(message)
        api, texts = begun
        self._summaries.packet = message.packet
        content = "".join([text(body) for text in texts])
        if type(message.group_id) is str or type(message.member_id) is str:
            content += "".join([item.text(message) for item in self._summaries.owner])
        if type(latency) is int:
            content = f" {duration(latency)}{content}"
        if type(weird) is list:
            content = f"{content} {','.join(weird)}"
        elif body is None:
            content = f"{content} {size(message.size)}"
        return (
            f"{number.rjust(self._number)} {self._clock.at(message.time_ns)} "
            f"{ends}{api}{message.correlation_id}{content}\n"
        )

    def _begin(self, message: Message) -> tuple[str, Begun]:
        """Return addresses and API, padded to the current column widths, and the items of its body."""
        self._measure(message)
        if len(self._padded_ends) >= _KEPT or len(self._begun) >= _KEPT:
            self._forget()
        ends = plain(self._ends(message))
        begun = _api(message).ljust(self._api) + " #", [item.text for item in self._summaries.items(message)]
        self._padded_ends[message.client, message.proxy, message.broker, message.kind] = ends
        self._begun[message.api_key, message.version, message.kind, type(message.body)] = begun
        return ends, begun

    def _forget(self) -> None:
        self._padded_ends.clear()
        self._begun.clear()

    def of(self, message: Message) -> Line:
        self._measure(message)
        line: Line = [
            (str(message.packet).rjust(self._number) + " ", DIM),
            (clock(message.time_ns, 3 if self._narrow else 6) + " ", DIM),
            *self._ends(message),
            *self._api_column(message),
        ]
        latency, content, weirds = self._latency(message), self._content(message), self._weirds(message)
        owner = line_of(self._summaries.owner, message)
        # on a narrow terminal, errors come first
        for part in (content, weirds, latency, owner) if self._narrow else (latency, content, owner, weirds):
            if part:
                line += [(" ", PLAIN), *part]
        return line

    def _latency(self, message: Message) -> Line:
        return [(duration(message.latency_ns), VALUE)] if isinstance(message.latency_ns, int) else []

    def _content(self, message: Message) -> Line:
        self._summaries.packet = message.packet
        content = line_of(self._summaries.items(message), message.body)
        return (
            content
            if content or message.body is not None or isinstance(message.weird, list)
            else [(size(message.size), DIM)]
        )

    def _weirds(self, message: Message) -> Line:
        return [(",".join(message.weird), WARN)] if isinstance(message.weird, list) else []

    def _ends(self, message: Message) -> Line:
        arrow = _ARROWS[message.kind]
        style = RESPONSE if message.kind == "response" else REQUEST
        if not self._wide:
            return [(f"{message.flow:>3} ", DIM), (arrow + " ", style)]
        return [
            (via(message.client, message.proxy).rjust(self._client), DIM),
            (f" {arrow} ", style),
            (message.broker.ljust(self._broker) + " ", DIM),
        ]

    def _api_column(self, message: Message) -> Line:
        if not isinstance(message.version, int):
            return [("frame" if message.kind == "unknown" else message.kind, NOTE), (f" {size(message.size)}", DIM)]
        text = _api(message)
        if self._narrow:
            return [(text, API)]
        return [(text.ljust(self._api), API), (f" #{message.correlation_id}", DIM)]


def _api(message: Message) -> str:
    name = message.api if isinstance(message.api, str) else f"api {message.api_key}"
    return f"{name} v{message.version}"
