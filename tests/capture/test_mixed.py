"""Files that hold more than one capture, or a capture and the text of other programs."""

from __future__ import annotations

import gzip
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kshark.capture.source import read_bytes
from kshark.model import Weird
from tests.capture.files import Pcapng, Row, read, read_in_pieces
from tests.capture.test_pcap import old_pcap, talk
from tests.examples import as_many
from tests.packets import Packet, Tcp, Wire, pcap

SAID = (
    b"tcpdump: listening on eth0, link-type EN10MB (Ethernet), snapshot length 262144 bytes\n",
    b"^C217 packets captured\n217 packets received by filter\n0 packets dropped by kernel\n",
    b"command terminated with exit code 137\n",
)


def ng(packets: list[Packet]) -> bytes:
    file = Pcapng().section().interface()
    for packet in packets:
        file.enhanced(packet.data, packet.time_ns // 1000)
    return bytes(file)


def nanoseconds(packets: list[Packet]) -> bytes:
    return old_pcap(packets, 0xA1B23C4D, ">")


def modified(packets: list[Packet]) -> bytes:
    return old_pcap(packets, 0xA1B2CD34, "<", 24)


WRITERS = (pcap, ng, nanoseconds, modified)


def later(packets: list[Packet]) -> list[Packet]:
    """The same, a second later."""
    return [packet.at(packet.time_ns + 1_000_000_000) for packet in packets]


def contents(found: list[Row]) -> list[tuple[int, bytes]]:
    return [(row.number, row.data) for row in found]


@pytest.mark.parametrize(("first", "second"), [*product(WRITERS, WRITERS)])
def test_captures_one_after_the_other_are_read(first, second) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = talk(5), later(talk(9))
    found, weirds = read(first(ours) + second(theirs))
    assert weirds == []
    assert contents(found) == [*enumerate((p.data for p in (*ours, *theirs)), 1)]
    assert read_in_pieces(first(ours) + second(theirs), [7, 30, 1]) == (found, weirds)


def test_empty_captures_and_gzip_members_join_too() -> None:
    found, weirds = read(
        gzip.compress(pcap([])) + gzip.compress(pcap(talk(3)) + pcap([])) + gzip.compress(ng(later(talk(2))))
    )
    assert weirds == []
    assert len(found) == len(talk(3)) + len(talk(2))


def test_a_capture_inside_a_packet_is_payload() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(pcap(talk(2)))
    found, weirds = read(pcap(wire.packets))
    assert (len(found), weirds) == (len(wire.packets), [])


# -- text


@pytest.mark.parametrize("text", SAID)
@pytest.mark.parametrize("write", WRITERS)
def test_text_before_a_capture_is_skipped_and_counted(text: bytes, write) -> None:  # type: ignore[no-untyped-def]
    found, weirds = read(text + write(talk(5)))
    assert weirds == [("FOREIGN_BYTES", 0, len(text))]
    assert [row.data for row in found] == [packet.data for packet in talk(5)]
    assert read_in_pieces(text + write(talk(5)), [5, 64])[0] == found


def test_the_first_line_is_shown() -> None:
    [weird] = [item for item in read_bytes(SAID[0] + pcap(talk(1))) if isinstance(item, Weird)]
    assert weird.detail.startswith(f'the capture begins after {len(SAID[0])} bytes, with the text "tcpdump: listening')


@settings(max_examples=as_many(60))
@given(
    text=st.sampled_from(SAID),
    at=st.integers(24, len(pcap(talk(12)))),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=3),
)
@example(text=SAID[0], at=357, sizes=[1])  # right after a record header
@example(text=SAID[1], at=246, sizes=[1, 33, 400])  # in pieces: two packets of text, and an empty one
def test_text_inside_costs_at_most_the_packet_that_it_damaged(text: bytes, at: int, sizes: list[int]) -> None:
    packets = talk(12)
    data = pcap(packets)
    mixed = data[:at] + text + data[at:]
    found, weirds = read(mixed)
    sent = [packet.data for packet in packets]
    foreign = [size for code, _, size in weirds if code == "FOREIGN_BYTES"]
    if foreign:  # not, where the text ends with the file inside a header
        assert all(row.data in sent for row in found)
        assert len(found) >= len(packets) - 2
    assert not [row for row in found if text in row.data]
    # in pieces the damaged packet may be over before its text can be recognised
    in_pieces = [row.data for row in read_in_pieces(mixed, sizes)[0]]
    assert len([data for data in in_pieces if data not in sent]) <= 3


def test_the_same_text_in_a_record_is_payload() -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    for text in SAID:
        tcp.client(text)
    for packets in (wire.packets, [*wire.packets, *later(talk(2))]):
        found, weirds = read(pcap(packets))
        assert weirds == []
        assert [row.data for row in found] == [packet.data for packet in packets]
        assert read_in_pieces(pcap(packets), [1, 80]) == (found, weirds)


# -- several processes
