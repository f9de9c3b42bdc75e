"""Packets that never arrive, 5 to 90 % of them, accuse nobody of a clean session; KSHARK_LIVE_SEEDS runs (3)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.captures import loaded
from tests.live.wire import Wire, needs_wire
from tests.packets import pcap
from tests.shared import CAPTURES

pytestmark = [pytest.mark.live, needs_wire]
CLEAN = [
    CAPTURES / f"{name}.pcap"
    for name in (
        "share-java-explicit",
        "share-java-renew",
        "share-librdkafka",
        "share-restart",
        "share-loss",
        "tcp-var-base",
    )
]


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire("ksloss") as made:
        yield made


@pytest.mark.parametrize("seed", range(int(os.environ.get("KSHARK_LIVE_SEEDS", "3"))))
def test_loss_accuses_nobody(wire: Wire, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    capture, share = random.choice(CLEAN), random.uniform(0.05, 0.9)
    thinned = [packet for packet in loaded(capture) if random.random() >= share]
    (tmp_path / "thinned.pcap").write_bytes(pcap(thinned))
    with wire.live("-q", "-T", "json") as live:
        wire.send(tmp_path / "thinned.pcap", "--multiplier", "20")
        time.sleep(0.5)
        said = live.end()
    counts = [f"{said.summary.get(what)} {what}" for what in ("exchanges", "unknown")]
    print(f"{capture.name} without {share:.0%}: {', '.join(counts)}")
    assert [finding for finding in said.findings if finding["verdict"] == "violation"] == []
