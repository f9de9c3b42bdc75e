"""Ticks change nothing: neither the events nor the findings of a capture, wherever they come between its packets."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kshark.capture import open_captures
from kshark.model import PacketBatch, Tick
from kshark.pipeline import Engine, Options
from kshark.registry import kafka_registry
from tests.packets import batch
from tests.property.event_values import value_of
from tests.property.mangled import dropped, packets_of
from tests.shared import CAPTURES, SHARED_CAPTURES, every, sample_of
from tests.ticks import Item, judged, with_ticks, with_wrong_ticks, without_explanation

#: More packets take too long.
MOST_BYTES = 1_500_000
BUNDLED = sorted(CAPTURES.glob("*.pcap"))
OTHERS = [path for path in SHARED_CAPTURES if path.stat().st_size < MOST_BYTES]


def events(items: Iterable[Item]) -> list[Any]:
    pages = Engine(Options(records=False), kafka_registry()).pages(items)
    return [value_of(event) for page in pages for event in page if type(event) is not Tick]


def same_with_ticks(batches: list[PacketBatch], seed: str) -> None:
    with_some = [*with_ticks(batches, Random(seed), 40)]
    kept, returned = judged(batches)
    kept_with, returned_with = judged(with_some)
    assert kept_with == kept
    assert without_explanation(it for _, it in returned_with) == without_explanation(it for _, it in returned)
    assert events(with_some) == events(batches)


def batches_of(capture: Path) -> list[PacketBatch]:
    return [item for item in open_captures([capture]) if isinstance(item, PacketBatch)]


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize("capture", sample_of(BUNDLED, 16, 2), ids=lambda path: path.stem)
def test_bundled_captures(capture: Path) -> None:
    same_with_ticks(batches_of(capture), capture.name)


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize("capture", sample_of(BUNDLED, 16, 3), ids=lambda path: path.stem)
def test_captures_that_lack_packets(capture: Path) -> None:
    """Ticks give up holes, and release what was held for them: in the order in which the next packet would."""
    random = Random(zlib.crc32(capture.name.encode()))
    packets = packets_of(capture)
    for begin in (0, len(packets) // 20):
        left = dropped(packets[begin:], random)
        same_with_ticks([batch(left)], capture.name)


#: Captures of clients that break no rule, or hardly any.
WELL_BEHAVED = ("tcp-var-base", "tcp-var-missed", "tcp-var-oneside", "share-loss", "share-java-renew", "streams-groups")


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("name", WELL_BEHAVED)
def test_a_clock_that_jumps_accuses_nobody(name: str) -> None:
    """Ticks that are wrong, also a little later than the next packet, where packets are lost."""
    for seed in range(3):
        random = Random(f"{seed} {name}")
        batches = [batch(dropped(packets_of(CAPTURES / f"{name}.pcap"), random))]
        accused = {it.code for it in judged(batches)[0] if it.verdict == "violation"}
        found, _ = judged(with_wrong_ticks(batches, random))
        assert {it.code for it in found if it.verdict == "violation"} == accused


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize(
    "capture",
    every(sample_of(OTHERS, min(30, len(OTHERS)), 1)),
    ids=lambda path: path and f"{path.parent.name}-{path.stem}",
)
def test_other_captures(capture: Path) -> None:
    same_with_ticks(batches_of(capture), capture.name)
