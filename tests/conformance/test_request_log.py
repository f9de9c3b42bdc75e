"""kshark against the brokers' own request logs: every exchange, both ways, field by field, and a reason for each that
only one side has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.shared import CAPTURES, shared
from tests.witness import compare
from tests.witness.reasons import UNEXPLAINED

BUNDLED = sorted(path for path in CAPTURES.glob("*.pcap*") if path.with_suffix(".requests.jsonl.gz").exists())
#: Every api and version that a broker's classes can write.
SWEEPS = ("sweep-4.3.1", "sweep-3.9.2-zk")
#: Odd on purpose, and logged like any other: the oddity leaves no trace in the log. Everywhere else nothing is odd.
ODD = {
    "adv-frames": {
        ("ApiVersions", "VERSION_UNKNOWN"): 4,  # answered in version 0, and logged without its request
        ("ApiVersions", "TRAILING_BYTES"): 1,
        ("Metadata", "CORRELATION_ID_REUSED"): 1,
        ("ApiVersions", "APIVERSIONS_FALLBACK"): 2,
        ("ApiVersions", "SOFTWARE_NAME_INVALID"): 1,
        ("SaslHandshake", "SASL_SEQUENCE"): 1,
        ("SaslAuthenticate", "SASL_SEQUENCE"): 1,
    },
    "share-java-explicit-4.0.0": {
        ("ShareGroupHeartbeat", "EARLY_ACCESS_SHARE_API"): 4,
        ("ShareFetch", "EARLY_ACCESS_SHARE_API"): 4,
    },
    "sweep-4.3.1": {("SaslHandshake", "SASL_SEQUENCE"): 4},  # of a listener without SASL
    "sweep-3.9.2-zk": {("SaslHandshake", "SASL_SEQUENCE"): 2},
    "tcp-hostile": {
        ("ApiVersions", "VERSION_UNKNOWN"): 2,
        ("ApiVersions", "APIVERSIONS_FALLBACK"): 1,
        ("Metadata", "CORRELATION_ID_REUSED"): 2,
        ("Metadata", "TRAILING_BYTES"): 1,
    },
}


def every_capture() -> list[Path]:
    return sorted(path for path in shared("captures", "kafka-4").glob("*.pcap*") if path.name != "security-tls.pcapng")


def assert_both_say_the_same(capture: Path) -> None:
    result = compare(capture)
    assert result.different == []
    assert UNEXPLAINED not in result.reasons, (result.only_logged, result.only_wire)
    assert result.weird == Counter(ODD.get(capture.stem, {}))
    assert result.equal + result.only_logged.total() == result.logged


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize("capture", BUNDLED, ids=lambda path: path.stem)
def test_every_logged_exchange_is_read_as_the_broker_logged_it(capture: Path) -> None:
    assert_both_say_the_same(capture)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", SWEEPS)
def test_every_version_that_a_broker_speaks_is_read_as_it_logged_it(name: str) -> None:
    assert_both_say_the_same(shared("captures", "kafka-4", f"{name}.pcap"))


@pytest.mark.slow
def test_every_capture_of_real_brokers_is_read_as_they_logged_it() -> None:
    for capture in every_capture():
        assert_both_say_the_same(capture)
