"""The weirds of a capture in one short block: data that is not Kafka, and each weird with its count and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import UNSET, Struct, field

from kshark.anomaly import CATALOGUE, FACTS
from kshark.capture.log_lines import LogLines
from kshark.limits import STATISTICS_ROWS
from kshark.model import Closed, Event, Exchange, Message, Weird
from kshark.output.spans import CODE, DIM, ERROR, PLAIN, WARN, Line
from kshark.units import counted, number, safe, size
from kshark.unread import Unread

_STYLES: Final = {"error": ERROR, "warn": WARN}
_TLS: Final = "TLS_UNREAD"
#: Most sorts of TLS connections (broker, reason why it was not decrypted) in a line.
_TLS_SHOWN: Final = 8
_ORDER: Final = {"error": 0, "warn": 1, "note": 2, "chat": 3}
#: Weirds of packets that were not read: packets that may contain connections, and the rest.
_UNREAD: Final = ("ENVELOPE_UNREAD", "LINK_TYPE_UNKNOWN")
_NOT_TCP: Final = "NOT_TCP"
#: Weirds of nearly every capture, which share one line.
_ORDINARY: Final = ("RESYNC", "APIVERSIONS_FALLBACK", "LEGACY_MAGIC", "RAW_TOKEN")
#: Most kinds of packets in a line.
_KINDS: Final = 8


class Notes(Struct):
    """Counts page by page; the example of each weird is the occurrence with the earliest packet."""

    messages: int = 0
    unread: Unread = field(default_factory=Unread)
    #: Connections and their payload bytes by service.
    flows: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    #: Packets that were not read, by code and kind.
    _packets: Counter[tuple[str, str]] = field(default_factory=Counter)
    _weirds: Counter[str] = field(default_factory=Counter)
    _sizes: Counter[str] = field(default_factory=Counter)
    #: By code: the packet, and its description.
    _first: dict[str, tuple[int, str]] = field(default_factory=dict)
    #: TLS connections by reason and broker: their number, and their bytes that were not decrypted.
    _tls: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, page: Iterable[Event]) -> None:
        messages = 0
        for event in page:
            if type(event) is Message:
                messages += 1
                if event.weird is not UNSET:
                    self._message(event)
            elif type(event) is Exchange:
                pass  # half of all events: tested early, so that no further test is needed
            elif type(event) is Weird:
                self._weird(event)
                self.unread.weird(event)
            elif type(event) is Closed:
                self.unread.connection(event.flow)
                self.flows[event.flow.service] += 1
                self.bytes[event.flow.service] += sum(event.flow.stream_bytes)
        self.messages += messages

    def name_lines(self, log_lines: LogLines) -> None:
        """Name the lines of a request log in place of packets."""
        self._first = {code: (packet, log_lines.text(where)) for code, (packet, where) in self._first.items()}

    def _message(self, message: Message) -> None:
        assert isinstance(message.weird, list)
        for code in message.weird:
            self._weirds[code] += 1
            self._sizes[code] += message.size
            self._occurred(code, message)

    def _weird(self, weird: Weird) -> None:
        if weird.code == _NOT_TCP or weird.code in _UNREAD:
            self._packets[weird.code, weird.detail] += weird.times
        if weird.code == _NOT_TCP or weird.code in FACTS:
            return
        self._weirds[weird.code] += weird.times
        self._sizes[weird.code] += weird.size
        self._occurred(weird.code, weird)
        if weird.code == _TLS:
            self._undecrypted(weird.detail, weird.times, weird.size)

    def _undecrypted(self, detail: str, times: int, size: int) -> None:
        if detail not in self._tls and len(self._tls) >= STATISTICS_ROWS:
            detail = "others"
        counts = self._tls.get(detail, (0, 0))
        self._tls[detail] = counts[0] + times, counts[1] + size

    def _occurred(self, code: str, event: Message | Weird) -> None:
        earliest = self._first.get(code)
        if earliest is None or event.packet <= earliest[0]:
            self._earliest(code, (event.packet, _example(event)))

    def _earliest(self, code: str, first: tuple[int, str]) -> None:
        """Store the earliest example.

        Within one packet (all connections that end with the capture) the text decides, not the order of counting.
        """
        self._first[code] = min(first, self._first.get(code, first))

    def join(self, other: Notes) -> None:
        """Add the counts of other pages or other connections."""
        self.messages += other.messages
        self.unread.join(other.unread)
        self.flows.update(other.flows)
        self.bytes.update(other.bytes)
        self._packets.update(other._packets)
        self._weirds.update(other._weirds)
        self._sizes.update(other._sizes)
        for detail, (times, size_) in other._tls.items():
            self._undecrypted(detail, times, size_)
        for code, first in other._first.items():
            self._earliest(code, first)

    def leave_out(self, codes: Iterable[str]) -> None:
        """Remove weirds that findings already cover."""
        for code in codes:
            del self._weirds[code]

    def lines(self) -> Iterator[Line]:
        """Return the block; nothing if every connection was Kafka, and complete."""
        named = sorted(name for name in self.flows if self.bytes[name] or name not in ("kafka", "unknown"))
        if self.messages:  # TLS has its own line
            named = [name for name in named if name != "kafka" and not (name == "tls" and self._tls)]
        others = [f"{counted(self.flows[name], 'connection')} {name} ({size(self.bytes[name])})" for name in named]
        silent = self.flows.total() - sum(self.flows[name] for name in named)
        if not self.messages:
            others += [f"{counted(silent, 'connection')} without data"] if silent else []
            yield [("no Kafka messages", WARN), (f": {', '.join([*others, *self._instead()])}", PLAIN)]
        elif others:
            yield [("not Kafka: ", DIM), (", ".join(others), PLAIN)]
        for code in sorted(self._weirds, key=lambda code: (_ORDER[_severity(code)], -self._weirds[code], code)):
            if code not in _ORDINARY:
                yield self._line(code)
        ordinary = [f"{code} ×{number(self._weirds[code])}" for code in _ORDINARY if self._weirds[code]]
        if ordinary:
            yield [
                ("ordinary: ", DIM),
                (", ".join(ordinary), PLAIN),
                (f" (kshark explain {ordinary[0].split()[0]})", DIM),
            ]

    def _instead(self) -> Iterator[str]:
        """Return what the capture has besides connections, if it has no Kafka.

        "no TCP connections" only if every packet was read.
        """
        unread = self._kinds(*_UNREAD)
        rest = self._kinds(_NOT_TCP) if not self.flows else ""
        if unread or rest:
            yield f"{', '.join(filter(None, (unread, rest)))}, not read"
        elif not self.flows:
            faulty = any(_group(code) == "link" for code in self._weirds)
            yield "no TCP connections that can be read" if faulty else "no TCP connections"

    def _kinds(self, *codes: str) -> str:
        """Return the packets that were not read: `210 UDP packets: WireGuard, 3 packets: ARP`."""
        kinds = [(count, kind) for (code, kind), count in self._packets.items() if code in codes]
        kinds.sort(key=lambda pair: (-pair[0], pair[1]))
        rest = sum(count for count, _ in kinds[_KINDS:])
        return ", ".join(
            [*(_packets(*pair) for pair in kinds[:_KINDS]), *([f"{counted(rest, 'other packet')}"] if rest else [])]
        )

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
        _, example = self._first[code]
        if code in _UNREAD:
            line.append((f" {self._kinds(code)}", PLAIN))
        elif code == _TLS:
            line.append((f" {self._connections()}", PLAIN))
        elif example:
            line.append((f" First: {example}", DIM))
        return line

    def _connections(self) -> str:
        """Return the TLS connections that were not decrypted, those with most bytes first."""
        ranked = sorted(self._tls.items(), key=lambda entry: (-entry[1][1], entry[0]))
        texts = [
            f"{counted(times, 'connection')}, {size(total)}: {safe(detail)}"
            for detail, (times, total) in ranked[:_TLS_SHOWN]
        ]
        return "; ".join(texts) + (
            f"; and {number(len(ranked) - _TLS_SHOWN)} more sorts" if len(ranked) > _TLS_SHOWN else ""
        )


def _example(event: Message | Weird) -> str:
    """Return the position of a weird."""
    if isinstance(event, Message):
        return f"packet {event.packet}" + (f" ({event.api})" if isinstance(event.api, str) else "")
    position = f"packet {event.packet}" if event.packet else ""
    return safe(f"{position}{': ' if position and event.detail else ''}{event.detail}")


def _packets(count: int, kind: str) -> str:
    """Return a number of packets; the kind may start with a layer: `UDP: WireGuard`."""
    layer, colon, protocol = kind.rpartition(": ")
    return safe(f"{counted(count, f'{layer} packet' if colon else 'packet')}: {protocol}")


def _group(code: str) -> str:
    entry = CATALOGUE.get(code)
    return "" if entry is None else entry.group


def _severity(code: str) -> str:
    entry = CATALOGUE.get(code)
    return "warn" if entry is None else entry.severity
