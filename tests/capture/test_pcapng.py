"""pcapng files, block by block."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kshark.capture.source import read_bytes
from kshark.errors import UnreadableInput
from kshark.limits import BLOCK_BYTES
from kshark.model import PacketBatch, Weird
from tests.capture.files import Pcapng, Row, read, read_in_pieces
from tests.examples import as_many
from tests.packets import START_NS
from tests.test_guard import counting

A, B, C = b"first packet", b"second", b"the third one"
TICKS = START_NS // 1000
TSRESOL, TSOFFSET, IFDROP, OSDROP, DROPCOUNT, FLAGS = 9, 14, 5, 7, 4, 2


def codes(weirds: list[tuple[str, int, int]]) -> list[str]:
    return [code for code, *_ in weirds]


@pytest.mark.parametrize("order", "<>")
def test_the_three_kinds_of_packets_follow_each_other(order: str) -> None:
    file = Pcapng(order).section().interface(link_type=113).enhanced(A, TICKS, wire=99).simple(B).obsolete(C, TICKS + 5)

    found, weirds = read(bytes(file))

    assert weirds == []
    assert found == [
        Row(1, START_NS, 113, A, 99),
        Row(2, START_NS, 113, B, len(B)),  # a Simple Packet Block has no time: that of the packet before
        Row(3, START_NS + 5000, 113, C, len(C)),
    ]


def test_each_interface_has_its_own_link_type_clock_and_zero() -> None:
    file = Pcapng().section()
    file.interface(1).interface(276, 0, (TSRESOL, b"\x09")).interface(
        101, 0, (TSRESOL, b"\x8a"), (TSOFFSET, struct.pack("<q", 1000))
    )
    file.enhanced(A, 7).enhanced(B, START_NS + 1, interface=1).enhanced(C, 1536, interface=2)

    found, weirds = read(bytes(file))

    assert weirds == []
    assert [(p.link_type, p.time_ns) for p in found] == [(1, 7000), (276, START_NS + 1), (101, 1_001_500_000_000)]


def test_sections_of_both_byte_orders_follow_each_other_with_interfaces_of_their_own() -> None:
    file = Pcapng().section("<").interface(1).enhanced(A, TICKS)
    file.section(">").interface(113).enhanced(B, TICKS).section("<").enhanced(C, TICKS)

    found, weirds = read(bytes(file))

    assert [(p.number, p.link_type, p.data) for p in found] == [(1, 1, A), (2, 113, B)]
    assert weirds == [("INTERFACE_UNKNOWN", 3, 48)]


def test_a_simple_packet_is_as_long_as_the_snap_length_allows() -> None:
    file = Pcapng().section().interface(1, 4).simple(B, wire=1000)

    assert read(bytes(file))[0] == [Row(1, 0, 1, B[:4], 1000)]


def test_names_secrets_and_unknown_blocks_are_passed_over() -> None:
    file = Pcapng().section().interface().block(4, bytes(10)).enhanced(A, TICKS)
    file.block(10, b"TLSK" + bytes(37)).block(0xBAD, b"\xff" * 50).block(0x80000001, b"").enhanced(B, TICKS)

    found, weirds = read(bytes(file))

    assert ([p.data for p in found], weirds) == ([A, B], [])


def test_what_an_interface_dropped_is_reported_when_it_grows() -> None:
    drops = (IFDROP, struct.pack("<Q", 3)), (OSDROP, struct.pack("<Q", 4))
    file = Pcapng().section().interface().enhanced(A, TICKS).statistics(*drops).statistics(*drops).enhanced(B, TICKS)
    file.statistics((IFDROP, struct.pack("<Q", 9)))

    assert read(bytes(file))[1] == [("PACKETS_DROPPED", 1, 0), ("PACKETS_DROPPED", 2, 0)]


def test_packets_dropped_before_another_are_told_by_that_one() -> None:
    file = (
        Pcapng()
        .section()
        .interface()
        .enhanced(A, TICKS, (DROPCOUNT, struct.pack("<Q", 2)))
        .enhanced(B, TICKS, (FLAGS, bytes(4)))
    )
    file.obsolete(C, TICKS, drops=5).obsolete(C, TICKS)

    found, weirds = read(bytes(file))

    assert len(found) == 4
    assert weirds == [("PACKETS_DROPPED", 1, 0), ("PACKETS_DROPPED", 3, 0)]


def test_a_packet_longer_than_its_block_is_left_out_and_numbered_all_the_same() -> None:
    file = Pcapng().section().interface().enhanced(A, TICKS, length=500).enhanced(B, TICKS)

    found, weirds = read(bytes(file))

    assert [(p.number, p.data) for p in found] == [(2, B)]
    assert weirds == [("BLOCK_INVALID", 1, 44)]


@pytest.mark.parametrize(
    "garbage", [b"", b"\xff" * 3, b"\x09\x00\xff\xff", b"\x09\x00\x01\x00\xff", b"\x0e\x00\x03\x00abc"], ids=repr
)
def test_options_that_make_no_sense_are_passed_over(garbage: bytes) -> None:
    file = Pcapng().section().block(1, struct.pack("<HHI", 1, 0, 0) + garbage).enhanced(A, 5)

    found, weirds = read(bytes(file))

    assert ([p.data for p in found], weirds) == ([A], [])


def test_a_clock_beyond_64_bits_stays_in_them() -> None:
    file = (
        Pcapng()
        .section()
        .interface(1, 0, (TSRESOL, b"\x00"), (TSOFFSET, b"\xff" * 7 + b"\x7f"))
        .enhanced(A, (1 << 64) - 1)
    )

    assert [p.time_ns for p in read(bytes(file))[0]] == [(1 << 63) - 1]


@pytest.mark.parametrize(
    ("where", "size"),
    [(4, 13), (4, 8), (4, 0), (4, BLOCK_BYTES + 4), (-4, 0)],
    ids=["odd", "small", "zero", "huge", "two lengths"],
)
@pytest.mark.parametrize("kind", [6, 4])
def test_a_block_whose_lengths_cannot_be_stops_reading_and_the_rest_is_counted(
    where: int, size: int, kind: int
) -> None:
    file = Pcapng().section().interface().enhanced(A, TICKS)
    whole = len(bytes(file))
    if kind == 6:
        file.enhanced(B, TICKS)
    else:
        file.block(kind, B)
    broken = bytearray(bytes(file))
    struct.pack_into("<I", broken, whole + where if where > 0 else len(broken) + where, size)
    data = bytes(broken) + bytes(Pcapng().enhanced(C, TICKS))

    found, weirds = read(data)

    assert [p.data for p in found] == [A]
    assert weirds == [("BLOCK_INVALID", 1, 0), ("CAPTURE_UNREAD", 1, len(data) - whole)]


@pytest.mark.parametrize("cut", [1, 8, 11, 30])
def test_a_file_cut_inside_a_block_gives_everything_before(cut: int) -> None:
    file = Pcapng().section().interface().enhanced(A, TICKS)
    whole = len(bytes(file))

    found, weirds = read(bytes(file.enhanced(B, TICKS))[: whole + cut])

    assert ([p.data for p in found], weirds) == ([A], [("CAPTURE_CUT", 1, cut)])


def test_a_file_that_does_not_begin_with_a_section_is_no_capture() -> None:
    with pytest.raises(UnreadableInput, match="inside its first section header"):
        read(bytes(Pcapng().section())[:11])
    with pytest.raises(UnreadableInput, match="does not begin with a pcapng section header"):
        read(b"\x0a\x0d\x0d\x0a" + bytes(40))


def test_more_interfaces_than_a_section_may_have_are_refused_and_counted() -> None:
    from kshark.limits import INTERFACES, WEIRDS_PER_FLOW

    one = bytes(Pcapng().interface())
    data = bytes(Pcapng().section()) + one * (INTERFACES + 1000)

    _, weirds = read(data)

    assert codes(weirds) == ["BLOCK_INVALID"] * (WEIRDS_PER_FLOW + 1)
    assert sum(size for _, _, size in weirds) == 1000 * len(one)


def test_blocks_that_mean_nothing_cost_time_once() -> None:
    """Many of the smallest ones, before and after a packet."""
    many = 20_000
    small = bytes(Pcapng().block(0xABC, b"")) * many
    data = bytes(Pcapng().section().interface()) + small + bytes(Pcapng().enhanced(A, TICKS)) + small

    with counting() as steps:
        found, weirds = read(data)

    assert ([p.data for p in found], weirds) == ([A], [])
    assert steps.total() < 20 * 2 * many


def rich() -> bytes:
    """A bit of everything."""
    file = (
        Pcapng()
        .section()
        .interface(1, 0, (TSRESOL, b"\x09"))
        .enhanced(A, START_NS, (DROPCOUNT, struct.pack("<Q", 1)))
        .simple(B)
    )
    file.block(4, bytes(24)).obsolete(C, START_NS).interface(113, 96).enhanced(A, TICKS, (FLAGS, bytes(4)), interface=1)
    file.statistics((IFDROP, struct.pack("<Q", 3))).enhanced(B, TICKS, interface=7)
    file.section(">").interface(276, 0, (TSRESOL, b"\x94")).simple(C).enhanced(B, 5 << 20).block(
        0xABC, bytes(5)
    ).enhanced(C, 6 << 20)
    return bytes(file)


@settings(max_examples=as_many(50))
@given(sizes=st.lists(st.integers(1, 120), min_size=1, max_size=6), cut=st.integers(0, 300))
@example(sizes=[1], cut=0)
def test_read_in_pieces_of_any_size_the_packets_are_the_same(sizes: list[int], cut: int) -> None:
    data = rich()
    data = data[: len(data) - cut]

    found, weirds = read_in_pieces(data, sizes)
    expected, told = read(data)

    assert found == expected
    assert sorted(weirds) == sorted(told)


@settings(max_examples=as_many(120))
@given(data=st.data())
def test_damage_gives_weirds_and_never_anything_else(data: st.DataObject) -> None:
    mutated = bytearray(rich())
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(4, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    try:
        found, weirds = read(bytes(mutated))
    except UnreadableInput:
        return

    allowed = {
        "CAPTURE_CUT",
        "BLOCK_INVALID",
        "INTERFACE_UNKNOWN",
        "PACKETS_DROPPED",
        "CAPTURE_UNREAD",
        "PACKETS_SORTED",
    }
    assert set(codes(weirds)) <= allowed
    assert all(p.number >= 1 and p.wire_length >= 0 for p in found)
    assert read_in_pieces(bytes(mutated), [13, 64, 5])[0] == found


@pytest.mark.parametrize("order", "<>")
def test_secrets_of_tls_go_with_the_packets_behind_them(order: str) -> None:
    file = (
        Pcapng()
        .section(order)
        .interface()
        .enhanced(A, TICKS)
        .block(10, struct.pack(order + "II", 0x57474B4C, 4) + b"else")
    )
    file.block(10, struct.pack(order + "II", 0x544C534B, 5) + b"one\n2").block(
        10, struct.pack(order + "II", 0x544C534B, 1) + b"3"
    )
    file.enhanced(B, TICKS).enhanced(C, TICKS)

    assert [batch.secrets for batch in read_bytes(bytes(file)) if isinstance(batch, PacketBatch)] == [
        b"",
        b"one\n2\n3\n",
    ]


def test_secrets_that_do_not_fit_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshark.capture.pcapng.TLS_SECRETS_BYTES", 10)
    file = Pcapng().section().interface().block(10, bytes(4)).block(10, struct.pack("<II", 0x544C534B, 9) + b"8 bytes.")
    file.block(10, struct.pack("<II", 0x544C534B, 11) + bytes(11)).enhanced(A, TICKS)

    found, weirds = read(bytes(file))

    assert ([p.data for p in found], codes(weirds)) == ([A], ["BLOCK_INVALID"] * 3)


def test_a_weird_stands_for_all_packets_that_were_dropped_there() -> None:
    """The second one has its place, although more packets were dropped than weirds are reported one by one."""
    file = Pcapng().section().interface()
    file.enhanced(b"one", 1, (4, struct.pack("<Q", 1_000))).enhanced(b"two", 2, (4, struct.pack("<Q", (1 << 64) - 1)))
    weirds = [item for item in read_bytes(bytes(file)) if isinstance(item, Weird)]
    assert [(weird.code, weird.packet, weird.times) for weird in weirds] == [
        ("PACKETS_DROPPED", 1, 1_000),
        ("PACKETS_DROPPED", 2, 1 << 40),
    ]
