"""The in-flight machine foretells what is handed out and what becomes of acknowledgements, in captures of brokers too that no walk made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.broker.records import ALONE, SURPRISE, foresight
from tests.shared import CAPTURES, sample_of, shared

#: Captures of real brokers with records that were handed out.
BUNDLED = [
    *("adv-acks", "adv-epochs", "adv-members", "adv-races-4.1.2", "adv-sessions-4.2.1", "aimed", "aimed-4.1.2", "java-limit", "seed-messy"),
    *("share-java-explicit", "share-java-explicit-4.0.0", "share-java-explicit-4.1.2", "share-java-implicit-4.2.1", "share-java-renew"),
    *("share-librdkafka", "share-loss", "share-restart", "tcp-var-base", "tcp-var-missed"),
]
WALKS = ("walk-412-1", "walk-wild-1")


def check(capture: Path) -> None:
    found = foresight(capture)
    assert found.surprises == []
    assert sum(found.handed.values()) > 0


@pytest.mark.parametrize("name", sample_of(BUNDLED, 5, seed=13))
def test_nothing_was_impossible(name: str) -> None:
    check(CAPTURES / f"{name}.pcap")


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKS)
def test_nothing_that_walks_did_was_impossible(name: str) -> None:
    check(shared("captures", "walks", f"{name}.pcap"))


def test_what_the_next_leader_hands_out_is_foretold() -> None:
    """Three times a leader moves, once as its broker goes down."""
    found = foresight(CAPTURES / "share-leaders.pcap")
    assert found.surprises == []
    assert (found.handed[ALONE], found.handed.total()) == (33, 38)


def test_most_is_foretold_alone() -> None:
    """It foretells next to nothing where everything is possible."""
    handed: Counter[str] = foresight(CAPTURES / "share-java-explicit.pcap").handed
    assert handed[ALONE] > 0.9 * handed.total()


def test_a_broker_that_hands_out_what_is_held_is_a_surprise() -> None:
    """A mock of a broker does."""
    assert foresight(CAPTURES / "share-errors.pcap").handed[SURPRISE] == 3
