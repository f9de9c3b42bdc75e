"""A message in one line: `kshark read`.

Three widths: without limit in a pipe; with both addresses on a wide terminal; with the flow's number instead of them on
a narrow one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kshark.model import Message
from kshark.names import TopicNames
from kshark.output.clock import Clock
from kshark.output.items import line_of
from kshark.output.spans import API, DIM, NOTE, PLAIN, REQUEST, RESPONSE, VALUE, WARN, Line, plain
from kshark.output.summary import Summaries
from kshark.output.units import clock, duration, size
from kshark.registry import Registry

#: The column of an API, and what its messages can say.
Begun = tuple[str, list[Callable[[Any], str]]]

_ARROWS: Final = {"request": "→", "response": "←", "unknown": "↔"}
#: From this width of the terminal on both addresses are shown.
_WIDE: Final = 140
#: From this width on identifiers are shown in full.
_VERY_WIDE: Final = 190
#: Below this width correlation ids and microseconds are left out.
_NARROW: Final = 100
#: Width of the column with an API's name and version; longer ones push the rest to the right.
_API_WIDTH: Final = 22
#: So many texts of a column are kept for reuse.
_KEPT: Final = 4096


class MessageLines:
    """Lines with aligned columns: a column is as wide as its widest cell so far."""

    def __init__(self, registry: Registry, width: int | None = None, names: TopicNames | None = None) -> None:
        columns = width or _VERY_WIDE
        self._wide = columns >= _WIDE
        self._narrow = columns < _NARROW
        self._summaries = Summaries(registry, 40 if columns >= _VERY_WIDE else 5 if self._narrow else 9, names)
        self._clock = Clock()
        self._number, self._client, self._broker, self._api = 5, 1, 1, 1
        #: Texts of earlier lines, until a column grows.
        self._padded_ends: dict[tuple[str, str, str], str] = {}
        self._begun: dict[tuple[Any, Any, str, type], Begun] = {}

    def _measure(self, message: Message) -> None:
        """Make the columns as wide as this message needs."""
        api = min(len(_api(message)), _API_WIDTH) if isinstance(message.version, int) else 0
        widths = (
            max(self._number, len(str(message.packet))),
            max(self._client, len(message.client)),
            max(self._broker, len(message.broker)),
            max(self._api, api),
        )
        if widths != (self._number, self._client, self._broker, self._api):
            self._number, self._client, self._broker, self._api = widths
            self._forget()

    def text(self, messages: Iterable[Message]) -> str:
        """The messages' lines without styles and limit of width, as a pipe gets them."""
        return "".join([self._text(message) for message in messages])

    def _text(self, message: Message) -> str:
        """The same text as `of` gives; parts that it shares with earlier lines are reused, not made again."""
        number, body, latency, weird = str(message.packet), message.body, message.latency_ns, message.weird
        ends = self._padded_ends.get((message.client, message.broker, message.kind))
        begun = self._begun.get((message.api_key, message.version, message.kind, type(body)))
        if ends is None or begun is None or len(number) > self._number:
            if not isinstance(message.version, int):
                return plain(self.of(message)) + "\n"
            ends, begun = self._begin(message)
        api, texts = begun
        self._summaries.packet = message.packet
        said = "".join([text(body) for text in texts])
        if type(message.group_id) is str or type(message.member_id) is str:
            said += "".join([item.text(message) for item in self._summaries.owner])
        if type(latency) is int:
            said = f" {duration(latency)}{said}"
        if type(weird) is list:
            said = f"{said} {','.join(weird)}"
        elif body is None:
            said = f"{said} {size(message.size)}"
        return (
            f"{number.rjust(self._number)} {self._clock.at(message.time_ns)} "
            f"{ends}{api}{message.correlation_id}{said}\n"
        )

    def _begin(self, message: Message) -> tuple[str, Begun]:
        """Addresses and API, padded to the width their columns have from this message on, and the items of its body."""
        self._measure(message)
        if len(self._padded_ends) >= _KEPT or len(self._begun) >= _KEPT:
            self._forget()
        ends = plain(self._ends(message))
        begun = _api(message).ljust(self._api) + " #", [item.text for item in self._summaries.items(message)]
        self._padded_ends[message.client, message.broker, message.kind] = ends
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
            *self._what(message),
        ]
        latency, said, odd = self._latency(message), self._said(message), self._odd(message)
        whose = line_of(self._summaries.owner, message)
        # where room is short, an error needs it more
        for each in (said, odd, latency, whose) if self._narrow else (latency, said, whose, odd):
            if each:
                line += [(" ", PLAIN), *each]
        return line

    def _latency(self, message: Message) -> Line:
        return [(duration(message.latency_ns), VALUE)] if isinstance(message.latency_ns, int) else []

    def _said(self, message: Message) -> Line:
        self._summaries.packet = message.packet
        said = line_of(self._summaries.items(message), message.body)
        return (
            said if said or message.body is not None or isinstance(message.weird, list) else [(size(message.size), DIM)]
        )

    def _odd(self, message: Message) -> Line:
        return [(",".join(message.weird), WARN)] if isinstance(message.weird, list) else []

    def _ends(self, message: Message) -> Line:
        arrow = _ARROWS[message.kind]
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
