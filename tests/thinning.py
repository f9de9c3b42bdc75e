"""Captures that miss something: the sniffer's own losses, done on purpose to real captures. What is left keeps its
packet numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from random import Random

import msgspec
import numpy as np
from numpy.typing import NDArray

from kshark.analysis import APIS, Analyzer
from kshark.capture import open_captures
from kshark.link import Link
from kshark.model import FIN, RST, SYN, EndsOf, Event, Exchange, Finding, Message, PacketBatch, Weird, Witness
from kshark.pipeline import JUDGED, Engine, Options
from tests.conversation import registry
from tests.rows import as_the_rows_say

Mask = NDArray[np.bool_]
SHARE_GROUP_HEARTBEAT = 76
SHARE_FETCH = 78


@dataclass(frozen=True)
class Whole:
    """A capture in memory, with the path of each packet (-1: no TCP), its TCP flags, and the ends of each
    connection."""

    batches: list[PacketBatch]
    number: NDArray[np.int64]
    path: NDArray[np.int64]
    flags: NDArray[np.uint8]
    ends: EndsOf

    @classmethod
    def load(cls, capture: Path) -> Whole:
        return cls.of([item for item in open_captures([capture]) if isinstance(item, PacketBatch)])

    @classmethod
    def of(cls, batches: list[PacketBatch]) -> Whole:
        number = np.concatenate([item.number for item in batches])
        path = np.full(len(number), -1, np.int64)
        flags = np.zeros(len(number), np.uint8)
        link = Link()
        for item in batches:
            segments, _ = link.feed(item)
            if segments is not None:
                at = np.searchsorted(number, segments.packet)
                path[at], flags[at] = segments.path, segments.flags
        return cls(batches, number, path, flags, link.ends)

    def thinned(self, keep: Mask) -> Iterator[PacketBatch]:
        at = 0
        for item in self.batches:
            mine = keep[at : at + len(item.number)]
            at += len(item.number)
            if mine.any():
                yield replace(
                    item,
                    number=item.number[mine],
                    time_ns=item.time_ns[mine],
                    link_type=item.link_type[mine],
                    offset=item.offset[mine],
                    length=item.length[mine],
                    wire_length=item.wire_length[mine],
                )

    def everything(self) -> Mask:
        return np.ones(len(self.number), bool)

    def without(self, missing: Iterable[int]) -> Mask:
        """All but the packets at these places."""
        keep = self.everything()
        keep[list(missing)] = False
        return keep

    @cached_property
    def pairs(self) -> list[int]:
        """The pairs of ends that are connected, once or several times."""
        return sorted({path >> 1 for path in self.path.tolist()} - {-1})

    @cached_property
    def endings(self) -> list[int]:
        """The places of every FIN and RST."""
        return [int(at) for at in np.nonzero(self.flags & (FIN | RST))[0]]

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """Those of the APIs that the analysis reads."""
        found = [event for event in events_of(iter(self.batches)) if isinstance(event, Exchange)]
        return [it for it in found if it.request is not None and it.request.api_key in APIS]

    @cached_property
    def heartbeat_answers(self) -> list[list[int]]:
        return [
            self.places(it.response)
            for it in self.exchanges
            if it.response is not None and it.response.api_key == SHARE_GROUP_HEARTBEAT
        ]

    @cached_property
    def openings(self) -> list[list[int]]:
        """The requests that open a share session, with their answers."""
        return [
            [*self.places(it.request), *([] if it.response is None else self.places(it.response))]
            for it in self.exchanges
            if it.request is not None
            and it.request.api_key == SHARE_FETCH
            and getattr(it.request.body, "share_session_epoch", None) == 0
        ]

    def places(self, message: Message) -> list[int]:
        """Where the packets of a message lie."""
        first, last = (message.packet,) * 2 if message.packets is msgspec.UNSET else message.packets
        begin, end = (int(np.searchsorted(self.number, number)) for number in (first, last))
        return [at for at in range(begin, end + 1) if self.path[at] == self.path[end]]


#: What is missing, in words, and what is left.
Loss = tuple[str, Mask]


def _packet(whole: Whole, random: Random) -> Loss:
    at = random.randrange(len(whole.number))
    return f"without packet {whole.number[at]}", whole.without([at])


def _run(whole: Whole, random: Random) -> Loss:
    at, length = random.randrange(len(whole.number)), random.choice((2, 3, 5, 10, 30, 100))
    end = min(at + length, len(whole.number))
    return f"without packets {whole.number[at]} to {whole.number[end - 1]}", whole.without(range(at, end))


def _beginning(whole: Whole, random: Random) -> Loss:
    at = random.randrange(len(whole.number))
    return f"from packet {whole.number[at]} on", whole.without(range(at))


def _end(whole: Whole, random: Random) -> Loss:
    at = random.randrange(len(whole.number))
    return f"before packet {whole.number[at]}", whole.without(range(at, len(whole.number)))


def _direction(whole: Whole, random: Random) -> Loss:
    path = random.choice(whole.pairs) * 2 + random.randrange(2)
    return f"without direction {path}", whole.path != path


def _direction_from(whole: Whole, random: Random) -> Loss:
    path = random.choice(whole.pairs) * 2 + random.randrange(2)
    places = np.nonzero(whole.path == path)[0]
    if not len(places):
        return _packet(whole, random)
    at = random.randrange(len(places))
    return f"without direction {path} from packet {whole.number[places[at]]} on", whole.without(places[at:])


def _connection(whole: Whole, random: Random) -> Loss:
    pair = random.choice(whole.pairs)
    return f"without connection {pair}", (whole.path >> 1) != pair


def _ending(whole: Whole, random: Random) -> Loss:
    if not whole.endings:
        return _packet(whole, random)
    at = random.choice(whole.endings)
    return f"without the FIN or RST in packet {whole.number[at]}", whole.without([at])


def _endings(whole: Whole, random: Random) -> Loss:
    pair = random.choice(whole.pairs)
    missing = [at for at in whole.endings if whole.path[at] >> 1 == pair]
    return f"without the FIN and RST of connection {pair}", whole.without(missing)


def _heartbeat(whole: Whole, random: Random) -> Loss:
    if not whole.heartbeat_answers:
        return _packet(whole, random)
    places = random.choice(whole.heartbeat_answers)
    return f"without the heartbeat's answer in packet {whole.number[places[-1]]}", whole.without(places)


def _opening(whole: Whole, random: Random) -> Loss:
    if not whole.openings:
        return _packet(whole, random)
    places = random.choice(whole.openings)
    part, missing = random.choice((("", places), ("the request of ", places[:1]), ("the answer of ", places[1:])))
    return f"without {part}the opening in packet {whole.number[places[0]]}", whole.without(missing)


def _every_nth(whole: Whole, random: Random) -> Loss:
    step = random.choice((2, 3, 5, 10, 20, 50))
    first = random.randrange(step)
    return f"without every {step}th packet from place {first} on", whole.without(range(first, len(whole.number), step))


def _share(whole: Whole, random: Random) -> Loss:
    percent = random.choice((1, 5, 20))
    return f"without {percent} %", whole.without(
        [at for at in range(len(whole.number)) if random.random() * 100 < percent]
    )


def _all_flags(whole: Whole, random: Random) -> Loss:
    flags = random.choice((SYN, FIN | RST, SYN | FIN | RST))
    return f"without any packet with flags {flags}", (whole.flags & flags) == 0


def _connections(whole: Whole, random: Random) -> Loss:
    share = random.choice((0.1, 0.3, 0.5))
    gone = [pair for pair in whole.pairs if random.random() < share]
    return f"without connections {gone}", ~np.isin(whole.path >> 1, gone)


def _broker(whole: Whole, random: Random) -> Loss:
    """The end of most connections is a broker."""
    often = Counter(end for pair in whole.pairs for end in whole.ends[pair])
    gone = random.choice([end for end, count in often.items() if count > 1] or [*often])
    return f"without {gone}", ~np.isin(whole.path >> 1, [pair for pair in whole.pairs if gone in whole.ends[pair]])


def _several(whole: Whole, random: Random) -> Loss:
    losses = [random.choice(_OTHERS[:-1])(whole, random) for _ in range(random.randint(2, 4))]
    return " and ".join(words for words, _ in losses), np.logical_and.reduce([keep for _, keep in losses])


_OTHERS: list[Callable[[Whole, Random], Loss]] = [
    *(_run, _direction, _direction_from, _connection, _ending, _endings, _heartbeat, _opening, _beginning, _end),
    *(_every_nth, _share, _all_flags, _connections, _broker, _several),
]


def removals(whole: Whole, random: Random, singles: int, others: int) -> Iterator[Loss]:
    """Ways in which a sniffer may miss something: single packets, then so many of every other kind."""
    for _ in range(singles):
        yield _packet(whole, random)
    for _ in range(others):
        for kind in _OTHERS:
            yield kind(whole, random)


def single_packets(whole: Whole, every: int = 1) -> Iterator[Loss]:
    for at in range(0, len(whole.number), every):
        yield f"without packet {whole.number[at]}", whole.without([at])


def every_removal(whole: Whole) -> Iterator[Loss]:
    """Each single packet, each opening, direction and connection; runs, beginnings and ends at every fifth packet."""
    yield from single_packets(whole)
    for at in range(0, len(whole.number), 5):
        for length in (2, 7, 40):
            yield (
                f"without packets {at + 1} to {at + length}",
                whole.without(range(at, min(at + length, len(whole.number)))),
            )
        yield f"from packet {at + 1} on", whole.without(range(at))
        yield f"up to packet {at}", whole.without(range(at, len(whole.number)))
    for places in whole.openings:
        yield f"without the opening in packet {whole.number[places[0]]}", whole.without(places)
    for path in sorted(set(whole.path.tolist()) - {-1}):
        yield f"without direction {path}", whole.path != path
    for pair in whole.pairs:
        yield f"without connection {pair}", (whole.path >> 1) != pair


def hosts_and_connections(whole: Whole, connections: Collection[int] | None = None) -> Iterator[Loss]:
    """Each connection, or these, and each host or listener with several: a sniffer sees only some hosts."""
    pairs: dict[str, set[int]] = {}
    for pair in whole.pairs:
        if connections is None or pair in connections:
            yield f"without connection {pair}", (whole.path >> 1) != pair
        for end in whole.ends[pair]:
            for name in (end, end.rpartition(":")[0]):
                pairs.setdefault(name, set()).add(pair)
    for name, gone in pairs.items():
        if len(gone) > 1:
            yield f"without {name}", ~np.isin(whole.path >> 1, [*gone])


def pages_of(batches: Iterable[PacketBatch | Weird], options: Options) -> Iterator[list[Event]]:
    return Engine(options, registry()).pages(batches)


def events_of(batches: Iterable[PacketBatch]) -> Iterator[Event]:
    return chain.from_iterable(pages_of(batches, Options(records=False)))


def findings_of(whole: Whole, keep: Mask) -> list[Finding]:
    return findings_in(whole.thinned(keep))


def findings_in(batches: Iterable[PacketBatch | Weird], *, exact: bool = False) -> list[Finding]:
    analyzer = Analyzer(exact=exact)
    found = [finding for page in pages_of(batches, JUDGED) for finding in analyzer.page(page)]
    return as_the_rows_say([*found, *analyzer.close()])


def accused(finding: Finding) -> Witness | None:
    """The exchange that a finding is about: the one it stands at, else the last that it names."""
    at = [
        it
        for it in finding.witness
        if it.flow == finding.flow and finding.packet in (it.response_packet, it.request_packet)
    ]
    named = at or finding.witness
    return named[-1] if named else None


#: Client, broker and correlation id: an exchange, by what does not change when packets are missing.
Place = tuple[str, str, int | None]


def place_of(finding: Finding) -> Place:
    about = accused(finding)
    return finding.client, finding.broker, None if about is None else about.correlation_id


#: Who sent what another one is blamed for.
_SENT_BY = {"network": "client"}


def added(whole: Iterable[Finding], thinned: Iterable[Finding]) -> list[Finding]:
    """Violations of the thinned capture at exchanges where the whole has none of the same code.

    A refusal that the whole explains by somebody's fault may have another explanation by the same one's fault: where
    the packets behind the special cause are missing, the general one is left. A request that its client repeated
    because the network lost the answer was sent by the client all the same: without that answer in sight it is the
    client's alone."""
    known = [finding for finding in whole if finding.verdict == "violation"]
    codes = {(finding.code, place_of(finding)) for finding in known}
    caused = [finding for finding in known if finding.cause is not None]
    explained = {
        (blame, place_of(finding)) for finding in caused for blame in {finding.blame, _SENT_BY.get(finding.blame)}
    }
    return [
        finding
        for finding in thinned
        if finding.verdict == "violation"
        and (finding.code, place_of(finding)) not in codes
        and not (finding.cause is not None and (finding.blame, place_of(finding)) in explained)
    ]
