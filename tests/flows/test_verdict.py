"""Packets were lost in four of all captures, as those tell who made them; no other one is accused of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshark.capture import open_captures
from kshark.flows import FlowCounting, Network
from kshark.pipeline import Front, Options
from kshark.registry import kafka_registry
from tests.shared import CAPTURES, SHARED_CAPTURES, every, sample_of

#: Dropped by netfilter or netem.
LOSSY = ("share-loss.pcap", "lossy.pcap", "tcp-lossy-client.pcap")


def found(capture: Path) -> Network:
    front, counting = Front(Options(transport=True), kafka_registry()), FlowCounting()
    for lines in front.batches(open_captures([capture])):
        counting.batch(lines)
    return counting.close(0)[1]


def assert_the_verdict_is_right(capture: Path) -> None:
    network = found(capture)
    assert (network.verdict == "loss") == (capture.name in LOSSY), network
    assert network.verdict in ("loss", "little", "none", "unknown")


@pytest.mark.parametrize("capture", sample_of(sorted(CAPTURES.glob("*.pcap*")), 6, seed=3), ids=lambda path: path.name)
def test_the_verdict_on_bundled_captures(capture: Path) -> None:
    assert_the_verdict_is_right(capture)


@pytest.mark.slow
@pytest.mark.parametrize("capture", every(SHARED_CAPTURES), ids=lambda path: path.name)
def test_the_verdict_on_every_capture(capture: Path) -> None:
    assert_the_verdict_is_right(capture)
