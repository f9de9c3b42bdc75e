"""Damaged captures in small batches: still to the byte what one process says."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kshark.capture import source
from tests.cli.command import Run
from tests.packets import pcap
from tests.parallel.test_pipelined import same_check, same_export
from tests.parallel.test_read import ALL, FEW, same
from tests.property.mangled import anything, packets_of


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundled captures in many batches: connections, names and notes cross them."""
    monkeypatch.setattr(source, "BATCH_BYTES", 8192)


def damaged(capture: Path, folder: Path, seed: int) -> Path:
    packets = packets_of(capture)
    path = folder / "damaged.pcap"
    path.write_bytes(pcap(anything(packets, Random(seed)), link_type=packets[0].link_type))
    return path


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", FEW[1:3], ids=lambda path: path.name)
def test_small_batches_are_the_same(kshark: Run, capture: Path, tmp_path: Path) -> None:
    same(kshark, capture, "-T", "json")
    same_check(kshark, capture)


@pytest.mark.sweep
@pytest.mark.parametrize("capture", FEW[1:2], ids=lambda path: path.name)
def test_damage_is_the_same(kshark: Run, capture: Path, tmp_path: Path) -> None:
    same(kshark, damaged(capture, tmp_path, 1), "-T", "json")
    same_export(kshark, tmp_path, tmp_path / "damaged.pcap")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_damage_of_every_capture_is_the_same(kshark: Run, capture: Path, tmp_path: Path, seed: int) -> None:
    path = damaged(capture, tmp_path, seed)
    same(kshark, path, "-T", "json", jobs=3)
    same(kshark, path, "-T", "text")
    same_check(kshark, path)
    same_export(kshark, tmp_path, path, "--records")
