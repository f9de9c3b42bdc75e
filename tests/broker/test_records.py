"""The in-flight machine foretells what is handed out and what becomes of acknowledgements, in captures of brokers too
that no walk made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.analysis.coordinators import ACCEPTED, AVAILABLE, leader
from tests.analysis.rules.promises.deliveries import given
from tests.broker.records import ALONE, SURPRISE, TAKES_BACK, Foresight, foresight
from tests.conversation import Conversation
from tests.packets import pcap
from tests.shared import CAPTURES, sample_of, shared

#: Captures of real brokers with records that were handed out.
BUNDLED = [
    *(
        "adv-acks",
        "adv-epochs",
        "adv-members",
        "adv-races-4.1.2",
        "adv-sessions-4.2.1",
        "aimed",
        "aimed-4.1.2",
        "java-limit",
        "seed-messy",
    ),
    *(
        "share-java-explicit",
        "share-java-explicit-4.0.0",
        "share-java-explicit-4.1.2",
        "share-java-implicit-4.2.1",
        "share-java-renew",
    ),
    *("share-librdkafka", "share-loss", "share-restart", "tcp-var-base", "tcp-var-missed"),
]
WALKS = ("walk-412-1", "walk-wild-1")


def of(talk: Conversation, folder: Path) -> Foresight:
    capture = folder / "talk.pcap"
    capture.write_bytes(pcap(packet for _, packet in talk.packets()))
    return foresight(capture)


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


@pytest.mark.parametrize("goes_back", [True, False])
def test_whose_stored_start_offset_went_back_hands_out_what_was_done_with(tmp_path: Path, *, goes_back: bool) -> None:
    talk = Conversation()
    member, broker = talk.member("a"), leader(talk)
    given(member, 0, (90, 109, 1))
    broker.write(100, (90, 99, ACCEPTED, 1)).accepted()
    if goes_back:
        broker.write(90, (90, 90, ACCEPTED, 1)).accepted()
        broker.write(100, (91, 99, ACCEPTED, 1)).accepted()
    given(member, 1, (80, 89, 1))
    assert of(talk, tmp_path).handed[TAKES_BACK if goes_back else SURPRISE] == 1


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_is_stored_of_an_earlier_leadership_may_have_been_delivered(tmp_path: Path, *, is_stored: bool) -> None:
    """Whoever leads now read the state before that, or after."""
    talk = Conversation()
    member, broker = talk.member("a"), leader(talk)
    given(member, 0, (0, 9, 1))
    broker.read().given(0)
    if is_stored:
        broker.write(0, (10, 19, AVAILABLE, 1)).accepted()
    given(member, 1, (0, 9, 1), (10, 19, 2))
    assert of(talk, tmp_path).handed[SURPRISE] == (not is_stored)
