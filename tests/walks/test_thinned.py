"""Walks that miss something, or whose times are wrong: no violation is added that the whole walk does not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from kshark.model import Finding
from tests.shared import CAPTURES, every, shared
from tests.thinning import single_packets
from tests.walks.clocks import CLOCKS, Variant
from tests.walks.thinned import THINNED, added_by, loaded, recorded, report, thinned, variants

BUNDLED = [CAPTURES / f"{name}.pcap" for name in ("aimed", "aimed-4.1.2", "java-limit")]
WALKS = ("walk-412-1", "walk-wild-1")


def walk(name: str) -> Path:
    return shared("captures", "walks", f"{name}.pcap")


def told(capture: Path, variants: Iterable[Variant]) -> list[str]:
    return [f"{it.words}: {line(finding)}" for it in added_by(capture, enumerate(variants)) for finding in it.found]


def line(finding: Finding) -> str:
    return f"{finding.code} at packet {finding.packet}"


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("variant", every(sorted(THINNED.glob("*.pcap"))), ids=lambda path: path.stem)
def test_recorded_variants_add_nothing(variant: Path) -> None:
    assert list(map(line, recorded(variant))) == []


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", BUNDLED, ids=lambda path: path.stem)
def test_scenarios_that_miss_something_add_nothing(capture: Path) -> None:
    assert told(capture, variants(loaded(capture).whole, seed=2, count=10, clocks=2 * len(CLOCKS))) == []


@pytest.mark.sweep
@pytest.mark.parametrize("name", WALKS)
def test_walks_that_miss_something_add_nothing(name: str) -> None:
    capture = walk(name)
    assert told(capture, variants(loaded(capture).whole, seed=2, count=2, clocks=2)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(path.stem for path in BUNDLED), *WALKS])
def test_six_hundred_variants_add_nothing(name: str) -> None:
    made = report(walk(name), seed=1, count=500, clocks=100)
    assert made.variants == 600
    assert [f"{it.words}: {Counter(map(line, it.found))}" for it in made.that_add] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKS)
def test_every_third_packet_adds_nothing(name: str) -> None:
    capture = walk(name)
    whole = loaded(capture).whole
    assert told(capture, thinned(whole, single_packets(whole, every=3))) == []
