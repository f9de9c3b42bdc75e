"""Packets go in, segments come out, and every packet is accounted for."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kshark.limits import WEIRDS_PER_FLOW
from kshark.link import Link
from kshark.model import PacketBatch, Weird
from tests.link.frames import LAYOUTS, MACS, Tcp, ethernet, ethernet_of, ipv4, ipv6, one, packet, udp
from tests.packets import START_NS, Packet, batch

V6 = {"source": "2001:db8::1", "target": "2001:db8::2"}


class Seen(NamedTuple):
    source: str
    target: str
    seq: int
    ack: int
    flags: int
    payload: bytes
    missing: int


def see(link: Link, packets: PacketBatch) -> tuple[list[Seen], list[Weird]]:
    segments, weirds = link.feed(packets)
    if segments is None:
        return [], weirds
    seen = []
    for row, path in enumerate(segments.path.tolist()):
        ends, side = link.ends[path >> 1], path & 1
        at, length = int(segments.offset[row]), int(segments.length[row])
        seq, ack, flags, missing = (
            int(column[row]) for column in (segments.seq, segments.ack, segments.flags, segments.missing)
        )
        seen.append(Seen(ends[side], ends[1 - side], seq, ack, flags, segments.buffer[at : at + length], missing))
    assert link.packets == link.tcp + link.fragments + link.other.total() + link.unread.total()
    return seen, weirds


def codes(weirds: list[Weird]) -> list[str]:
    return [weird.code for weird in weirds]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("addresses", [{}, V6], ids=["IPv4", "IPv6"])
def test_a_segment_is_found_in_every_layout(layout: str, addresses: dict[str, str]) -> None:
    tcp = Tcp(**addresses, options=b"\1" * 12)  # type: ignore[arg-type]
    link_type, wrap = LAYOUTS[layout]

    seen, weirds = see(Link(), one(wrap(tcp), link_type))

    source, target = ("[2001:db8::1]", "[2001:db8::2]") if addresses else ("10.0.0.1", "10.0.0.9")
    assert weirds == []
    assert seen == [Seen(f"{source}:50000", f"{target}:9092", 1000, 2000, 16, b"payload", 0)]


@pytest.mark.parametrize(("link_type", "addresses"), [(228, {}), (229, V6)])
def test_link_types_of_one_ip_version_hold_that_one_only(link_type: int, addresses: dict[str, str]) -> None:
    tcp = Tcp(**addresses)  # type: ignore[arg-type]
    right, wrong = (ipv6(tcp), ipv4(Tcp())) if addresses else (ipv4(tcp), ipv6(Tcp(**V6)))  # type: ignore[arg-type]
    link = Link()

    assert [s.payload for s in see(link, one(right, link_type))[0]] == [b"payload"]
    assert codes(see(link, one(wrong, link_type))[1]) == ["HEADER_INVALID"]


def test_ipv4_options_and_ipv6_extension_headers_are_passed_over() -> None:
    hop_by_hop, routing, authentication, atomic = (
        (0, b"\1" + bytes(14)),
        (43, b"\0" + bytes(6)),
        (51, b"\4" + bytes(22)),
        (44, bytes(7)),
    )
    extended = ipv6(Tcp(**V6), extensions=(hop_by_hop, routing, authentication, (60, b"\0" + bytes(6)), atomic))  # type: ignore[arg-type]

    seen, weirds = see(Link(), batch([packet(ipv4(Tcp(), options=bytes(8)), 101), packet(extended, 101)]))

    assert weirds == []
    assert [(s.source, s.payload) for s in seen] == [
        ("10.0.0.1:50000", b"payload"),
        ("[2001:db8::1]:50000", b"payload"),
    ]


def test_padding_behind_a_short_packet_is_not_payload() -> None:
    seen, _ = see(Link(), one(ethernet(Tcp(payload=b"")) + bytes(6)))

    assert [s.payload for s in seen] == [b""]


@pytest.mark.parametrize("addresses", [{}, V6], ids=["IPv4", "IPv6"])
def test_an_ip_length_of_zero_means_as_long_as_it_was_on_the_wire(addresses: dict[str, str]) -> None:
    """Segmentation offload: the packet is larger than its length field can say."""
    tcp = Tcp(**addresses, payload=b"x" * 70_000)  # type: ignore[arg-type]
    data = ipv6(tcp, payload_length=0) if addresses else ipv4(tcp, total=0)

    whole, _ = see(Link(), one(data, 101))
    snapped, weirds = see(Link(), one(data[:1000], 101, wire=len(data)))

    assert (len(whole[0].payload), whole[0].missing) == (70_000, 0)
    assert len(snapped[0].payload) + snapped[0].missing == 70_000
    assert codes(weirds) == ["SNAP_LENGTH_CUT"]


def test_what_the_snap_length_cut_off_is_missing_and_told_once() -> None:
    link = Link()
    data = ethernet(Tcp(payload=b"x" * 100, options=b"\1" * 12))
    packets = [packet(data[:-40], wire=len(data)), packet(data[:60], wire=len(data)), packet(data, wire=len(data))]

    seen, weirds = see(link, batch(packets))

    assert [(len(s.payload), s.missing) for s in seen] == [(60, 40), (0, 100), (100, 0)]
    assert [(w.code, w.packet, w.size) for w in weirds] == [("SNAP_LENGTH_CUT", 1, 40)]
    assert [(w.code, w.packet, w.size) for w in link.close()] == [("SNAP_LENGTH_CUT", 2, 100)]


def test_a_packet_shorter_than_its_ip_header_says_is_a_segment_with_a_hole() -> None:
    seen, weirds = see(Link(), one(ethernet(Tcp(payload=b"x" * 100))[:-30]))

    assert [(len(s.payload), s.missing) for s in seen] == [(70, 30)]
    assert codes(weirds) == ["PACKET_TOO_SHORT", "SNAP_LENGTH_CUT"]


@pytest.mark.parametrize("size", [0, 5, 13, 14, 20, 33, 34, 40, 53])
def test_a_packet_shorter_than_its_headers_is_reported(size: int) -> None:
    link = Link()

    seen, weirds = see(link, one(ethernet(Tcp())[:size]))

    assert seen == []
    assert [(w.code, w.packet, w.size) for w in weirds] == [("PACKET_TOO_SHORT", 1, size)]


@pytest.mark.parametrize(
    ("at", "value"),
    [(14, b"\x44"), (14, b"\x65"), (16, b"\0\x13"), (16, b"\0\x20"), (46, b"\x40"), (46, b"\xf0")],
    ids=[
        "ip header of 16 bytes",
        "version 6",
        "shorter than its header",
        "no room for tcp",
        "tcp header of 16",
        "tcp header beyond",
    ],
)
def test_a_header_that_contradicts_itself_is_reported(at: int, value: bytes) -> None:
    data = bytearray(ethernet(Tcp(payload=b"")))
    data[at : at + len(value)] = value

    seen, weirds = see(Link(), one(bytes(data)))

    assert (seen, codes(weirds)) == ([], ["HEADER_INVALID"])


def test_what_is_not_tcp_is_counted_by_kind() -> None:
    link = Link()
    packets = [
        packet(MACS + b"\x08\x06" + bytes(28)),
        packet(MACS + b"\x88\xcc" + bytes(60)),
        packet(MACS + b"\x00\x10" + bytes(60)),
        packet(MACS + b"\x12\x34" + bytes(60)),
        packet(ipv4(Tcp(), protocol=17), 101),
        packet(ipv6(Tcp(**V6), last=58), 101),  # type: ignore[arg-type]
        packet(b"\xc0\x21" + bytes(30), 9),
        packet(bytes(40), 0),
    ]

    seen, weirds = see(link, batch(packets))

    assert (seen, weirds) == ([], [])
    assert dict(link.other) == {
        "ARP": 1,
        "LLDP": 1,
        "802.2": 1,
        "Ethernet: type 0x1234": 1,
        "UDP": 1,
        "ICMPv6": 1,
        "PPP: protocol 0xc021": 1,
        "address family 0": 1,
    }


def test_what_is_not_read_is_told_at_the_end_with_its_number() -> None:
    link = Link()
    wireguard = packet(ethernet_of(udp(51820, b"\4\0\0\0" + bytes(60))))
    elsewhere = packet(ethernet_of(udp(4711, b"\1\0\0\0" + bytes(144))))

    _, weirds = see(
        link,
        batch(
            [packet(bytes(80), 147), wireguard, wireguard, packet(bytes(80), 147), elsewhere, packet(bytes(80), 220)]
        ),
    )

    assert weirds == []
    assert [(w.code, w.detail, w.first_packet, w.packet, w.times, w.size) for w in link.close()] == [
        ("LINK_TYPE_UNKNOWN", "link type 147 (user-defined)", 1, 4, 2, 160),
        ("ENVELOPE_UNREAD", "UDP: WireGuard", 2, 5, 3, 402),
        ("LINK_TYPE_UNKNOWN", "link type 220 (USB)", None, 6, 1, 80),
    ]


def test_the_first_packet_of_a_kind_is_told_however_it_was_read() -> None:
    """VXLAN's port without its flag is read by itself, other UDP with all of its batch."""
    link = Link()
    see(link, batch([packet(ethernet_of(udp(port, bytes(60)))) for port in (4789, 9)]))
    assert [(w.code, w.first_packet, w.packet, w.times) for w in link.close()] == [("NOT_TCP", 1, 2, 2)]


def test_a_flood_of_bad_packets_is_told_one_by_one_up_to_a_limit() -> None:
    link = Link()
    short = [packet(bytes(10), time_ns=START_NS + at) for at in range(WEIRDS_PER_FLOW + 50)]

    _, weirds = see(link, batch(short))

    assert len(weirds) == WEIRDS_PER_FLOW
    [rest] = link.close()
    assert (rest.code, rest.first_packet, rest.packet, rest.size) == ("PACKET_TOO_SHORT", 101, 150, 500)


def test_segments_without_payload_are_kept_and_all_stay_in_capture_order() -> None:
    """Ordinary ones, those read one by one, both IP versions and all link types together."""
    rows: list[Packet] = []
    for seq in range(60):
        tcp = Tcp(seq=seq, payload=bytes(seq % 3), **(V6 if seq % 4 == 0 else {}))  # type: ignore[arg-type]
        link_type, wrap = list(LAYOUTS.values())[seq % len(LAYOUTS)]
        rows.append(packet(wrap(tcp), link_type, time_ns=START_NS + seq))

    seen, _ = see(Link(), batch(rows))
    segments, _ = Link().feed(batch(rows, first_number=101))

    assert [s.seq for s in seen] == list(range(60))
    assert segments is not None
    assert segments.packet.tolist() == list(range(101, 161))
    assert segments.time_ns.tolist() == list(range(START_NS, START_NS + 60))


def test_an_empty_batch_is_nothing() -> None:
    assert Link().feed(batch([])) == (None, [])
