"""With room for one connection most is not known any more: that takes accusations away and adds none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from kshark import limits
from kshark.analysis import Analyzer
from kshark.pipeline import JUDGED, Engine
from kshark.registry import Registry
from tests.packets import Packet, batches
from tests.property.mangled import packets_of
from tests.shared import CAPTURES

REGISTRY = Registry()
SHARING = sorted(
    path for path in CAPTURES.glob("*.pcap") if path.name.startswith(("adv-", "aimed", "java-", "seed-", "share-"))
)


def accused(packets: list[Packet], size: int) -> Counter[tuple[str, int]]:
    """The violations, by code and packet, when so many packets come at once."""
    engine, analyzer = Engine(JUDGED, REGISTRY), Analyzer()
    found = [
        finding
        for page in engine.pages(batches(packets, [size] * (len(packets) // size)))
        for finding in analyzer.page(page)
    ]
    return Counter(
        (finding.code, finding.packet) for finding in [*found, *analyzer.close()] if finding.verdict == "violation"
    )


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("path", SHARING, ids=lambda path: path.stem)
def test_whoever_is_forgotten_is_not_accused_for_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packets = packets_of(path)
    whole = accused(packets, len(packets))
    monkeypatch.setattr(limits, "FLOWS", 1)
    assert accused(packets, Random(path.name).choice((7, 20))) <= whole
