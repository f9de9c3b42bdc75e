"""Fields of headers that few packets have: fragments, and counts of what comes many at once."""

from __future__ import annotations

from struct import pack

import pytest

from kshark.link import Link
from tests.link.frames import Tcp, ethernet, ipv4, ipv6, one, packet
from tests.packets import batch

RAW = 101
V6 = Tcp("::1", "::2")
FRAGMENT = 44


def fragment(field: int) -> bytes:
    """An IPv6 packet whose fragment header says that: offset in units of 8 bytes, two reserved bits, M (RFC 8200,
    section 4.5)."""
    return ipv6(V6, extensions=((FRAGMENT, b"\0" + pack(">HI", field, 7)),))


@pytest.mark.parametrize("field", [0x0001, 0x0008, 0x0009, 0x8000, 0xFFF8])
def test_a_piece_of_an_ipv6_packet_is_no_whole_segment(field: int) -> None:
    """The first one too, which has the TCP header: only M says that more follow."""
    link = Link()
    assert link.feed(one(fragment(field), RAW))[0] is None
    assert link.tcp == 0


@pytest.mark.parametrize("field", [0x0000, 0x0002, 0x0004, 0x0006])
def test_a_fragment_header_on_a_whole_packet_hides_nothing(field: int) -> None:
    """An atomic fragment (RFC 6946); receivers ignore the reserved bits."""
    segments, weirds = Link().feed(one(fragment(field), RAW))
    assert segments is not None
    assert (segments.length.tolist(), weirds) == ([len(V6.payload)], [])


@pytest.mark.parametrize("field", [0x2000, 0x0001, 0x1FFF, 0x2001])
@pytest.mark.parametrize("wrap", [bytes, lambda data: b"\0" * 12 + b"\x08\0" + data], ids=["raw", "ethernet"])
def test_a_piece_of_an_ipv4_packet_is_no_whole_segment(wrap, field: int) -> None:
    """In both ways of reading: MF is set in all but the last, which has an offset (RFC 791)."""
    link_type = RAW if wrap is bytes else 1
    for exact in (False, True):
        link = Link(exact=exact)
        assert link.feed(one(wrap(ipv4(Tcp(), fragment=field)), link_type))[0] is None
        assert link.tcp == 0


@pytest.mark.parametrize("field", [0x4000, 0x8000, 0xC000])
def test_a_packet_that_must_not_be_cut_is_whole(field: int) -> None:
    for exact in (False, True):
        link = Link(exact=exact)
        assert link.feed(one(ipv4(Tcp(), fragment=field), RAW))[0] is not None


def test_packets_of_another_protocol_are_counted_each() -> None:
    for exact in (False, True):
        link = Link(exact=exact)
        link.feed(batch([packet(ipv4(Tcp(), protocol=17), RAW)] * 5 + [packet(ipv4(Tcp(), protocol=1), RAW)] * 2))
        assert (link.other.total(), sorted(link.other.values())) == (7, [2, 5])


def test_bytes_cut_by_the_snap_length_are_added_up() -> None:
    """The first packet is told by itself, those behind it together: from which on, up to which, how many bytes."""
    whole = ethernet(Tcp(payload=bytes(100)))
    cut = [packet(whole[: len(whole) - size], wire=len(whole)) for size in (10, 20, 30)]
    link = Link()
    _, weirds = link.feed(batch([*cut, packet(whole)]))
    told = [(weird.first_packet, weird.packet, weird.size) for weird in (*weirds, *link.close())]
    assert told == [(1, 1, 10), (2, 3, 50)]
