"""Captures begun in the middle, beside the brokers' request logs: what was asked behind the cut, and what is read of
it.

Where a logged request lies in the capture is told by its bytes alone: its header, made of what the broker logged, is
looked for in what the client sent. `python -m tests.witness.cuts [--places N] CAPTURE...` prints the table."""

from __future__ import annotations

import argparse
import struct
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from kshark.link import Link
from kshark.model import SYN, Closed, Event, Exchange, Message, Weird
from kshark.reassembly.directions import ahead
from tests.thinning import Whole, events_of
from tests.witness.compare import ends_of, log_of

#: The client and the broker; api key, version and correlation id.
Asked = tuple[str, str, int, int, int]
#: Room of a request behind its length: api key, version, correlation id.
_HEADER: Final = struct.Struct(">hhi")
_INT32: Final = struct.Struct(">i").unpack_from

#: Why a request behind a cut is not read.
UNRECOGNISED: Final = "nothing behind the cut tells that the connection is Kafka's"
NO_BOUNDARY: Final = "no boundary is known yet"
BROKEN: Final = "of a frame broken by a hole"
UNREAD: Final = "UNEXPLAINED"


@dataclass
class Cut:
    """What came of a capture begun at several places, or of one."""

    expected: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    #: Answered in the whole capture as the log says, and not behind the cut.
    unanswered: int = 0
    #: Read behind the cut, and not read so in the whole capture, whose every request is compared with the log.
    invented: list[str] = field(default_factory=list)

    def add(self, other: Cut) -> None:
        self.expected += other.expected
        self.lost += other.lost
        self.unanswered += other.unanswered
        self.invented += other.invented


class Logged:
    """A capture and the places of its logged requests: the first packets with bytes of them, from 0.

    `again`: numbers of the packets that were sent again; a request in one of them is read there when the first one is
    cut off."""

    def __init__(self, capture: Path) -> None:
        self.whole = Whole.load(capture)
        sent, self.again = _sent(self.whole)
        wanted: dict[Asked, int] = defaultdict(int)
        names: dict[Asked, bytes] = {}
        for line in log_of(capture):
            asked = _asked(line)
            if not line.get("isForwarded"):
                wanted[asked] += 1
                names[asked] = (line["requestHeader"].get("clientId") or "").encode()
        self.logged = frozenset(wanted)
        self.places: dict[Asked, list[int]] = {}
        for asked, count in wanted.items():
            if asked[:2] in sent:
                self.places[asked] = [
                    place
                    for place, _ in zip(sent[asked[:2]].places(asked[2:], names[asked]), range(count), strict=False)
                ]
        events = [*events_of(iter(self.whole.batches))]
        self.read = Counter(map(_known_by, _requests(events)))
        self.answered = _answered(events)

    def begun_at(self, cut: int) -> Cut:
        """The capture without its first `cut` packets."""
        keep = self.whole.everything()
        keep[:cut] = False
        events = [*events_of(self.whole.thinned(keep))]
        requests = [*_requests(events)]
        found: Counter[tuple[Any, ...]] = Counter(map(_asked_by, requests))
        result = Cut()
        for asked, places in self.places.items():
            behind = sum(place >= cut for place in places)
            result.expected += behind
            if behind > found[asked]:
                result.lost[_why_lost(asked, events)] += behind - found[asked]
        known = Counter(map(_known_by, requests))
        result.invented = [
            str(each) for each in known - self.read if not (each[:5] in self.logged and each[5] in self.again)
        ]
        result.unanswered = len((known.keys() & self.answered) - _answered(events))
        return result

    def begun_anywhere(self, places: int, seed: int) -> Cut:
        result, packets = Cut(), len(self.whole.number)
        for cut in Random(seed).sample(range(1, packets), min(places, packets - 1)):
            result.add(self.begun_at(cut))
        return result


class _Sent:
    """What one end sent another, in the order of sequence numbers; a SYN begins a new connection."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, int, int, bytes]] = []
        self._known: set[tuple[int, int, int]] = set()
        self._connection = self._place = 0
        self._seq: int | None = None

    def take(self, packet: int, seq: int, data: bytes, *, opens: bool) -> bool:
        """Whether the same came before."""
        if opens or self._seq is None:
            self._connection, self._place, self._seq = self._connection + 1, 0, seq
        self._place, self._seq = self._place + ahead(seq, self._seq), seq
        known = (self._connection, self._place, len(data)) in self._known
        self._known.add((self._connection, self._place, len(data)))
        if data:
            self._pieces.append((self._connection, self._place, packet, data))
        return bool(data) and known

    def join(self) -> None:
        """Everything is there: what was sent again counts where it came first."""
        self._packets: list[int] = []
        found: list[bytes] = []
        last = (0, 0)
        for connection, place, packet, data in sorted(self._pieces, key=lambda piece: piece[:3]):
            known = max(0, last[1] - place) if connection == last[0] else 0
            if known < len(data):
                found.append(data[known:])
                self._packets.append(packet)
                last = connection, place + len(data)
        self._data, self._edges = b"".join(found), [0, *accumulate(map(len, found))][:-1]

    def places(self, what: tuple[int, int, int], client_id: bytes) -> Iterator[int]:
        """The first packets with bytes of the requests with that header."""
        header = _HEADER.pack(*what)
        named = (struct.pack(">h", len(client_id)) + client_id,) if client_id else (b"\xff\xff", b"\0\0")
        if what[:2] == (7, 0):
            named = (b"",)  # ControlledShutdown v0 names no client
        at = self._data.find(header)
        while at >= 0:
            if (
                at >= 4
                and (length := _INT32(self._data, at - 4)[0]) >= len(header)
                and self._data.startswith(named, at + len(header))
            ):
                first, behind = bisect_right(self._edges, at - 4) - 1, bisect_right(self._edges, at + length - 1)
                yield min(self._packets[first:behind])
            at = self._data.find(header, at + 1)


def _sent(whole: Whole) -> tuple[dict[tuple[str, str], _Sent], set[int]]:
    """What was sent from where to where, and the numbers of the packets that carry something again."""
    found: dict[tuple[str, str], _Sent] = defaultdict(_Sent)
    again: set[int] = set()
    link, begin = Link(), 0
    for item in whole.batches:
        segments, _ = link.feed(item)
        if segments is not None:
            places = np.searchsorted(item.number, segments.packet) + begin
            columns = (places, segments.path, segments.seq, segments.flags, segments.offset, segments.length)
            for place, path, seq, flags, offset, length in zip(*(column.tolist() for column in columns), strict=True):
                first, second = link.ends[path >> 1]
                way = (second, first) if path & 1 else (first, second)
                data = segments.buffer[offset : offset + length]
                if found[way].take(place, seq + bool(flags & SYN), data, opens=bool(flags & SYN)):
                    again.add(int(whole.number[place]))
        begin += len(item.number)
    for each in found.values():
        each.join()
    return found, again


def _asked(line: dict[str, Any]) -> Asked:
    header = line["requestHeader"]
    return (*ends_of(line), header["requestApiKey"], header["requestApiVersion"], header["correlationId"])


def _asked_by(request: Message) -> tuple[Any, ...]:
    return (request.client, request.broker, request.api_key, request.version, request.correlation_id)


def _known_by(request: Message) -> tuple[Any, ...]:
    return (*_asked_by(request), request.packet, request.time_ns, request.size)


def _requests(events: Iterable[Event]) -> Iterator[Message]:
    return (event for event in events if isinstance(event, Message) and event.kind == "request")


def _answered(events: Iterable[Event]) -> set[tuple[Any, ...]]:
    """Requests with an answer, by what they are known by."""
    exchanges = (event for event in events if isinstance(event, Exchange) and event.outcome == "answered")
    return {_known_by(it.request) for it in exchanges if it.request is not None}


def _why_lost(asked: Asked, events: list[Event]) -> str:
    """By what is told of the connections between its ends."""
    flows = {it.flow.id: it.flow for it in events if isinstance(it, Closed) and set(it.flow.ends) == set(asked[:2])}
    if flows and all(flow.service != "kafka" for flow in flows.values()):
        return UNRECOGNISED
    told = [it for it in events if isinstance(it, Weird) and it.flow in flows and it.code == "BYTES_SKIPPED"]
    if any("gap" in it.detail for it in told):
        return BROKEN
    return NO_BOUNDARY if told else UNREAD


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.witness.cuts", description="Captures begun in the middle beside request logs."
    )
    parser.add_argument("captures", nargs="+", type=Path, metavar="CAPTURE")
    parser.add_argument("--places", type=int, default=50, help="at so many places (default %(default)s)")
    asked = parser.parse_args()
    print(
        f"{'capture':<32}{'packets':>8}{'logged':>8}{'placed':>8}{'expected':>10}{'lost':>6}{'unanswered':>11}{'invented':>9}"
    )
    for path in asked.captures:
        logged = Logged(path)
        cut = logged.begun_anywhere(asked.places, seed=len(path.name))
        placed = sum(map(len, logged.places.values()))
        print(
            f"{path.stem:<32}{len(logged.whole.number):>8}{len(log_of(path)):>8}{placed:>8}{cut.expected:>10,}"
            f"{cut.lost.total():>6}{cut.unanswered:>11}{len(cut.invented):>9}",
            flush=True,
        )
        for why, count in cut.lost.items():
            print(f"    {count} lost: {why}")
        for each in cut.invented[:5]:
            print("    invented:", each)


if __name__ == "__main__":
    main()
