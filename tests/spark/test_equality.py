"""Captures of the shared folder, laid out as if they were large: findings, notes and the rows of all tables are those of one process.

Takes a sample of them; KSHARK_SWEEP=2 takes another one, KSHARK_SWEEP=all every capture, the large ones too, KSHARK_SWEEP=3/20 the third
of twenty portions of all.
"""

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
from tests.packets import Packet, pcap
from tests.property.mangled import anything, dropped, packets_of
from tests.shared import shared
from tests.spark.test_captures import in_parts, unplaced, whole
from tests.spark.test_export import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SWEEP = os.environ.get("KSHARK_SWEEP", "1")
SAMPLE = 16
LARGE = 1_500_000
#: A capture is cut into files at so many places.
CUTS = 20

Layout = Callable[[Path, Path, Random], list[Path]]


def chosen() -> list[Path]:
    every = sorted(shared("captures").rglob("*.pcap*"))
    if SWEEP == "all":
        return every
    if "/" in SWEEP:
        portion, portions = map(int, SWEEP.split("/"))
        return every[portion - 1 :: portions]
    return Random(SWEEP).sample([path for path in every if path.stat().st_size < LARGE], SAMPLE)


def as_it_is(capture: Path, folder: Path, random: Random) -> list[Path]:
    return [capture]


def thinned(capture: Path, folder: Path, random: Random) -> list[Path]:
    return [written(dropped(packets_of(capture), random), folder / f"thinned-{capture.stem}.pcap")]


def damaged(capture: Path, folder: Path, random: Random) -> list[Path]:
    return [written(anything(packets_of(capture), random), folder / f"damaged-{capture.stem}.pcap")]


def split(capture: Path, folder: Path, random: Random) -> list[Path]:
    """Rotated, as tcpdump does it; a file has one link type."""
    packets = packets_of(capture)
    cuts = [0, *sorted(random.sample(range(1, len(packets)), min(CUTS, len(packets) - 1))), len(packets)]
    parts = [[*part] for a, z in pairwise(cuts) for _, part in groupby(packets[a:z], attrgetter("link_type"))]
    return [written(part, folder / f"{capture.stem}-{number:03}.pcap") for number, part in enumerate(parts)]


def written(packets: list[Packet], path: Path) -> Path:
    path.write_bytes(pcap(packets, link_type=packets[0].link_type))
    return path


def laid_out(layout: Layout, folder: Path) -> list[list[str]]:
    """The files of each capture."""
    captures = []
    for number, capture in enumerate(chosen()):
        own = folder / f"captures-{number}"
        own.mkdir()
        captures.append([str(file) for file in layout(capture, own, Random(f"{SWEEP} {capture.name}"))])
    return captures


def as_one(captures: list[list[str]]) -> list[list[str]]:
    return [[file for files in captures for file in files]]


@pytest.mark.parametrize("layout", [as_it_is, thinned, damaged, split])
@pytest.mark.parametrize("together", [list, as_one], ids=["each", "as-one"])
def test_parts_say_what_one_process_says(spark: Any, tmp_path: Path, layout: Layout, together: Any) -> None:
    from spark_analysis.check import check
    from spark_analysis.plan import Sizes
    from spark_analysis.tables import exported

    captures = together(laid_out(layout, tmp_path))
    expected = dict(zip(map(tuple, captures), whole(spark, captures), strict=True))
    for buckets in Random(SWEEP).sample(range(2, 17), 2):
        found = dict(zip(map(tuple, captures), in_parts(spark, captures, 64 << 10, buckets), strict=True))
        if together is as_one:  # of files whose times overlap, and were shared out, nobody knows the frames
            unplaced([*found.values(), *expected.values()])
        assert {files: one for files, one in found.items() if one != expected[files]} == {}

    rows = rows_of(captures, tmp_path / "one", {})
    parts = rows_of(captures, tmp_path / "parts", {}, spark, Sizes(whole=-1, dearer=0, range=64 << 10, share=1 << 20, buckets=7))
    assert {name: (parts[name] - rows[name], rows[name] - parts[name]) for name in rows if parts[name] != rows[name]} == {}
    assert rows["exchanges"] != Counter()

    # the tables alone say the same
    names = [capture.name for capture in read_manifest(tmp_path / "parts").captures]
    from_tables = check(exported(spark, tmp_path / "parts"), names, 3)
    said = dict(zip(names, (one for one in expected.values() if not isinstance(one, str)), strict=True))
    unplaced([*said.values(), *from_tables.values()])
    assert {name: one.findings for name, one in from_tables.items() if one.findings != said[name].findings} == {}
