"""A message in one line: `kshark read`.

Three widths: unlimited in a pipe, with both addresses on a wide terminal, with the flow's number in their place on a narrow one.
"""

from __future__ import annotations

from typing import Final

from kshark.model import Message
from kshark.names import TopicNames
from kshark.output.spans import API, DIM, NOTE, PLAIN, REQUEST, RESPONSE, VALUE, WARN, Line
from kshark.output.summary import Summaries
from kshark.output.units import clock, duration, size
from kshark.registry import Registry

_ARROWS: Final = {"request": "→", "response": "←", "unknown": "↔"}
#: Columns of a terminal from which both addresses have room.
_WIDE: Final = 140
#: Columns from which identifiers stand in full.
_VERY_WIDE: Final = 190
#: Columns below which even correlation ids and microseconds have no room.
_NARROW: Final = 100
#: Columns for an API's name and version; longer ones push what follows.
_API_WIDTH: Final = 22


class MessageLines:
    """Lines under each other: a column is as wide as what was seen so far."""

    def __init__(self, registry: Registry, width: int | None = None, names: TopicNames | None = None) -> None:
        columns = width or _VERY_WIDE
        self._wide = columns >= _WIDE
        self._narrow = columns < _NARROW
        self._summaries = Summaries(registry, 40 if columns >= _VERY_WIDE else 5 if self._narrow else 9, names)
        self._number, self._client, self._broker, self._api = 5, 1, 1, 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the columns; to be set where lines of other processes stand between."""
        return self._number, self._client, self._broker, self._api

    @widths.setter
    def widths(self, widths: tuple[int, ...]) -> None:
        self._number, self._client, self._broker, self._api = widths

    def measure(self, message: Message) -> tuple[int, ...]:
        """The widths once the message has its line; nothing of its body is needed."""
        self._number = max(self._number, len(str(message.packet)))
        self._client = max(self._client, len(message.client))
        self._broker = max(self._broker, len(message.broker))
        if isinstance(message.version, int):
            self._api = max(self._api, min(len(_api(message)), _API_WIDTH))
        return self.widths

    def of(self, message: Message) -> Line:
        self.measure(message)
        line: Line = [
            (str(message.packet).rjust(self._number) + " ", DIM),
            (clock(message.time_ns, 3 if self._narrow else 6) + " ", DIM),
            *self._ends(message, _ARROWS[message.kind]),
            *self._what(message),
        ]
        latency, said, odd = self._latency(message), self._said(message), self._odd(message)
        for each in (said, odd, latency) if self._narrow else (latency, said, odd):  # where room is short, an error needs it more
            if each:
                line += [(" ", PLAIN), *each]
        return line

    def _latency(self, message: Message) -> Line:
        return [(duration(message.latency_ns), VALUE)] if isinstance(message.latency_ns, int) else []

    def _said(self, message: Message) -> Line:
        said = self._summaries.of(message)
        return said if said or message.body is not None or isinstance(message.weird, list) else [(size(message.size), DIM)]

    def _odd(self, message: Message) -> Line:
        return [(",".join(message.weird), WARN)] if isinstance(message.weird, list) else []

    def _ends(self, message: Message, arrow: str) -> Line:
        style = RESPONSE if message.kind == "response" else REQUEST
        if not self._wide:
            return [(f"{message.flow:>3} ", DIM), (arrow + " ", style)]
        return [
            (message.client.rjust(self._client), DIM),
            (f" {arrow} ", style),
            (message.broker.ljust(self._broker) + " ", DIM),
        ]

    def _what(self, message: Message) -> Line:
        if not isinstance(message.version, int):
            return [("frame" if message.kind == "unknown" else message.kind, NOTE), (f" {size(message.size)}", DIM)]
        text = _api(message)
        if self._narrow:
            return [(text, API)]
        return [(text.ljust(self._api), API), (f" #{message.correlation_id}", DIM)]


def _api(message: Message) -> str:
    name = message.api if isinstance(message.api, str) else f"api {message.api_key}"
    return f"{name} v{message.version}"
