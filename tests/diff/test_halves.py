"""A capture and a part of it: nothing got worse, whatever part it is. The parts of one capture show by how much rates
and latencies differ without any change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.diff.talks import compared, profile_of_part
from tests.shared import CAPTURES, SHARED_CAPTURES, every, sample_of
from tests.thinning import Mask, Whole

BUNDLED = sorted([*CAPTURES.glob("*.pcap"), *CAPTURES.glob("*.pcapng")])
#: Connections that differ: one producer of two sends records that a compacted topic refuses (all 25 of them).
DIFFERENT = {("groups-classic.pcap", "even connections"), ("groups-classic.pcap", "odd connections")}


def parts(whole: Whole) -> Iterator[tuple[str, Mask]]:
    many = len(whole.number)
    at, pair = np.arange(many), whole.path >> 1
    yield "first half", at < many // 2
    yield "second half", at >= many // 2
    yield "middle half", (at >= many // 4) & (at < many * 3 // 4)
    yield "first third", at < many // 3
    yield "even connections", (pair % 2 == 0) | (whole.path < 0)
    yield "odd connections", (pair % 2 == 1) | (whole.path < 0)


def check_parts(capture: Path) -> None:
    whole = Whole.load(capture)
    of_all = profile_of_part(whole, whole.everything(), "whole")
    again = compared(of_all, of_all)
    assert not again.worse
    assert not again.better
    assert not [row.name for row in again.rows if row.may_be_chance]
    wrong = []
    for name, keep in parts(whole):
        if (capture.name, name) in DIFFERENT:
            continue
        part = profile_of_part(whole, keep, name)
        wrong += [f"whole to {name}: {row.sentence}" for row in compared(of_all, part).worse]
        wrong += [f"{name} to whole: {row.sentence}" for row in compared(part, of_all).worse]
    assert wrong == []


@pytest.mark.parametrize("capture", sample_of(BUNDLED, 12, seed=2), ids=lambda path: path.name)
def test_a_capture_and_its_parts(capture: Path) -> None:
    check_parts(capture)


#: The others take minutes, or are damaged on purpose.
FOLDERS = ("walks", "kafka-4", "clients")
SMALL = [path for path in SHARED_CAPTURES if path.parent.name in FOLDERS and path.stat().st_size < 1_500_000]
SHARED_SAMPLE = sample_of(SMALL, min(2, len(SMALL)), seed=1)


@pytest.mark.parametrize("capture", every(SHARED_SAMPLE), ids=lambda it: getattr(it, "name", "none"))
def test_a_shared_capture_and_its_parts(capture: Path) -> None:
    check_parts(capture)
