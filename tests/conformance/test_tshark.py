"""tshark reads the same fields from the same packets, byte by byte, in all versions that it knows."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.conformance.tshark import Pair, pairs_of
from tests.conformance.tshark_known import WRONG, may_be_wrong, reads
from tests.shared import CAPTURES, shared

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]

#: Captures with many versions; the sweeps hold all that brokers of 3.9 and 4.3 speak.
MANY = ("sweep-3.9.2-zk", "sweep-4.3.1")


def misread(pairs: Iterable[Pair]) -> Iterator[str]:
    for pair in pairs:
        what = (pair.api, pair.version, pair.direction)
        if reads(*what) and not may_be_wrong(*what) and not pair.agrees:
            yield (
                f"{pair.api} v{pair.version} {pair.direction}, packet {pair.packet}: {pair.ours} read, {pair.theirs} "
                f"shown"
            )


def third_party() -> list[Path]:
    return sorted(shared("captures", "third-party").glob("*.pcap*"))


@pytest.mark.sweep
def test_what_others_captured_is_read_as_tshark_reads_it() -> None:
    pairs = [pair for capture in third_party() for pair in pairs_of(capture)]
    assert list(misread(pairs)) == []
    assert sum(pair.agrees for pair in pairs) >= 9


@pytest.mark.sweep
def test_old_clients_are_read_as_tshark_reads_them() -> None:
    pairs = list(pairs_of(CAPTURES / "zk-old-clients.pcap"))
    assert list(misread(pairs)) == []
    assert len({(pair.api, pair.version, pair.direction) for pair in pairs if pair.agrees and pair.ours}) > 80


@pytest.mark.slow
def test_every_version_that_tshark_knows_and_where_it_is_wrong() -> None:
    captures = [shared("captures", "kafka-4", f"{name}.pcap") for name in MANY]
    captures += [
        CAPTURES / f"{name}.pcap" for name in ("zk-old-clients", "security-sasl", "produce-mix", "tcp-var-base")
    ]
    pairs = [pair for capture in captures for pair in pairs_of(capture)]
    assert list(misread(pairs)) == []
    wrong = {
        (pair.api, pair.direction)
        for pair in pairs
        if not pair.agrees and may_be_wrong(pair.api, pair.version, pair.direction)
    }
    assert wrong == WRONG.keys()
