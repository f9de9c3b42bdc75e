"""Both ways of reading packets say the same: all at once as columns, and one by one."""

from __future__ import annotations

from pathlib import Path

import dpkt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark.capture.source import open_capture
from kshark.link import Link
from kshark.link.columns import KEY_WORDS, ordinary
from kshark.link.layers import read_packet
from kshark.link.packet import ReadResult, Segment
from kshark.model import PacketBatch
from tests.examples import as_many
from tests.link.frames import LAYOUTS, UNCOMMON, Tcp, ethernet, ipv4, ipv6, packet
from tests.packets import Packet, batch
from tests.shared import SHARED_CAPTURES, shared

V4 = ("10.0.0.1", "10.0.0.9", "192.168.77.3")
V6 = ("2001:db8::1", "fe80::9", "::ffff:10.0.0.1")


@st.composite
def segments(draw: st.DrawFn) -> Tcp:
    addresses = st.sampled_from(draw(st.sampled_from((V4, V6))))
    return Tcp(
        draw(addresses),
        draw(addresses),
        (draw(st.integers(0, 3)), draw(st.integers(0, 65535))),
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(0, 255)),
        draw(st.binary(max_size=30)),
        draw(st.sampled_from([b"", bytes(4), bytes(12), bytes(40)])),
    )


@st.composite
def packets(draw: st.DrawFn) -> Packet:
    """A packet of any layout, perhaps with odd headers, perhaps snapped, padded or with some bytes changed."""
    link_type, wrap = draw(st.sampled_from(list(LAYOUTS.values())))
    tcp = draw(segments())
    data = bytearray(wrap(tcp))
    match draw(st.integers(0, 5)):
        case 0:
            link_type = 101
            odd = ipv4(tcp, options=bytes(4)) if tcp.version == 4 else ipv6(tcp, extensions=((60, b"\0" + bytes(6)),))
            data = bytearray(odd)
        case 1:
            link_type = 101
            data = bytearray(ipv4(tcp, total=0) if tcp.version == 4 else ipv6(tcp, payload_length=0))
        case 2:
            data += bytes(draw(st.integers(1, 20)))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        data[draw(st.integers(0, min(160, len(data) - 1)))] = draw(st.integers(0, 255))
    wire = len(data) + draw(st.sampled_from([0, 0, 0, -3, 5]))
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    return packet(bytes(data), link_type, wire=max(0, wire))


def read_each(packets: PacketBatch) -> list[ReadResult]:
    columns = (packets.offset, packets.length, packets.wire_length, packets.link_type)
    return [read_packet(packets.buffer, *row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def one_by_one(packets: PacketBatch) -> dict[int, Segment]:
    return {row: found for row, found in enumerate(read_each(packets)) if isinstance(found, Segment)}


def all_at_once(packets: PacketBatch) -> dict[int, Segment]:
    out = {}
    for part in ordinary(packets).segments:
        for at, row in enumerate(part.row.tolist()):
            numbers = (part.seq, part.ack, part.flags, part.window, part.offset, part.length, part.missing)
            assert row not in out, "a row twice"
            out[row] = Segment(
                part.key[:, at].astype("<u8").tobytes(), *(int(column[at]) for column in numbers), short=0
            )
    return out


def link_stage(packets: PacketBatch, *, exact: bool) -> list[object]:
    """All that the stage says of a batch."""
    link = Link(exact=exact)
    found, weirds = link.feed(packets)
    weirds += link.close()
    counts = link.packets, link.tcp, link.fragments, link.other, link.unread
    assert link.packets == link.tcp + link.fragments + link.other.total() + link.unread.total()
    if found is None:
        return [counts, weirds]
    columns = (found.packet, found.path, found.seq, found.ack, found.flags, found.offset, found.length, found.missing)
    return [counts, weirds, *zip(*(column.tolist() for column in columns), strict=True)]


def assert_both_ways_agree(rows: list[Packet]) -> None:
    made = batch(rows)

    exact, quick = one_by_one(made), all_at_once(made)

    assert quick == {row: exact.get(row) for row in quick}
    assert link_stage(made, exact=False) == link_stage(made, exact=True)


@settings(max_examples=as_many(50))
@given(rows=st.lists(packets(), min_size=1, max_size=12))
def test_what_is_read_as_columns_is_what_is_read_one_by_one(rows: list[Packet]) -> None:
    assert_both_ways_agree(rows)


@pytest.mark.slow
@settings(max_examples=4000)
@given(rows=st.lists(packets(), min_size=1, max_size=20))
def test_what_is_read_as_columns_is_what_is_read_one_by_one_thoroughly(rows: list[Packet]) -> None:
    assert_both_ways_agree(rows)


@settings(max_examples=as_many(30))
@given(rows=st.lists(packets(), min_size=1, max_size=12), cuts=st.lists(st.integers(1, 4), max_size=5))
def test_batches_of_any_size_give_the_same_segments_and_paths(rows: list[Packet], cuts: list[int]) -> None:
    whole, parts = Link(), Link()
    at, paths, sizes = 0, [], [*cuts, len(rows)]
    while at < len(rows):
        size = sizes.pop(0)
        found, _ = parts.feed(batch(rows[at : at + size], at + 1))
        at += size
        if found is not None:
            paths += list(zip(found.packet.tolist(), found.path.tolist(), found.seq.tolist(), strict=True))

    together, _ = whole.feed(batch(rows))

    expected = (
        list(zip(together.packet.tolist(), together.path.tolist(), together.seq.tolist(), strict=True))
        if together
        else []
    )
    assert paths == expected
    assert (parts.other, parts.unread) == (whole.other, whole.unread)
    assert [parts.ends[path >> 1] for _, path, _ in paths] == [whole.ends[path >> 1] for _, path, _ in expected]


#: Layouts that are uncommon enough to be read one by one.
ONE_BY_ONE = {
    "ethernet, three tags",
    "ethernet, snap",
    "ethernet, mpls",
    "ethernet, pppoe",
    "ppp",
    "ppp, compressed",
    "pppoe",
    *UNCOMMON,
}
#: Those that are not always as their name says.
SOMETIMES = {"ah", "802.2 ip"}


@pytest.mark.parametrize("layout", sorted(LAYOUTS.keys() - SOMETIMES))
def test_the_common_layouts_are_read_as_columns(layout: str) -> None:
    link_type, wrap = LAYOUTS[layout]
    made = batch([packet(wrap(Tcp()), link_type), packet(wrap(Tcp(source="::1", target="::2")), link_type)])

    assert len(all_at_once(made)) == (0 if layout in ONE_BY_ONE else 2)


@settings(max_examples=as_many(40))
@given(tcp=segments(), tags=st.sampled_from([(), (0x8100,), (0x88A8, 0x8100)]))
def test_dpkt_sees_the_same_segment(tcp: Tcp, tags: tuple[int, ...]) -> None:
    data = ethernet(tcp, tags)
    theirs = dpkt.ethernet.Ethernet(data).data.data

    ours = read_packet(data, 0, len(data), len(data), 1)

    assert isinstance(ours, Segment)
    assert (ours.seq, ours.ack, data[ours.offset : ours.offset + ours.length]) == (theirs.seq, theirs.ack, theirs.data)
    assert int.from_bytes(ours.key[32:34], "big") == theirs.sport


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_lies_behind_a_packet_says_nothing_of_it(layout: str) -> None:
    link_type, wrap = LAYOUTS[layout]
    data = wrap(Tcp())
    for size in range(len(data)):
        alone = read_packet(data[:size], 0, size, len(data), link_type)
        assert read_packet(data, 0, size, len(data), link_type) == alone, size


def real_captures() -> list[Path]:
    """Of link layers that are read all at once."""
    shared("captures")
    small = [path for path in SHARED_CAPTURES if path.stat().st_size < 300_000]
    return [path for path in small if path.parent.name != "encap"]


@pytest.mark.sweep
def test_both_ways_agree_on_real_captures() -> None:
    """Tunnels and uncommon link layers are read one by one only; what is read as columns is the same."""
    packets_read = 0
    for path in real_captures():
        for item in open_capture(path):
            if not isinstance(item, PacketBatch):  # the file is cut
                continue
            columns, rows = all_at_once(item), one_by_one(item)
            assert columns.items() <= rows.items(), path
            assert columns == rows or path.parent.name == "field", path
            packets_read += len(columns)
    assert packets_read > 10_000


def test_a_key_is_five_words_in_both_ways() -> None:
    made = batch([packet(ethernet(Tcp()))])
    [part] = ordinary(made).segments

    assert part.key.shape == (KEY_WORDS, 1)
    assert part.key.dtype == np.uint64
    assert len(one_by_one(made)[0].key) == 8 * KEY_WORDS
