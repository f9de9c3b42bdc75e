"""What was weird about a capture, in one short block: how much was not Kafka, and each weird with its count and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import UNSET

from kshark.anomaly import CATALOGUE
from kshark.model import Closed, Event, Exchange, Message, Weird
from kshark.output.spans import CODE, DIM, ERROR, PLAIN, WARN, Line
from kshark.output.units import counted, number, safe, size

_STYLES: Final = {"error": ERROR, "warn": WARN}
_ORDER: Final = {"error": 0, "warn": 1, "note": 2, "chat": 3}


class Notes:
    """Counts page by page; of each weird the first occurrence is kept as example."""

    def __init__(self) -> None:
        self.messages = 0
        #: Connections and their payload bytes by service.
        self.flows: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self._weirds: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, page: Iterable[Event]) -> None:
        messages = 0
        for event in page:
            if isinstance(event, Message):
                messages += 1
                if event.weird is not UNSET:
                    self._message(event)
            elif isinstance(event, Exchange):
                pass  # half of all events: tested early, so that no further test is needed
            elif isinstance(event, Weird):
                self._weird(event)
            elif isinstance(event, Closed):
                self.flows[event.flow.service] += 1
                self.bytes[event.flow.service] += sum(event.flow.stream_bytes)
        self.messages += messages

    def _message(self, message: Message) -> None:
        assert isinstance(message.weird, list)
        for code in message.weird:
            self._weirds[code] += 1
            self._sizes[code] += message.size
            if code not in self._first:
                self._first[code] = _example(message)

    def _weird(self, weird: Weird) -> None:
        self._weirds[weird.code] += weird.times
        self._sizes[weird.code] += weird.size
        if weird.code not in self._first:
            self._first[weird.code] = _example(weird)

    def join(self, other: Notes) -> None:
        """Adds what another process counted in later pages."""
        self.messages += other.messages
        self.flows.update(other.flows)
        self.bytes.update(other.bytes)
        self._weirds.update(other._weirds)
        self._sizes.update(other._sizes)
        self._first = other._first | self._first

    def lines(self) -> Iterator[Line]:
        """Nothing if there is nothing to say: every connection was Kafka, and complete."""
        foreign = sorted(name for name in self.flows if name != "kafka" and (self.bytes[name] or name != "unknown"))
        others = [f"{counted(self.flows[name], 'connection')} {name} ({size(self.bytes[name])})" for name in foreign]
        if not self.messages:
            yield [("no Kafka messages", WARN), (f": {', '.join(others) or 'no TCP connections'}", PLAIN)]
        elif others:
            yield [("not Kafka: ", DIM), (", ".join(others), PLAIN)]
        for code in sorted(self._weirds, key=lambda code: (_ORDER[_severity(code)], -self._weirds[code], code)):
            yield self._line(code)

    def _line(self, code: str) -> Line:
        entry = CATALOGUE.get(code)
        total = self._sizes[code]
        line: Line = [
            (code, _STYLES.get(_severity(code), CODE)),
            (f" ×{number(self._weirds[code])}", PLAIN),
            (f", {size(total)}" if total else "", PLAIN),
        ]
        if entry is not None:
            line.append((f"  {entry.text}", DIM))
        if self._first[code]:
            line.append((f" First: {self._first[code]}", DIM))
        return line


def _example(event: Message | Weird) -> str:
    """Where the weird occurred."""
    if isinstance(event, Message):
        return f"packet {event.packet}" + (f" ({event.api})" if isinstance(event.api, str) else "")
    place = f"packet {event.packet}" if event.packet else ""
    return safe(f"{place}{': ' if place and event.detail else ''}{event.detail}")


def _severity(code: str) -> str:
    entry = CATALOGUE.get(code)
    return "warn" if entry is None else entry.severity
