"""What is stored, as the Writes before tell it, is what a Read is answered with: on every capture of brokers that has
one."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kshark import limits
from kshark.analysis import RULES, Analyzer, Rule
from kshark.analysis.facts.calls import Answer, Call
from kshark.analysis.facts.known import ALWAYS, never
from kshark.analysis.facts.state_steps import StateBatch, StateStep
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.rule import NOTES, Check
from kshark.analysis.states.stored.state import StoredSituation, StoredState
from kshark.analysis.states.tables import PERSISTER
from kshark.analysis.states.tables.persister import FITTING, NEWER_LEADER, NEWER_STATE, NOTHING
from kshark.pipeline import Options
from tests.analysis.plain import connection
from tests.shared import CAPTURES, shared
from tests.thinning import Whole, pages_of

ON = connection()


def one_by_one(batches: list[StateBatch]) -> dict[int, tuple[int, int]]:
    """State and delivery count of each offset."""
    return {offset: (state, count) for first, last, state, count in batches for offset in range(first, last + 1)}


def stored_batches(stored: StoredState) -> list[StateBatch]:
    return [StateBatch(one.first, one.last, one.value.state, one.value.delivery_count) for one in stored.batches]


def differences(capture: Path) -> tuple[int, list[str]]:
    """How many Reads and Summaries met a state that was known in full, and those that were answered otherwise."""
    compared, different = 0, []

    def look(now: StoredSituation) -> None:
        nonlocal compared
        step, given, stored = now.step, now.step.given, now.stored
        if given is None or not stored.exists or not stored.writes.is_certain:
            return
        compared += 1
        names = ("state_epoch", "leader_epoch", "start_offset", "complete_count")
        numbers = [(getattr(given, name), getattr(stored, name)) for name in names]
        same = all(told == known for told, known in numbers if told is not None and known is not None)
        if not same or (step.is_read and one_by_one([*given.batches]) != one_by_one(stored_batches(stored))):
            different.append(f"{step.story}: {numbers} {given.batches} {stored_batches(stored)}")

    rule = Rule(
        number=None,
        code="SEEN",
        text="It was seen.",
        source="",
        blame=(),
        verdicts=NOTES,
        machine=PERSISTER,
        checks=(Check(look),),
    )
    analyzer = Analyzer(book=RuleBook((*RULES, rule)))
    for page in pages_of(Whole.load(capture).batches, Options(records=False, bodies=PERSISTER.apis | {18})):
        analyzer.page(page)
    return compared, different


#: Bundled captures with brokers' connections, and how many answers can be compared.
BUNDLED = {
    "adv-acks": 3,
    "adv-members": 5,
    "adv-races-4.1.2": 4,
    "adv-sessions-4.2.1": 4,
    "aimed": 8,
    "aimed-4.1.2": 7,
    "java-limit": 4,
    "seed-messy": 7,
    "share-java-explicit": 15,
    "share-java-explicit-4.1.2": 12,
    "share-java-implicit-4.2.1": 4,
    "share-java-renew": 8,
    "share-librdkafka": 5,
    "share-restart": 6,
    "tcp-var-missed": 3,
}
SHARED = {
    "clients/franz-share": 6,
    "clients/fzst431-idle": 23,
    "kafka-4/admin-tools": 11,
    "kafka-4/groups-share": 33,
    "kafka-4/tcp-restart": 9,
    "kafka-4/ver-4.1.2": 7,
    "walks/walk-412-1": 47,
    "walks/walk-wild-1": 13,
}


@pytest.mark.parametrize("capture", BUNDLED)
def test_a_read_is_answered_with_what_was_stored(capture: str) -> None:
    assert differences(CAPTURES / f"{capture}.pcap") == (BUNDLED[capture], [])


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", SHARED)
def test_the_same_in_larger_captures(capture: str) -> None:
    assert differences(shared("captures", f"{capture}.pcap")) == (SHARED[capture], [])


def step(api_key: int, packet: int, error: int | None = 0, **told: Any) -> StateStep:
    call = Call(
        ON,
        api_key,
        "",
        0,
        packet,
        packet,
        packet,
        None,
        "g",
        None,
        0,
        answer=None if error is None else Answer(packet + 1, 0, None, None),
    )
    return StateStep(call, ("t", 0), error, **told)


def read(packet: int, leader_epoch: int, start: int, *batches: StateBatch, error: int = 0) -> StateStep:
    asked = step(84, packet, error, leader_epoch=leader_epoch)
    if asked.accepted:
        asked.given = StateStep(asked.call, asked.partition, None, 2, None, start, None, batches)
    return asked


def write(
    packet: int, start: int, *batches: StateBatch, state_epoch: int = 2, leader_epoch: int = 0, error: int | None = 0
) -> StateStep:
    return step(
        85,
        packet,
        error,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        complete_count=-1,
        batches=batches,
    )


def after(*steps: StateStep) -> StoredState:
    stored = StoredState()
    for one in steps:
        stored.take(one)
    return stored


def test_what_is_held() -> None:
    early = write(1, 0)
    assert after().held(early) is None
    assert after(read(1, 0, 0, error=42)).held(early) is NOTHING
    known = after(step(83, 1, state_epoch=2, start_offset=-1), read(3, 1, -1))
    assert known.held(write(9, 0, leader_epoch=1)) is FITTING
    assert known.held(write(9, 0, leader_epoch=-1)) is FITTING
    assert known.held(write(9, 0, leader_epoch=0)) is NEWER_LEADER
    assert known.held(write(9, 0, leader_epoch=1, state_epoch=1)) is NEWER_STATE
    known.take(step(86, 11))
    assert known.held(early) is NOTHING


def test_where_batches_overlap_the_later_delivery_stays_then_the_higher_state() -> None:
    stored = after(
        write(1, 0, StateBatch(0, 9, 0, 2)),
        write(3, 0, StateBatch(0, 4, 2, 1), StateBatch(5, 14, 2, 2)),
        write(5, 2, StateBatch(9, 9, 0, 3)),
    )
    assert stored_batches(stored) == [
        StateBatch(2, 4, 0, 2),
        StateBatch(5, 8, 2, 2),
        StateBatch(9, 9, 0, 3),
        StateBatch(10, 14, 2, 2),
    ]


def test_a_refused_write_changes_nothing_and_one_without_an_answer_may() -> None:
    stored = after(read(1, 0, 0), write(3, 5, StateBatch(5, 9, 2, 1), error=74))
    assert (stored_batches(stored), stored.start_offset, stored.writes) == ([], 0, ALWAYS)
    stored.take(write(5, 5, StateBatch(5, 9, 2, 1), error=None))
    assert (stored_batches(stored), stored.start_offset, stored.writes) == ([], 0, never("unanswered"))


def test_connections_of_one_state_are_limited() -> None:
    stored = StoredState()
    with patch.object(limits, "SENDERS_OF_A_STATE", 2):
        for packet in (1, 3, 5):
            one = write(packet, packet)
            one.call.connection = connection(packet)
            stored.take(one)
    assert [stored.sender(one).write is None for one in map(_on, (1, 3, 5))] == [True, False, False]


def _on(number: int) -> StateStep:
    one = write(9, 9)
    one.call.connection = connection(number)
    return one
