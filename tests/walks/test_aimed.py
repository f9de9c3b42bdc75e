"""Eight scenarios, each turning on one answer: what is said of it, and that no missing connection, answer or FIN makes
it worse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from kshark.model import Finding
from tests.shared import CAPTURES, sample_of
from tests.thinning import Loss, Whole, added, findings_of, place_of, single_packets

NAMES = ("aimed", "aimed-4.1.2")
SCENARIOS = [(name, f"S{number}") for name in NAMES for number in range(1, 9)]
EACH = pytest.mark.parametrize(("name", "scenario"), SCENARIOS)
#: What each scenario's answer is due to: verdict and cause; None: nothing was wrong, no finding blames anybody there.
DUE = {
    "S1": ("note", "connection_closed"),
    "S2": ("note", "connection_closed"),
    "S3": ("note", "connection_closed"),
    "S4": None,
    "S5": None,
    "S6": ("note", "connection_closed"),
    "S7": ("note", "connection_closed"),
    "S8": None,
}
#: KAFKA-19950: the late end of the old connection takes the new session away.
DUE_BEFORE_4_2 = {**DUE, "S8": ("violation", "old_connection_closed")}
#: Mistakes that belong to the scenarios: the reopening that fails (S3) and the epoch that is refused (S4).
MISTAKES = {("DUPLICATE_PARTITION_ENTRY", "S3"), ("EPOCH_SKIP_AHEAD", "S4")}


@dataclass(frozen=True)
class Scenario:
    """`keep` is the port where the answer is, with that correlation id; `others` are the ports of connections that may
    be missed."""

    name: str
    keep: int
    correlation_id: int
    others: tuple[int, ...]


def scenarios(capture: Path) -> Iterator[Scenario]:
    marks = json.loads(capture.with_suffix(".summary.json").read_text())["marks"]
    for name, mark in marks.items():
        others = [mark[word] for word in ("remove", "first", "second", "heartbeats") if word in mark]
        yield Scenario(name.split()[0], mark["keep"], mark["cid"], tuple(others))


@cache
def loaded(name: str) -> tuple[Whole, list[Finding], dict[str, Scenario]]:
    capture = CAPTURES / f"{name}.pcap"
    whole = Whole.load(capture)
    return whole, findings_of(whole, whole.everything()), {scenario.name: scenario for scenario in scenarios(capture)}


def port_of(finding: Finding) -> int:
    return int(finding.client.rsplit(":", 1)[1])


def pair_of(whole: Whole, port: int) -> int:
    """The connection of a client's port."""
    (pair,) = [pair for pair in whole.pairs if any(end.endswith(f":{port}") for end in whole.ends[pair])]
    return pair


@EACH
def test_each_answer_has_the_cause_that_it_has(name: str, scenario: str) -> None:
    _, found, every = loaded(name)
    turn = every[scenario]
    here = [it for it in found if (port_of(it), place_of(it)[-1]) == (turn.keep, turn.correlation_id)]
    caused = [(it.verdict, it.cause) for it in here if it.cause is not None]
    accusing = [(it.verdict, it.code) for it in here if it.cause is None and it.verdict != "note"]
    expected = (DUE_BEFORE_4_2 if name == "aimed-4.1.2" else DUE)[scenario]
    assert caused == ([expected] if expected else [])
    assert accusing == []


@pytest.mark.parametrize("name", NAMES)
def test_nobody_else_is_accused(name: str) -> None:
    _, found, every = loaded(name)
    at = {port: scenario.name for scenario in every.values() for port in (scenario.keep, *scenario.others)}
    turns = {(scenario.keep, scenario.correlation_id) for scenario in every.values()}
    accused = [it for it in found if it.verdict == "violation" and (port_of(it), place_of(it)[-1]) not in turns]
    assert {(it.code, at[port_of(it)]) for it in accused} == MISTAKES
    assert len(accused) == len(MISTAKES)


def losses(whole: Whole, scenario: Scenario) -> Iterator[Loss]:
    """Each other connection of the scenario; of all its connections, each answer and each FIN or RST."""
    for port in scenario.others:
        pair = pair_of(whole, port)
        yield f"{scenario.name} without the connection of port {port}", (whole.path >> 1) != pair
    pairs = {pair_of(whole, port) for port in (scenario.keep, *scenario.others)}
    answers = [whole.places(it.response) for it in whole.exchanges if it.response is not None]
    for places in [*answers, *([at] for at in whole.endings)]:
        if whole.path[places[0]] >> 1 in pairs:
            yield f"{scenario.name} without packet {whole.number[places[0]]}", whole.without(places)


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("aimed", sample_of(SCENARIOS, 5, seed=10), ids="-".join)
def test_no_missing_connection_answer_or_end_accuses_anybody(aimed: tuple[str, str]) -> None:
    name, scenario = aimed
    whole, found, every = loaded(name)
    more = [
        f"{words}: {it.code} {it.cause or ''}: {it.argument}"
        for words, keep in losses(whole, every[scenario])
        for it in added(found, findings_of(whole, keep))
    ]
    assert more == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_missing_packet_accuses_anybody(name: str) -> None:
    whole, found, _ = loaded(name)
    more = [
        f"{words}: {it.code}" for words, keep in single_packets(whole) for it in added(found, findings_of(whole, keep))
    ]
    assert more == []
