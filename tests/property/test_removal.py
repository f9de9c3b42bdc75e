"""The property that matters most: what the sniffer missed may turn a violation into unknown, never a clean exchange into a violation."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.shared import CAPTURES
from tests.thinning import Mask, Whole, every_removal, findings_of, removals, violations

#: Captures with share groups, clean and not; small enough to be read some thousand times.
TALKING = sorted(
    path
    for path in CAPTURES.glob("*.pcap")
    if path.name.startswith(("adv-", "share-", "seed-", "tcp-var")) and path.stat().st_size < 800_000
)


def accused_wrongly(whole: Whole, ways: Iterator[tuple[str, Mask]]) -> list[str]:
    known = violations(findings_of(whole, whole.everything()))
    return [
        f"{way}: {sorted(codes)} at {exchange}"
        for way, keep in ways
        for exchange, codes in violations(findings_of(whole, keep)).items()
        if exchange not in known
    ]


@pytest.mark.parametrize("capture", TALKING, ids=lambda path: path.stem)
def test_missing_packets_accuse_nobody(capture: Path) -> None:
    whole = Whole.load(capture)
    random = Random(zlib.crc32(capture.name.encode()))
    assert accused_wrongly(whole, removals(whole, random, singles=6, others=2)) == []


@pytest.mark.slow
@pytest.mark.parametrize("capture", TALKING, ids=lambda path: path.stem)
def test_no_missing_packet_whatever_accuses_anybody(capture: Path) -> None:
    whole = Whole.load(capture)
    ways: Callable[[Whole], Iterator[tuple[str, Mask]]] = every_removal
    assert accused_wrongly(whole, ways(whole)) == []
