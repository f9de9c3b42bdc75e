"""IP packets in fragments: put together in any order, once, within bounds; what stays in pieces is told."""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark import limits
from kshark.link import Link
from kshark.model import Weird
from tests.examples import as_many
from tests.link.frames import Tcp, ethernet, ethernet_of, ip, ipv4, ipv6, outer, packet, udp, vxlan
from tests.packets import START_NS, Packet, Wire, batch, batches
from tests.packets import Tcp as Connection
from tests.property.event_values import event_values

RAW = 101
V4, V6 = Tcp(payload=bytes(range(250))), Tcp("2001:db8::1", "2001:db8::2", payload=bytes(range(250)))


def pieces(whole: bytes, sizes: list[int], number: int = 7) -> list[bytes]:
    """An IP packet cut into fragments of these sizes, in units of 8 bytes, and the rest."""
    header, payload = (20, whole[20:]) if whole[0] >> 4 == 4 else (40, whole[40:])
    edges = [0]
    for size in sizes:
        if edges[-1] + 8 * size < len(payload):
            edges.append(edges[-1] + 8 * size)
    return [
        piece(whole[:header], payload[a:z], a, z < len(payload), number)
        for a, z in zip(edges, [*edges[1:], len(payload)], strict=True)
    ]


def piece(header: bytes, data: bytes, at: int, more: bool, number: int = 7) -> bytes:
    """A fragment with the rest of that IP header."""
    if header[0] >> 4 == 4:
        return header[:2] + struct.pack(">HHH", 20 + len(data), number, more << 13 | at >> 3) + header[8:20] + data
    extension = struct.pack(">BBHI", header[6], 0, at | more, number)
    return header[:4] + struct.pack(">HB", 8 + len(data), 44) + header[7:40] + extension + data


def told(link: Link, *batches: list[Packet]) -> tuple[list[tuple[int, int, bytes, int]], list[Weird]]:
    """Packet, sequence number, payload and missing bytes of all segments, and what was wrong, until the capture
    ends."""
    segments, weirds, first = [], list[Weird](), 1
    for rows in batches:
        found, odd = link.feed(batch(rows, first))
        first += len(rows)
        weirds += odd
        if found is not None:
            columns = (found.packet, found.seq, found.offset, found.length, found.missing)
            for number, seq, at, length, missing in zip(*(column.tolist() for column in columns), strict=True):
                segments.append((number, seq, found.buffer[at : at + length], missing))
    weirds += link.close()
    assert link.packets == link.tcp + link.fragments + link.other.total() + link.unread.total()
    return segments, weirds


def raw(*parts: bytes) -> list[Packet]:
    return [packet(part, RAW, time_ns=START_NS + at) for at, part in enumerate(parts)]


@pytest.mark.parametrize("tcp", [V4, V6], ids=["IPv4", "IPv6"])
@given(sizes=st.lists(st.integers(1, 8), max_size=20), seed=st.integers(0, 99), cuts=st.integers(1, 6))
@settings(max_examples=as_many(30))
def test_fragments_in_any_order_and_any_batches_are_the_packet(
    tcp: Tcp, sizes: list[int], seed: int, cuts: int
) -> None:
    parts = raw(*pieces(ip(tcp), [1, *sizes]))
    Random(seed).shuffle(parts)

    segments, weirds = told(Link(), *(parts[at : at + cuts] for at in range(0, len(parts), cuts)))

    assert segments == [(len(parts), 1000, tcp.payload, 0)]
    assert [weird for weird in weirds if weird.code != "TIME_DISORDER"] == []


def test_two_packets_in_turn_are_told_apart_by_their_identification() -> None:
    one, two = pieces(ip(V4), [10, 10]), pieces(ip(replace(V4, seq=5, payload=bytes(200))), [10, 10], number=8)

    segments, weirds = told(Link(), raw(one[0], two[0], one[1], two[1], two[2], one[2]))

    assert segments == [(5, 5, bytes(200), 0), (6, 1000, V4.payload, 0)]
    assert weirds == []


def test_ordinary_packets_in_between_keep_their_places() -> None:
    parts = pieces(ip(V4), [10, 10])
    between = ip(replace(V4, seq=5))

    segments, _ = told(Link(), raw(parts[0], between, parts[1], between, parts[2], between))

    assert [(number, seq) for number, seq, _, _ in segments] == [(2, 5), (4, 5), (5, 1000), (6, 5)]
    assert {payload for _, _, payload, _ in segments} == {V4.payload}


@pytest.mark.parametrize("order", ["each twice", "all again"])
def test_what_was_captured_twice_is_one_packet(order: str) -> None:
    parts = pieces(ip(V4), [10, 10])
    twice = [part for part in parts for _ in range(2)] if order == "each twice" else [*parts, *parts]

    segments, weirds = told(Link(), raw(*twice))

    assert [payload for _, _, payload, _ in segments] == [V4.payload]
    assert weirds == []


def test_a_tunnel_may_be_in_fragments_and_what_is_in_it_again() -> None:
    inner = [ethernet_of(part) for part in pieces(ip(V4), [20])]
    parts = [part for number, one in enumerate(inner) for part in pieces(vxlan(one), [9], number)]

    segments, weirds = told(Link(), raw(*parts))

    assert segments == [(4, 1000, V4.payload, 0)]
    assert weirds == []


def test_bytes_that_the_snap_length_cut_off_are_missing() -> None:
    parts = [packet(part, RAW) for part in pieces(ip(V4), [20])]
    parts[1] = Packet(START_NS, parts[1].data[:-40], parts[1].wire_length, RAW)

    segments, _ = told(Link(), parts)

    assert segments == [(2, 1000, V4.payload[:-40], 40)]


def test_a_fragment_that_never_comes_is_told_with_those_that_did() -> None:
    parts = pieces(ip(V4), [5, 5, 5])
    segments, [weird] = told(link := Link(), raw(parts[0], *parts[2:]))

    assert segments == []
    assert (weird.code, weird.times, weird.size, weird.packet) == ("IP_FRAGMENT", 3, 230, 3)
    assert "the rest did not come" in weird.detail
    assert dict(link.unread) == {"IP_FRAGMENT": 3}


def test_nobody_waits_longer_than_the_limit() -> None:
    parts = pieces(ip(V4), [5, 5])
    late = [packet(part, RAW, time_ns=START_NS + at * (limits.FRAGMENT_NS + 1)) for at, part in enumerate(parts)]

    segments, weirds = told(Link(), late)

    assert segments == []
    assert [weird.times for weird in weirds if weird.code == "IP_FRAGMENT"] == [1, 1, 1]


def test_a_new_packet_with_an_old_identification_takes_its_place() -> None:
    old, new = pieces(ip(V4), [5]), pieces(ip(replace(V4, seq=9, payload=bytes(250))), [5])

    segments, [weird] = told(Link(), raw(old[0], *new))

    assert segments == [(3, 9, bytes(250), 0)]
    assert (weird.code, weird.times) == ("IP_FRAGMENT", 1)


def test_fragments_that_overlap_are_no_packet() -> None:
    """Which bytes count is different on every system; RFC 5722 forbids it."""
    whole = ip(V4)
    header, payload = whole[:20], whole[20:]
    parts = [piece(header, payload[:80], 0, True), piece(header, payload[72:], 72, False)]

    segments, [weird] = told(Link(), raw(*parts))

    assert segments == []
    assert (weird.code, weird.times) == ("IP_FRAGMENT", 2)
    assert "overlap" in weird.detail


@pytest.mark.parametrize(("size", "more"), [(0, True), (0, False), (9, True)])
def test_fragments_that_cannot_be_are_told_at_once(size: int, more: bool) -> None:
    for tcp in (V4, V6):
        whole = ip(tcp)
        _, [weird] = told(Link(), raw(piece(whole[: 20 if tcp is V4 else 40], bytes(size), 8, more)))
        assert weird.code == "HEADER_INVALID"


def test_a_packet_longer_than_can_be_is_given_up() -> None:
    header = ip(V4)[:20]
    parts = [piece(header, bytes(at % 251 for at in range(8000)), at, True) for at in range(0, 65_000, 8000)]

    segments, weirds = told(Link(), raw(*parts))

    assert segments == []
    assert sum(weird.times for weird in weirds) == len(parts)


def test_endless_fragments_take_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and bytes are counted; those waiting longest are given up."""
    monkeypatch.setattr(limits, "FRAGMENTS", 50)
    monkeypatch.setattr(limits, "FRAGMENT_BYTES", 5_000)
    link, header = Link(), ip(V4)[:20]
    for number in range(500):
        link.feed(batch(raw(piece(header, bytes(800 if number % 2 else 8), 8, True, number))))
        held = link.fragments
        assert held <= 50
    assert link.unread["IP_FRAGMENT"] > 400
    assert sum(weird.times for weird in link.close()) == 500


def test_the_same_fragment_without_end_takes_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FRAGMENTS", 50)
    link, one = Link(), pieces(ip(V4), [5])[0]
    for _ in range(500):
        link.feed(batch(raw(one)))
        assert link.fragments <= 50


def test_fragments_of_what_holds_no_tcp_are_what_they_are() -> None:
    link = Link()
    told(link, raw(ipv4(V4, fragment=0x2000, protocol=1), *pieces(outer(17, udp(53, bytes(100))[20:]), [3])))
    assert (dict(link.other), link.fragments) == ({"ICMP": 1, "UDP": 1}, 1)


@settings(max_examples=as_many(60))
@given(data=st.data())
def test_whatever_fragments_say_every_packet_is_accounted_for(data: st.DataObject) -> None:
    header = st.sampled_from([ip(V4)[:20], ip(V6)[:40]])
    some = st.builds(
        piece,
        header,
        st.binary(max_size=40),
        st.integers(0, 6).map(lambda at: at * 8),
        st.booleans(),
        st.integers(1, 3),
    )
    parts = raw(*data.draw(st.lists(some, max_size=30)))
    cut = data.draw(st.integers(0, len(parts)))

    once, odd = told(Link(), parts)
    again, as_odd = told(Link(exact=True), parts[:cut], parts[cut:])

    assert (once, odd) == (again, as_odd)


def test_an_atomic_fragment_needs_no_other() -> None:
    segments, weirds = told(Link(), raw(ipv6(V6, extensions=((44, bytes(7)),)), ethernet(V6)[14:]))
    assert [payload for _, _, payload, _ in segments] == [V6.payload] * 2
    assert weirds == []


def test_fragments_that_time_gave_up_are_told_at_the_end_however_packets_are_fed() -> None:
    """A clock that leaps shows it: with which packet depends on how many came before it."""
    wire = Wire()
    Connection(wire).open()
    alone = replace(raw(piece(ip(V4)[:20], bytes(8), 8, True))[0], time_ns=wire.packets[0].time_ns)
    packets = [alone, *wire.packets]
    packets += [replace(one, time_ns=one.time_ns + 10 * limits.FRAGMENT_NS) for one in packets]
    whole = event_values(batches(packets, []))
    assert any(isinstance(one, bytes) and b"IP_FRAGMENT" in one for one in whole)
    for size in (1, 2, 3):
        assert event_values(batches(packets, [size] * len(packets))) == whole
