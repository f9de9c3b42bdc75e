"""pcapng files in ranges: cut between blocks, and whatever a section says of its interfaces is known in each."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshark.capture.ranges import FilePart, extent_of
from kshark.errors import UnreadableInput
from tests.capture.files import Pcapng
from tests.capture.test_ranges import assert_same
from tests.examples import as_many
from tests.packets import START_NS

TICKS = START_NS // 1000
TSRESOL, TSOFFSET, IFDROP, DROPCOUNT, COMMENT = 9, 14, 5, 4, 1
NANOSECONDS = TSRESOL, b"\x09"


def count(value: int, order: str = "<") -> bytes:
    return struct.pack(order + "Q", value)


def packets(file: Pcapng, many: int, since: int = 0, interface: int = 0, *, nano: bool = False) -> Pcapng:
    """Of sizes that are no multiples of four mostly, one each microsecond; `nano`: the interface counts nanoseconds."""
    for at in range(since, since + many):
        ticks = (TICKS + at) * (1_000 if nano else 1)
        file.enhanced(bytes([at & 0xFF]) * (40 + at % 61), ticks, interface=interface)
    return file


def written(folder: Path, file: Pcapng | bytes, name: str = "a.pcapng") -> str:
    path = folder / name
    path.write_bytes(bytes(file))
    return str(path)


@pytest.mark.parametrize("order", "<>")
def test_an_ordinary_file_is_cut_between_its_blocks(tmp_path: Path, order: str) -> None:
    file = Pcapng(order).section().interface().interface(113, 0, NANOSECONDS)
    packets(packets(file, 300), 300, 300, interface=1, nano=True).block(4, bytes(50))

    path = written(tmp_path, packets(file, 300, 600).statistics((IFDROP, count(3, order))))
    ranges, proved = assert_same([path], 5_000)

    assert proved
    assert len(ranges) == len(bytes(file)) // 5_000


LATE = {
    "an interface described late": lambda file: file.interface(113, 0, NANOSECONDS),
    "a section of its own": lambda file: file.section().interface(113, 0, NANOSECONDS),
    "a section of the other byte order": lambda file: file.section(">").interface(276).interface(113, 0, NANOSECONDS),
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE.keys())
@pytest.mark.parametrize("interface", [0, 1])
def test_what_is_said_late_is_found_out_and_known_in_all_ranges_behind_it(
    tmp_path: Path, late: object, interface: int
) -> None:
    """The file is walked through to know it; where a packet then names an interface that is not described, it stays
    whole."""
    file = packets(Pcapng().section().interface(), 1_500)
    late(file)  # type: ignore[operator]
    known = len(file.blocks)
    for _ in range(interface):
        file.interface(101)
    nano = (interface == 1) != (late is LATE["a section of its own"])

    last = packets(file, 300, 1_500, interface=interface, nano=nano)
    ranges, proved = assert_same([written(tmp_path, last)], 5_000)

    assert len(file.blocks) == known + interface + 300
    assert not proved
    assert len(ranges) == len(bytes(file)) // 5_000


def test_two_files_of_the_same_kind_in_one_are_read_on_without_a_walk(tmp_path: Path) -> None:
    one, other = (bytes(packets(Pcapng().section().interface(), 200, since)) for since in (0, 200))

    ranges, proved = assert_same([written(tmp_path, one + other)], 3_000)

    assert proved
    assert len(ranges) == 2 * len(one) // 3_000


def test_packets_without_a_time_have_the_one_of_the_range_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshark.capture.ranges.STOPPED_PACKETS", 1_000)
    file = packets(Pcapng().section().interface(113), 40)
    for at in range(400):
        file.simple(bytes(30 + at % 7))

    ranges, proved = assert_same([written(tmp_path, packets(file, 40, 40))], 2_000)

    assert not proved
    assert len(ranges) == len(bytes(file)) // 2_000


@pytest.mark.sweep
@pytest.mark.parametrize(
    "told", ["lost before a packet", "lost by an interface", "a packet of no interface", "a packet too long"]
)
def test_a_file_of_which_something_is_told_before_its_end_is_one_range(tmp_path: Path, told: str) -> None:
    """The hundredth of its kind is told otherwise than the first, whoever read the others."""
    file = Pcapng().section().interface()
    for at in range(100):
        packets(file, 5, 5 * at)
        match told:
            case "lost before a packet":
                file.enhanced(b"x", TICKS, (DROPCOUNT, count(1)))
            case "lost by an interface":
                file.statistics((IFDROP, count(at + 1)))
            case "a packet of no interface":
                file.enhanced(b"x", TICKS, interface=3)
            case _:
                file.enhanced(b"x", TICKS, length=500)
    path, plain = (
        written(tmp_path, packets(file, 20)),
        written(tmp_path, packets(Pcapng().section().interface(), 100), "b.pcapng"),
    )

    for files in ([path], [path, plain], [plain, path]):
        ranges, proved = assert_same(files, 2_000)
        assert not proved
        assert [each.since is None for each in ranges if path in each.files] == [True]


def test_what_is_told_at_the_end_is_told_by_the_last_range_where_the_file_is_alone(tmp_path: Path) -> None:
    """Beside others it would name another packet."""
    file = packets(Pcapng().section().interface(), 1_000)
    path = written(tmp_path, file.statistics((IFDROP, count(5))).enhanced(b"x", TICKS, interface=9))
    later = written(tmp_path, packets(Pcapng().section().interface(), 1_000, 2_000), "b.pcapng")

    alone, _ = assert_same([path], 3_000)
    ranges, proved = assert_same([later, path], 3_000)

    assert proved
    assert len(alone) == len(bytes(file)) // 3_000
    assert [each.since is None for each in ranges if path in each.files] == [True]
    assert sum(later in each.files for each in ranges) > 5


@pytest.mark.parametrize("cut", [1, 4, 7, 11, 13, 1_000])
def test_a_file_that_ends_inside_a_block(tmp_path: Path, cut: int) -> None:
    """The last block is longer than ranges are."""
    file = packets(Pcapng().section().interface(), 100)
    data = bytes(file)

    ranges, _ = assert_same([written(tmp_path, data + bytes(Pcapng().enhanced(bytes(5_000), TICKS))[:cut])], 1_000)

    assert len(ranges) == (len(data) + cut) // 1_000


@pytest.mark.parametrize("at", [600, 5_000, 9_000])
def test_nothing_behind_a_block_whose_lengths_cannot_be_is_read(tmp_path: Path, at: int) -> None:
    data = bytearray(bytes(packets(Pcapng().section().interface(), 100)))
    data[at & ~3 : at + 80] = b"\xff" * (at + 80 - (at & ~3))
    path = written(tmp_path, bytes(data))

    _, proved = assert_same([path], 1_000)
    assert_same([path, written(tmp_path, packets(Pcapng().section().interface(), 100), "b.pcapng")], 1_000)

    assert not proved


def test_files_inside_packets_are_not_mistaken(tmp_path: Path) -> None:
    inner = bytes(packets(Pcapng().section().interface(), 300))
    file = Pcapng().section().interface()
    for at in range(40):
        file.enhanced(inner[: len(inner) - 4 * at], TICKS + at)

    ranges, _ = assert_same([written(tmp_path, file)], 50_000)

    assert len(ranges) == len(bytes(file)) // 50_000


def test_a_place_without_blocks_has_none(tmp_path: Path) -> None:
    data = bytes(packets(Pcapng().section().interface(), 50)) + bytes(2 << 20)
    path = written(tmp_path, data)

    assert extent_of(FilePart(path, (100_000, 200_000))) is None
    assert_same([path], 200_000)


def test_a_section_header_longer_than_ranges(tmp_path: Path) -> None:
    """With a comment of 65 kB, and then another one: what the file's beginning says is too little to go by."""
    body = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + struct.pack("<HH", COMMENT, 65_000) + bytes(65_000)
    file = packets(
        Pcapng().block(0x0A0D0D0A, body + struct.pack("<HH", COMMENT, 65_000) + bytes(65_000)).interface(), 300
    )
    ranges, _ = assert_same([written(tmp_path, file)], 10_000)
    assert len(ranges) == 1

    file = packets(Pcapng().block(0x0A0D0D0A, body).interface(), 300)
    ranges, _ = assert_same([written(tmp_path, file)], 10_000)
    assert len(ranges) == len(bytes(file)) // 10_000

    path = written(tmp_path, bytes(file)[:60_000])
    with pytest.raises(
        UnreadableInput, match=r"a.pcapng: the pcapng file ends after 60000 bytes, inside its first section header"
    ):
        assert_same([path], 10_000)


def test_a_compressed_file_is_one_range(tmp_path: Path) -> None:
    ranges, _ = assert_same(
        [written(tmp_path, gzip.compress(bytes(packets(Pcapng().section().interface(), 300)), 0))], 1_000
    )

    assert len(ranges) == 1


# -- any blocks

RESOLUTIONS = [(), ((TSRESOL, b"\x09"),), ((TSRESOL, b"\x8a"),), ((TSRESOL, b"\x03"), (TSOFFSET, count(100)))]


def drawn(dice: random.Random, odd: float) -> Pcapng:
    """Blocks as a capture may hold them; `odd` is how many of a hundred are of the rare kinds."""
    file = Pcapng(dice.choice("<>")).section()
    interfaces = 0
    for _ in range(dice.choice([1, 1, 2, 3])):
        file.interface(dice.choice([1, 113, 276]), dice.choice([0, 0, 64]), *dice.choice(RESOLUTIONS))
        interfaces += 1
    for at in range(dice.randrange(5, 120)):
        data = (
            bytes(dice.choices(range(5), k=dice.randrange(150)))
            if dice.random() < 0.9
            else bytes(packets(Pcapng(file.order), 3))
        )
        if dice.random() * 100 >= odd:
            options = dice.choice([(), ((COMMENT, b"seen"),)])
            file.enhanced(data, TICKS + at * dice.choice([0, 1, 1, -1]), *options, interface=dice.randrange(interfaces))
            continue
        match dice.randrange(12):
            case 0 | 1 | 2:
                file.simple(data, dice.choice([-1, 900]))
            case 3 | 4:
                file.obsolete(data, TICKS + at, drops=dice.choice([0, 0xFFFF, 0xFFFF, 2]))
            case 5 | 6 | 7:
                file.block(dice.choice([4, 10, 0xBAD, 0x80000001]), data)
            case 8:
                file.interface(dice.choice([1, 113]), 0, *dice.choice(RESOLUTIONS))
                interfaces += 1
            case 9:
                file.statistics(
                    (IFDROP, count(dice.choice([0, 0, at]), file.order)), interface=dice.randrange(interfaces + 1)
                )
            case 10:
                file.section(dice.choice("<>")).interface(1, 0, *dice.choice(RESOLUTIONS))
                interfaces = 1
            case _:
                file.enhanced(
                    data, TICKS, (DROPCOUNT, count(dice.choice([0, 1]), file.order)), interface=dice.choice([0, 9])
                )
    return file


@settings(max_examples=as_many(30))
@given(
    seed=st.integers(0, 1 << 32),
    odd=st.sampled_from([0, 1, 5, 30, 100]),
    damage=st.sampled_from([None, None, "cut", "overwritten", "another behind it"]),
    beside=st.booleans(),
    range_bytes=st.sampled_from([300, 1_000, 4_000]),
)
def test_any_blocks_in_ranges_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, seed: int, odd: int, damage: str | None, beside: bool, range_bytes: int
) -> None:
    dice, folder = random.Random(seed), tmp_path_factory.getbasetemp()
    data = bytes(drawn(dice, odd))
    match damage:
        case "cut":
            data = data[: dice.randrange(60, len(data))]
        case "overwritten":
            at = dice.randrange(60, len(data))
            data = data[:at] + dice.randbytes(4) + data[at + 4 :]
        case "another behind it":
            data += bytes(drawn(dice, odd))
    files = [written(folder, data)]

    assert_same([*files, written(folder, drawn(dice, odd), "b.pcapng")] if beside else files, range_bytes)
