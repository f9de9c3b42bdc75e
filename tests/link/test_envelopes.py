"""One conversation in every envelope: the same messages, or what stays unread is named with the number of its
packets."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from kshark.capture import open_captures
from kshark.cli import main
from kshark.link import Link
from kshark.link.layers import read_packet
from kshark.link.links import LINK_LAYERS
from kshark.link.packet import Fault, Other, Segment
from kshark.link.tunnels import UDP_TUNNELS
from kshark.model import Message, PacketBatch, Weird
from kshark.pipeline import Engine, Options
from tests.link.frames import LAYOUTS, MACS, Tcp, ethernet, ethernet_of, gre, gtp_u, ip, one, outer, packet, udp, vxlan
from tests.packets import Packet, batch, pcap
from tests.property.mangled import batches_of, packets_of
from tests.shared import ROOT, SHARED, every, shared

RAW = 101
CLEAR = "as-recorded-ethernet"
#: What the conversation is.
PACKETS, MESSAGES = 210, 116
#: Those in which not all of it can be read, and what is told of them.
NAMED = {
    "usb-other-220": [("LINK_TYPE_UNKNOWN", "link type 220 (USB)", PACKETS)],
    "user-link-type-147": [("LINK_TYPE_UNKNOWN", "link type 147 (user-defined)", PACKETS)],
    "ipv4-total-shorter-than-the-frame": [("HEADER_INVALID", "a TCP header of 32 bytes, IP leaves 20", 1)],
}
ENVELOPES = sorted(path.stem for path in SHARED.glob("captures/encap/*.pcap"))


def capture(name: str) -> Path:
    return shared("captures", "encap", f"{name}.pcap")


@cache
def conversation(name: str) -> list[tuple[object, ...]]:
    """All that the messages say, without addresses, which are IPv6 in some, and packets' numbers, which fragments
    move."""
    engine = Engine(Options(embedded=True))
    events = chain.from_iterable(engine.pages(open_captures([capture(name)])))
    found = [event for event in events if isinstance(event, Message)]
    return [
        (m.kind, m.api, m.version, m.correlation_id, m.client_id, m.size, m.latency_ns, repr(m.body), m.weird)
        for m in found
    ]


def faults(name: str) -> tuple[Link, list[tuple[str, str, int]]]:
    link, weirds = Link(), list[Weird]()
    for item in open_captures([capture(name)]):
        assert isinstance(item, PacketBatch)
        weirds += link.feed(item)[1]
    weirds += link.close()
    return link, [(weird.code, weird.detail, weird.times) for weird in weirds if not weird.code.startswith("SILENCE")]


def test_the_conversation_is_what_it_was() -> None:
    messages = conversation(CLEAR)
    link, weirds = faults(CLEAR)
    assert (len(messages), link.packets, link.tcp, weirds) == (MESSAGES, PACKETS, PACKETS, [])


@pytest.mark.sweep(quick=12)
@pytest.mark.parametrize("name", every(ENVELOPES))
def test_every_envelope_is_read_or_named(name: str) -> None:
    link, weirds = faults(name)

    assert weirds == NAMED.get(name, [])
    assert link.packets == link.tcp + link.fragments + link.other.total() + link.unread.total()
    if name not in NAMED:
        assert link.tcp == PACKETS
        assert conversation(name) == conversation(CLEAR)


@pytest.mark.parametrize("name", ["usb-other-220", "user-link-type-147"])
def test_what_is_not_read_stands_in_the_notes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["read", str(capture(name))])
    told = capsys.readouterr().err
    assert f"no Kafka messages: 210 packets: {NAMED[name][0][1]}, not read" in told
    assert "no TCP connections" not in told


@pytest.mark.parametrize("name", every(Random(3).sample(ENVELOPES, min(6, len(ENVELOPES)))))
def test_any_batches_of_an_envelope_give_the_same(name: str) -> None:
    packets = packets_of(capture(name))
    whole, parts = Link(), Link()
    segments, _ = whole.feed(batch(packets))

    found = [parts.feed(some)[0] for some in batches_of(packets, Random(name))]

    numbers = list(chain.from_iterable(some.seq.tolist() for some in found if some is not None))
    assert numbers == ([] if segments is None else segments.seq.tolist())
    assert [*parts.close()] == [*whole.close()]


# -- inside and outside of a tunnel


@pytest.mark.parametrize(
    "tunnel",
    [lambda data: ethernet_of(vxlan(data)), lambda data: ethernet_of(gre(0x88BE, data))],
    ids=["vxlan", "erspan"],
)
@pytest.mark.parametrize("inside_first", [True, False])
def test_a_packet_seen_inside_and_outside_a_tunnel_is_one(tunnel, inside_first: bool) -> None:
    clear = packets_of(capture(CLEAR))
    both = [
        Packet(one.time_ns + later, data, len(data))
        for one in clear
        for later, data in enumerate((one.data, tunnel(one.data)) if inside_first else (tunnel(one.data), one.data))
    ]
    engine = Engine(Options())
    events = [event for page in engine.pages([batch(both)]) for event in page]
    messages = [event for event in events if isinstance(event, Message)]

    assert [(m.kind, m.correlation_id, m.size, m.weird) for m in messages] == [
        (m[0], m[3], m[5], m[8]) for m in conversation(CLEAR)
    ]
    assert {event.code for event in events if isinstance(event, Weird)} == {"DUPLICATE_PACKETS"}


# -- hostile


def read(data: bytes, link_type: int = RAW) -> object:
    return read_packet(data, 0, len(data), len(data), link_type)


@pytest.mark.parametrize(
    "around",
    [
        lambda data: b"\0" * 12 + b"\x81\0\0\1" + data[12:],
        lambda data: ethernet_of(vxlan(data)),
        lambda data: ethernet_of(gre(0x6558, data)),
        lambda data: ethernet_of(outer(97, b"\x30\0" + data)),
    ],
    ids=["vlan", "vxlan", "gre", "ether-ip"],
)
def test_nesting_has_a_bound(around) -> None:
    data = ethernet(Tcp())
    for _ in range(5):
        data = around(data)
    assert isinstance(read(data, 1), Segment)
    for _ in range(100):
        data = around(data)
    found = read(data, 1)
    assert isinstance(found, Fault)
    assert found.code == "HEADERS_LIMIT"


@pytest.mark.parametrize(
    "data",
    [
        gtp_u(ip(Tcp()), 0x34, bytes(3) + b"\x85\0\0\0\0"),
        ethernet_of(udp(4790, b"\x0c\0\0\4" + bytes(4) + bytes(40)))[14:],
        MACS + b"\x88\x47" + bytes(4000),
    ],
    ids=["gtp-u extension of 0 bytes", "nsh of 0 bytes", "mpls without a last label"],
)
def test_headers_without_length_end_at_once(data: bytes) -> None:
    assert isinstance(read(data, RAW if data[0] >> 4 == 4 else 1), Fault)


def test_an_nflog_attribute_of_no_bytes_ends_at_once() -> None:
    assert read(b"\2\0\0\0" + bytes(400), 239) == Fault("HEADER_INVALID", "an NFLOG attribute of 0 bytes")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_layout_cut_anywhere_or_changed_is_read_beyond_its_end(layout: str) -> None:
    link_type, wrap = LAYOUTS[layout]
    random, whole = Random(layout), wrap(Tcp())
    for size in range(len(whole) + 1):
        changed = bytearray(whole[:size])
        if changed and size % 3:
            changed[random.randrange(len(changed))] = random.randrange(256)
        found = read_packet(bytes(changed) + b"\x45" * 40, 0, size, len(whole), link_type)
        if isinstance(found, Segment):
            assert found.offset + found.length <= max(size, found.offset)


def test_encrypted_esp_is_not_taken_for_tcp() -> None:
    random = Random(1)
    kinds = {read(outer(50, random.randbytes(random.randrange(40, 1_400)))) for _ in range(5_000)}
    assert kinds == {Other("IP: ESP", "ENVELOPE_UNREAD")}


def test_a_mirror_that_cuts_packets_leaves_a_hole_of_known_size() -> None:
    """The outer headers are of what was sent, the inner ones of what there was."""
    inner = ethernet(Tcp(payload=bytes(1000)))
    found = [read(ethernet_of(around(inner[:200])), 1) for around in (vxlan, lambda data: gre(0x88BE, data))]
    assert [(one.length, one.missing) for one in found if isinstance(one, Segment)] == [(146, 854)] * 2


# -- names


@pytest.mark.parametrize(
    ("data", "link_type", "named"),
    [
        (udp(51820, b"\4\0\0\0" + bytes(60)), RAW, "1 UDP packet: WireGuard"),
        (udp(1194, bytes(60)), RAW, "1 UDP packet: OpenVPN"),
        (outer(50, bytes(range(100))), RAW, "1 IP packet: ESP"),
        (outer(115, bytes(60)), RAW, "1 IP packet: L2TP version 3"),
        (udp(1701, b"\0\3" + bytes(60)), RAW, "1 UDP packet: L2TP version 3"),
        (MACS + b"\x88\xe5\x2c\0" + bytes(60), 1, "1 Ethernet packet: MACsec"),
        (MACS + b"\x12\x34" + bytes(60), 1, "1 Ethernet packet: type 0x1234"),
        (b"\x08\x41" + bytes(60), 105, "1 802.11 packet: encrypted"),
        (udp(9, bytes(60)), RAW, "1 packet: UDP"),
        (bytes(60), 147, "1 packet: link type 147 (user-defined)"),
    ],
)
def test_what_is_not_read_has_a_name(
    data: bytes, link_type: int, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([packet(data, link_type)], link_type=link_type))
    main(["read", str(path)])
    assert f"no Kafka messages: {named}, not read" in capsys.readouterr().err


def test_a_capture_of_one_packet_that_is_no_tcp_is_one_packet() -> None:
    link = Link(exact=False)
    link.feed(one(outer(1, bytes(40)), RAW))
    assert [(weird.code, weird.detail, weird.times) for weird in link.close()] == [("NOT_TCP", "ICMP", 1)]


def test_every_link_type_that_is_read_is_documented() -> None:
    text = (ROOT / "kshark" / "link" / "README.md").read_text()
    table = text.split("| link type |")[1].split("\n\n")[0]
    documented = [
        int(number) for row in table.splitlines() if row.startswith("| ") for number in row.split("|")[1].split(",")
    ]
    assert sorted(documented) == sorted(LINK_LAYERS)


def test_every_port_of_a_tunnel_is_documented() -> None:
    text = (ROOT / "kshark" / "link" / "README.md").read_text()
    [row] = [line for line in text.splitlines() if line.startswith("| UDP |")]
    assert {int(number) for number in re.findall(r"\d{4,5}", row)} == UDP_TUNNELS.keys()
