"""pcap files, as other programs write them and as damage leaves them."""

from __future__ import annotations

import io
import struct

import dpkt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kshark.capture.source import read_bytes
from kshark.errors import UnreadableInput
from kshark.limits import PACKET_BYTES
from kshark.model import PacketBatch
from tests.capture.files import read, read_in_pieces
from tests.examples import as_many
from tests.packets import START_NS, Packet, Tcp, Wire, pcap
from tests.shared import shared

HEADER = 24
RECORD = 16


def talk(count: int = 20) -> list[Packet]:
    wire = Wire()
    connection = Tcp(wire).open()
    for n in range(count):
        connection.client(bytes([n]) * (n * 37 % 211))
    return wire.packets


def old_pcap(packets: list[Packet], magic: int, order: str, record_header: int = RECORD, network: int = 1) -> bytes:
    """A file of any of the formats; `magic` is written in `order`."""
    unit = 1 if magic == 0xA1B23C4D else 1000
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, network)]
    for p in packets:
        seconds, rest = divmod(p.time_ns, 1_000_000_000)
        head = struct.pack(order + "IIII", seconds, rest // unit, len(p.data), p.wire_length)
        out.append(head.ljust(record_header, b"\7") + p.data)
    return b"".join(out)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("magic", "record_header"),
    [(0xA1B2C3D4, 16), (0xA1B23C4D, 16), (0xA1B2CD34, 24)],
    ids=["microseconds", "nanoseconds", "modified"],
)
def test_every_format_gives_the_same_packets(magic: int, record_header: int, order: str) -> None:
    packets = talk()

    found, weirds = read(old_pcap(packets, magic, order, record_header))

    assert weirds == []
    assert [(p.number, p.time_ns, p.data, p.wire_length, p.link_type) for p in found] == [
        (n, p.time_ns, p.data, p.wire_length, 1) for n, p in enumerate(packets, 1)
    ]


def test_dpkt_reads_the_same_packets_from_a_real_capture() -> None:
    data = shared("captures", "librdkafka-mock", "small-none.pcap").read_bytes()

    found, weirds = read(data)

    assert weirds == []
    assert [(p.data, round(p.time_ns / 1e9, 6)) for p in found] == [
        (d, round(t, 6)) for t, d in dpkt.pcap.Reader(io.BytesIO(data))
    ]


def test_the_upper_half_of_the_network_field_is_not_the_link_type() -> None:
    """An FCS length may stand there (draft-ietf-opsawg-pcap, section 4)."""
    found, _ = read(old_pcap(talk(1), 0xA1B2C3D4, "<", network=0x24000000 | 113))

    assert {p.link_type for p in found} == {113}


def test_a_snapped_packet_tells_its_length_on_the_wire() -> None:
    whole = talk(1)[0]

    [found], _ = read(pcap([Packet(whole.time_ns, whole.data[:40], 1514)]))

    assert (len(found.data), found.wire_length) == (40, 1514)


def test_a_file_without_packets_is_a_capture_without_packets() -> None:
    assert read(pcap([])) == ([], [])


@pytest.mark.parametrize("cut", [1, 10, 16, 17, 40])
def test_a_file_cut_inside_a_packet_gives_everything_before(cut: int) -> None:
    packets = talk(3)
    data = pcap(packets)
    last = RECORD + len(packets[-1].data)

    found, weirds = read(data[: len(data) - last + cut])

    assert [p.data for p in found] == [p.data for p in packets[:-1]]
    assert weirds == [("CAPTURE_CUT", len(packets) - 1, cut)]


def test_a_length_that_cannot_be_stops_reading_and_the_rest_is_counted() -> None:
    packets = talk(5)
    data = bytearray(pcap(packets))
    third = HEADER + sum(RECORD + len(p.data) for p in packets[:2])
    struct.pack_into("<I", data, third + 8, PACKET_BYTES + 1)

    found, weirds = read(bytes(data))

    assert [p.data for p in found] == [p.data for p in packets[:2]]
    assert weirds == [("PACKET_LENGTH_INVALID", 2, 0), ("CAPTURE_UNREAD", 2, len(data) - third)]


def test_a_length_beyond_the_limit_is_refused_even_when_so_many_bytes_are_there() -> None:
    big = Packet(START_NS, bytes(PACKET_BYTES), PACKET_BYTES)
    found, weirds = read(pcap([big]))
    assert (len(found), weirds) == (1, [])

    found, weirds = read(pcap([big, Packet(START_NS, bytes(PACKET_BYTES + 1), PACKET_BYTES + 1)]))
    assert (len(found), [code for code, *_ in weirds]) == (1, ["PACKET_LENGTH_INVALID", "CAPTURE_UNREAD"])


def test_a_file_that_ends_inside_its_header_is_no_capture() -> None:
    with pytest.raises(UnreadableInput, match="ends after 20 bytes, inside its header"):
        read(pcap([])[:20])


def test_a_large_capture_comes_in_batches_of_a_megabyte() -> None:
    data = pcap([Packet(START_NS, bytes(1000), 1000)] * 5000)

    sizes = [len(item.buffer) for item in read_bytes(data) if isinstance(item, PacketBatch)]

    assert len(sizes) > 4
    assert max(sizes) <= (1 << 20) + 1016


@settings(max_examples=as_many(50))
@given(sizes=st.lists(st.integers(1, 500), min_size=1, max_size=6), cut=st.integers(0, 400))
@example(sizes=[1], cut=0)
def test_read_in_pieces_of_any_size_the_packets_are_the_same(sizes: list[int], cut: int) -> None:
    data = pcap(talk())
    data = data[: len(data) - cut]

    assert read_in_pieces(data, sizes) == read(data)


@settings(max_examples=as_many(100))
@given(data=st.data())
def test_damage_gives_weirds_and_never_anything_else(data: st.DataObject) -> None:
    mutated = bytearray(pcap(talk(6)))
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(4, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    sizes = data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=3))

    found, weirds = read(bytes(mutated))

    assert {code for code, *_ in weirds} <= {"CAPTURE_CUT", "PACKET_LENGTH_INVALID", "CAPTURE_UNREAD", "PACKETS_SORTED"}
    delivered = HEADER + sum(RECORD + len(p.data) for p in found)
    assert delivered + sum(size for _, _, size in weirds) == len(mutated)
    again, same = read_in_pieces(bytes(mutated), sizes)
    assert (again, same) == (found, weirds)
