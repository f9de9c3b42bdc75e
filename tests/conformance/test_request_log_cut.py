"""Captures begun in the middle against the brokers' request logs: what was asked behind the cut is read, and nothing
else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.shared import CAPTURES, SHARED, sample_of
from tests.witness.cuts import NO_BOUNDARY, UNRECOGNISED, Logged

FOLDERS = (SHARED / "captures" / "kafka-4", SHARED / "captures" / "clients", CAPTURES)
EVERY = {
    path.name: path for folder in FOLDERS for path in sorted(folder.glob("*.pcap")) if path.name != "security-tls.pcap"
}
LOGGED = [path for path in EVERY.values() if path.with_suffix(".requests.jsonl.gz").exists()]
SMALL = [path for path in LOGGED if path.stat().st_size < 200_000]


def check(capture: Path, places: int) -> None:
    cut = Logged(capture).begun_anywhere(places, seed=len(capture.name))
    assert cut.expected > 0
    assert cut.invented == []
    assert cut.lost.keys() <= {NO_BOUNDARY, UNRECOGNISED}
    assert cut.lost.total() + cut.unanswered <= cut.expected // 100


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("capture", sample_of(SMALL, 4, seed=5), ids=lambda path: path.stem)
def test_what_was_asked_behind_a_cut_is_read(capture: Path) -> None:
    check(capture, 3)


@pytest.mark.slow
@pytest.mark.parametrize("capture", LOGGED, ids=lambda path: path.stem)
def test_what_was_asked_behind_any_of_many_cuts_is_read(capture: Path) -> None:
    check(capture, int(os.environ.get("KSHARK_CUTS", "50")))
