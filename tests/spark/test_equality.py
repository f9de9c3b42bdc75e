"""Captures of the shared folder, whole and damaged: findings, notes and rows of all tables are those of one process.

Once from the packets, by Spark's tasks, and once from the tables. Takes a sample of captures;
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

from kshark.output.manifest import read_manifest
from tests.capture.test_in_order import MS, shuffled
from tests.packets import Packet, pcap
from tests.property.mangled import anything, dropped, packets_of
from tests.shared import is_capture, shared
from tests.spark.test_captures import by_one_process, by_spark
from tests.spark.test_export import rows_of, written

pytestmark = pytest.mark.slow

SWEEP = os.environ.get("KSHARK_SWEEP", "1")
SAMPLE = 16
LARGE = 1_500_000
#: A capture is cut into files at so many places.
CUTS = 20

Layout = Callable[[Path, Path, Random], list[Path]]


def chosen() -> list[Path]:
    every = [path for path in sorted(shared("captures").rglob("*.pcap*")) if is_capture(path)]
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


def unplaced(found: list[Any]) -> list[Any]:
    """Without file and frame, which the tables do not have."""
    for checked in found:
        if not isinstance(checked, str):
            for finding in checked.findings:
                for witness in finding.witness:
                    witness.places = []
    return found


@pytest.mark.spark
@layouts
@togethers
def test_spark_finds_what_one_process_finds(spark: Any, tmp_path: Path, layout: Layout, together: Any) -> None:
    captures = together(laid_out(layout, tmp_path, chosen()))
    found, expected = by_spark(spark, captures), by_one_process(captures)
    assert [files for files, one, other in zip(captures, found, expected, strict=True) if one != other] == []

    rows, by_tasks = (
        rows_of(written(captures, tmp_path / name, {}, session)) for name, session in (("one", None), ("tasks", spark))
    )
    assert {
        name: (by_tasks[name] - rows[name], rows[name] - by_tasks[name])
        for name in rows
        if by_tasks[name] != rows[name]
    } == {}
    assert rows["exchanges"] != Counter()


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
