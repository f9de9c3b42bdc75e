"""The property that matters most: what the sniffer missed may turn a violation into unknown, never a clean exchange
into a violation."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.shared import CAPTURES, sample_of
from tests.thinning import Loss, Whole, added, every_removal, findings_of, hosts_and_connections, place_of, removals

#: Captures with share groups, clean and not; small enough to be read some thousand times.
TALKING = sorted(
    path
    for path in CAPTURES.glob("*.pcap")
    if path.name.startswith(("adv-", "share-", "seed-", "tcp-var")) and path.stat().st_size < 800_000
)


def accused_wrongly(whole: Whole, losses: Iterator[Loss]) -> list[str]:
    known = findings_of(whole, whole.everything())
    return [
        f"{words}: {it.code} at {place_of(it)}"
        for words, keep in losses
        for it in added(known, findings_of(whole, keep))
    ]


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", sample_of(TALKING, 7, seed=1), ids=lambda path: path.stem)
def test_missing_packets_accuse_nobody(capture: Path) -> None:
    whole = Whole.load(capture)
    random = Random(zlib.crc32(capture.name.encode()))
    assert accused_wrongly(whole, removals(whole, random, singles=4, others=1)) == []


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("capture", TALKING, ids=lambda path: path.stem)
def test_no_missing_host_or_connection_accuses_anybody(capture: Path) -> None:
    """Every host, and twelve connections of a capture with more: the slow test below has all."""
    whole = Whole.load(capture)
    random = Random(zlib.crc32(capture.name.encode()))
    connections = random.sample(whole.pairs, min(12, len(whole.pairs)))
    assert accused_wrongly(whole, hosts_and_connections(whole, connections)) == []


@pytest.mark.slow
@pytest.mark.parametrize("capture", TALKING, ids=lambda path: path.stem)
def test_no_missing_packet_whatever_accuses_anybody(capture: Path) -> None:
    whole = Whole.load(capture)
    assert accused_wrongly(whole, every_removal(whole)) == []
