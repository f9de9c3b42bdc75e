"""What a capture does not hold leaves a gap, also at the end of a direction, where a later packet of either side shows
that it was sent.

First by hand; then real captures, each without one packet. The witness for those is a plain loop over the segments of a
connection, which knows nothing of how they are reassembled."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from kshark.capture import open_captures
from kshark.link import Link
from kshark.link.ends import EndsTable
from kshark.model import ACK, FIN, RST, SYN, Ends, Gap, PacketBatch, Segments
from kshark.reassembly import Reassembly
from tests.reassembly.conversation import BROKER, CLIENT, Hole, Talk
from tests.shared import CAPTURES

TALKING = sorted(path for path in CAPTURES.glob("*.pcap") if path.stat().st_size < 300_000)


# -- by hand


def test_bytes_before_a_fin_are_missing() -> None:
    talk = Talk().open()
    last = talk.client(b"abc")
    fin = talk.fin(CLIENT, at=9)
    heard = talk.heard()
    assert heard.client == [b"abc", Hole(6, "at_close")]
    assert heard.gaps == [(CLIENT, 6, last, fin, fin)]
    assert heard.ends == [("opened", 1), ("half closed", fin, CLIENT), ("closed", fin, "capture", None)]


def test_a_hole_before_a_fin_is_given_up_as_any_other() -> None:
    talk = Talk().open()
    fin = talk.fin(CLIENT, at=6)
    talk.broker(acked=7)
    talk.pause(2)
    closed = talk.fin(BROKER, acked=7)
    heard = talk.heard()
    assert heard.client == [Hole(6, "missing")]
    assert heard.ends == [("opened", 1), ("half closed", fin, CLIENT), ("closed", closed, "fin", CLIENT)]


def test_the_bytes_before_a_fin_may_still_come() -> None:
    talk = Talk().open()
    talk.fin(CLIENT, at=6)
    talk.client(b"def", at=3)
    last = talk.client(b"abc", at=0)
    closed = talk.fin(BROKER)
    heard = talk.heard()
    assert heard.client == [b"abcdef"]
    assert heard.ends == [("opened", 1), ("half closed", last, CLIENT), ("closed", closed, "fin", CLIENT)]


@pytest.mark.parametrize("end", ["capture", "rst", "fin", "reused"])
def test_an_answer_that_was_acknowledged_was_sent_even_if_nothing_follows_it(end: str) -> None:
    talk = Talk().open()
    talk.client(b"what?")
    known = talk.broker(b"that")
    talk.client(b"what else?")
    talk.client(acked=30)
    match end:
        case "rst":
            talk.rst(CLIENT)
        case "fin":
            talk.fin(CLIENT, acked=30)
            talk.fin(BROKER, at=30)
        case "reused":
            talk.open((70_000, 90_000))
    heard = talk.heard()
    assert heard.broker == [b"that", Hole(26, "at_close")]
    ((side, size, first, last, told),) = heard.gaps
    closed = next(packet for kind, packet, *_ in heard.ends if kind == "closed")
    assert (side, size, first, last, told) == (BROKER, 26, known, closed, closed)


def test_a_reset_beyond_the_last_byte_shows_what_is_missing_before_it() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    reset = talk.rst(CLIENT, at=10)
    heard = talk.heard()
    assert heard.client == [b"abc", Hole(7, "at_close")]
    assert heard.ends[-1] == ("closed", reset, "rst", CLIENT)


def test_a_side_that_only_acknowledges_from_farther_on_has_sent_more() -> None:
    talk = Talk().open()
    talk.broker(b"abc")
    talk.broker(at=50)
    assert talk.heard().broker == [b"abc", Hole(47, "at_close")]


@pytest.mark.parametrize("handshake", [True, False])
def test_a_direction_that_was_never_captured_is_a_gap(handshake: bool) -> None:
    talk = Talk()
    if handshake:
        talk.send(CLIENT, at=-1, flags=SYN)
    talk.client()
    for _ in range(20):
        talk.client(b"what?")
        talk.sent[BROKER] += 100
    last = talk.client()
    heard = talk.heard()
    assert heard.broker == [Hole(2000, "at_close")]
    assert heard.gaps == [(BROKER, 2000, 1, last, last)]


def test_of_a_direction_that_was_never_captured_more_than_numbers_can_tell_is_missing() -> None:
    talk = Talk().open()
    for _ in range(12):
        talk.client(b"what?")
        talk.sent[BROKER] += 1 << 28
    talk.client()
    assert talk.fed([5, 5]).broker == [Hole(-1, "at_close")]


def test_the_first_bytes_of_an_older_connection_were_acknowledged_and_are_missing() -> None:
    talk = Talk()
    talk.client(b"what?")
    talk.client(acked=10)
    talk.client(b"what else?", acked=10)
    talk.broker(b"that", at=10)
    assert talk.heard().broker == [Hole(10, "at_close"), b"that"]


# -- the FIN alone


def test_only_the_clients_fin_was_lost() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.sent[CLIENT] += 1
    closed = talk.fin(BROKER, b"123")
    talk.client()
    heard = talk.heard()
    assert heard.gaps == []
    assert heard.ends == [("opened", 1), ("half closed", closed, CLIENT), ("closed", closed, "fin", CLIENT)]


def test_a_fin_that_was_lost_shows_also_where_the_other_is_in_the_syn() -> None:
    talk = Talk()
    talk.send(CLIENT, at=-1, flags=SYN | FIN | ACK)
    closed = talk.client(at=0, acked=1)
    assert talk.heard().ends == [("opened", 1), ("half closed", 1, CLIENT), ("closed", closed, "fin", CLIENT)]


def test_only_the_brokers_fin_was_lost() -> None:
    talk = Talk().open()
    half = talk.fin(CLIENT, b"abc")
    talk.broker(b"123")
    talk.sent[BROKER] += 1
    closed = talk.client()
    talk.client()
    heard = talk.heard()
    assert heard.gaps == []
    assert heard.ends == [("opened", 1), ("half closed", half, CLIENT), ("closed", closed, "fin", CLIENT)]


@pytest.mark.parametrize("end", ["capture", "rst"])
def test_one_number_alone_is_that_of_a_fin(end: str) -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.broker(acked=4)
    if end == "rst":
        talk.rst(CLIENT, at=4)
    heard = talk.heard()
    assert (heard.gaps, heard.ends[-1][2]) == ([], end)


# -- what shows nothing


def test_a_keep_alive_shows_nothing() -> None:
    talk = Talk().open()
    talk.client(b"abc")
    talk.client(at=2)
    talk.broker()
    talk.broker(at=-1)
    assert talk.heard().gaps == []


def test_an_acknowledgement_from_outside_every_window_shows_nothing() -> None:
    talk = Talk().open()
    talk.broker(b"abc")
    talk.client(at=1 << 30 | 1, acked=1 << 20)
    assert talk.heard().gaps == []


def test_a_reset_that_refuses_a_connection_shows_nothing() -> None:
    talk = Talk()
    talk.send(CLIENT, at=-1, flags=SYN)
    talk.send(BROKER, flags=RST | ACK, at=-5_001, acked=0)
    assert talk.heard().gaps == []


# -- real captures


@dataclass
class Captured:
    segments: list[Segments]
    link: Link

    @classmethod
    def load(cls, path: Path) -> Captured:
        link = Link()
        batches = [link.feed(item)[0] for item in open_captures([path]) if isinstance(item, PacketBatch)]
        return cls([segments for segments in batches if segments is not None], link)

    def without(self, packets: set[int]) -> Iterator[Segments]:
        for each in self.segments:
            kept = ~np.isin(each.packet, list(packets))
            columns = {
                name: getattr(each, name)[kept] for name in each.__struct_fields__ if name not in ("buffer", "ends")
            }
            yield replace(each, **columns)

    def gaps(self, packets: set[int]) -> set[tuple[str, str]]:
        """Who lost bytes to whom without these packets."""
        stage = Reassembly()
        items = [item for each in self.without(packets) for item in stage.feed(each).items]
        items += stage.close(self.link.end).items
        return {(item.flow.ends[item.side], item.flow.ends[1 - item.side]) for item in items if isinstance(item, Gap)}

    def rows(self) -> list[Row]:
        return [
            Row(*(int(getattr(each, name)[at]) for name in ("packet", "path", "seq", "ack", "flags", "length")))
            for each in self.segments
            for at in range(len(each.packet))
        ]


@dataclass
class Row:
    packet: int
    path: int
    seq: int
    ack: int
    flags: int
    length: int


def beyond(a: int, b: int) -> int:
    """How far `a` is behind `b` in the stream's own direction, as a signed number."""
    return (a - b + (1 << 31)) % (1 << 32) - (1 << 31)


def is_shown(lost: Row, connection: list[Row]) -> bool:
    """Whether the connection's other packets tell that `lost` was sent: where its stream was before, and that it went
    on."""
    at, end = connection.index(lost), lost.seq + lost.length
    own = [row for row in connection if row.path == lost.path and row is not lost]
    if any(row.length and beyond(row.seq, end) < 0 and beyond(row.seq + row.length, lost.seq) > 0 for row in own):
        return False  # sent twice: nothing is lost
    peers = [row for row in connection if row.path != lost.path]
    before = [row for row in connection[:at] if row.path == lost.path and (row.length or row.flags & SYN)]
    answered = [
        row for row in connection[:at] if row.path != lost.path and row.flags & ACK and beyond(row.ack, lost.seq) <= 0
    ]
    if not before and not answered:
        return False
    later = connection[at + 1 :]
    went_on = any(row.path == lost.path and beyond(row.seq, end) >= 0 and not row.flags & RST for row in later)
    return lost.length > 1 and (
        went_on or any(row in peers and row.flags & ACK and beyond(row.ack, end) >= 0 for row in later)
    )


def connections(rows: list[Row]) -> Iterator[list[Row]]:
    """The segments of each pair of ends; pairs that are used twice are left out."""
    by_pair: dict[int, list[Row]] = {}
    for row in rows:
        by_pair.setdefault(row.path >> 1, []).append(row)
    for connection in by_pair.values():
        if len({(row.path, row.seq) for row in connection if row.flags & SYN}) <= 2:
            yield connection


def ends_of(ends: EndsTable, path: int) -> tuple[str, str]:
    both: Ends = ends[path >> 1]
    return both[path & 1], both[1 - (path & 1)]


def unnoticed(captured: Captured, chosen: Random | None = None) -> list[int]:
    """Packets whose bytes were shown to be missing and left no gap; of those `chosen` six are tried."""
    known = captured.gaps(set())
    shown = [
        row
        for connection in connections(captured.rows())
        for row in connection
        if row.length and ends_of(captured.link.ends, row.path) not in known and is_shown(row, connection)
    ]
    assert shown
    tried = shown if chosen is None else chosen.sample(shown, min(6, len(shown)))
    return [row.packet for row in tried if ends_of(captured.link.ends, row.path) not in captured.gaps({row.packet})]


@pytest.mark.sweep(quick=5)
@pytest.mark.parametrize("capture", TALKING, ids=lambda path: path.stem)
def test_a_lost_packet_leaves_a_gap(capture: Path) -> None:
    assert unnoticed(Captured.load(capture), Random(zlib.crc32(capture.name.encode()))) == []


@pytest.mark.slow
@pytest.mark.parametrize("capture", TALKING, ids=lambda path: path.stem)
def test_every_lost_packet_leaves_a_gap(capture: Path) -> None:
    assert unnoticed(Captured.load(capture)) == []
