"""Captures of the shared folder, laid out as if they were large: findings, notes and the rows of all tables are those
of one process.

Once by kshark's tasks alone, which shows that they come to the same whatever goes to which of them; once by Spark,
which shows that it brings them what they need; and once from the tables, by SQL. Takes a sample of captures;
KSHARK_SWEEP=2 takes another one, KSHARK_SWEEP=all every capture, the large ones too, KSHARK_SWEEP=3/20 the third of
twenty portions of all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from itertools import groupby, pairwise
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kshark.errors import UnreadableInput
from kshark.output.manifest import read_manifest
from tests.capture.test_in_order import MS, shuffled
from tests.packets import Packet, pcap
from tests.property.mangled import anything, dropped, packets_of
from tests.shared import is_capture, shared
from tests.spark.test_captures import OPTIONS, in_parts, told, unplaced
from tests.spark.test_export import rows_of, written
from tests.spark.without import Session

pytestmark = pytest.mark.slow

SWEEP = os.environ.get("KSHARK_SWEEP", "1")
SAMPLE = 16
LARGE = 1_500_000
#: A capture is cut into files at so many places.
CUTS = 20
#: A capture of which parts say something else than one process.
DIFFERS = "odd-answers-only.pcap"

Layout = Callable[[Path, Path, Random], list[Path]]


def chosen() -> list[Path]:
    every = [path for path in sorted(shared("captures").rglob("*.pcap*")) if is_capture(path) and path.name != DIFFERS]
    if SWEEP == "all":
        return every
    if "/" in SWEEP:
        portion, portions = map(int, SWEEP.split("/"))
        return every[portion - 1 :: portions]
    return Random(SWEEP).sample([path for path in every if path.stat().st_size < LARGE], SAMPLE)


def as_it_is(capture: Path, folder: Path, random: Random) -> list[Path]:
    return [capture]


def thinned(capture: Path, folder: Path, random: Random) -> list[Path]:
    return [filed(dropped(packets_of(capture), random), folder / f"thinned-{capture.stem}.pcap")]


def damaged(capture: Path, folder: Path, random: Random) -> list[Path]:
    return [filed(anything(packets_of(capture), random), folder / f"damaged-{capture.stem}.pcap")]


def split(capture: Path, folder: Path, random: Random) -> list[Path]:
    """Rotated, as tcpdump does it; a file has one link type."""
    packets = packets_of(capture)
    cuts = [0, *sorted(random.sample(range(1, len(packets)), min(CUTS, len(packets) - 1))), len(packets)]
    parts = [[*part] for a, z in pairwise(cuts) for _, part in groupby(packets[a:z], attrgetter("link_type"))]
    return [filed(part, folder / f"{capture.stem}-{number:03}.pcap") for number, part in enumerate(parts)]


def out_of_order(capture: Path, folder: Path, random: Random) -> list[Path]:
    """Written by queues of a network card."""
    return [filed(shuffled(packets_of(capture), random.choice([2, 20]) * MS), folder / f"shuffled-{capture.stem}.pcap")]


def clock_set(capture: Path, folder: Path, random: Random) -> list[Path]:
    """The capture's clock is set twice, and some packets have no time."""
    packets, by_ns = packets_of(capture), 0
    at_steps = {random.randrange(len(packets)) for _ in range(2)}
    for at, packet in enumerate(packets):
        by_ns += random.choice([-20_000, 40_000]) * MS if at in at_steps else 0
        packets[at] = packet.at(0 if random.random() < 0.001 else packet.time_ns + by_ns)
    return [filed(packets, folder / f"stepped-{capture.stem}.pcap")]


def filed(packets: list[Packet], path: Path) -> Path:
    path.write_bytes(pcap(packets, link_type=packets[0].link_type))
    return path


def laid_out(layout: Layout, folder: Path, of: list[Path]) -> list[list[str]]:
    """The files of each capture."""
    captures = []
    for number, capture in enumerate(of):
        own = folder / f"captures-{number}"
        own.mkdir()
        captures.append([str(file) for file in layout(capture, own, Random(f"{SWEEP} {capture.name}"))])
    return captures


def as_one(captures: list[list[str]]) -> list[list[str]]:
    return [[file for files in captures for file in files]]


layouts = pytest.mark.parametrize("layout", [as_it_is, thinned, damaged, split, out_of_order, clock_set])
togethers = pytest.mark.parametrize("together", [list, as_one], ids=["each", "as-one"])


def by_one_process(captures: list[list[str]]) -> list[Any]:
    """What is found in each."""
    from kshark_spark.whole import whole

    def found(files: list[str]) -> Any:
        try:
            return whole(files, OPTIONS, coverage=True)
        except UnreadableInput as error:
            return error

    return told([found(files) for files in captures])


def shared_out(session: Any, folder: Path, layout: Layout, together: Any, of: list[Path]) -> None:
    """Findings and all that goes with them by so many buckets, all tables and again the findings by so many others."""
    from kshark_spark.plan import Sizes

    captures = together(laid_out(layout, folder, of))
    some, others = Random(f"{SWEEP} {layout.__name__} {together.__name__}").sample(range(2, 17), 2)
    found, expected = in_parts(session, captures, 64 << 10, some), by_one_process(captures)
    if together is as_one or layout is out_of_order:  # of what was sorted by time, and shared out, nobody knows frames
        unplaced([*found, *expected])
    assert [files for files, one, other in zip(captures, found, expected, strict=True) if one != other] == []

    sizes = Sizes(whole=-1, dearer=0, range=64 << 10, share=1 << 20, buckets=others)
    rows, parts = (
        rows_of(written(captures, folder / "one", {})),
        rows_of(written(captures, folder / "parts", {}, session, sizes)),
    )
    assert {
        name: (parts[name] - rows[name], rows[name] - parts[name]) for name in rows if parts[name] != rows[name]
    } == {}
    assert rows["exchanges"] != Counter()


@layouts
@togethers
def test_parts_say_what_one_process_says(without: Session, tmp_path: Path, layout: Layout, together: Any) -> None:
    shared_out(without, tmp_path, layout, together, chosen())


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="a half-close and an anomaly of one connection in the capture's last packet change places in the tables",
)
def test_parts_say_what_one_process_says_of_answers_alone(without: Session, tmp_path: Path) -> None:
    shared_out(without, tmp_path, as_it_is, list, [shared("captures", "field", DIFFERS)])


@pytest.mark.spark
@layouts
@togethers
def test_spark_says_what_one_process_says(spark: Any, tmp_path: Path, layout: Layout, together: Any) -> None:
    shared_out(spark, tmp_path, layout, together, chosen())


@pytest.mark.spark
@layouts
@togethers
def test_tables_alone_say_the_same(spark: Any, tmp_path: Path, layout: Layout, together: Any) -> None:
    from kshark_spark.check import check
    from kshark_spark.tables import exported

    captures = together(laid_out(layout, tmp_path, chosen()))
    folder = written(captures, tmp_path / "tables", {})
    names = [capture.name for capture in read_manifest(folder).captures]
    expected = dict(zip(names, unplaced(by_one_process(captures)), strict=True))
    found = check(exported(spark, folder), names, 3)
    unplaced([*found.values()])
    assert {name: one.findings for name, one in found.items() if one.findings != expected[name].findings} == {}
