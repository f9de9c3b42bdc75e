"""Random walks against real brokers, marked by what the walker knew; and captures of correct clients, of which nothing
is to be said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kshark
from tests.shared import CAPTURES, shared
from tests.walks.marking import mark

WALKS = ("walk-412-1", "walk-wild-1")


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", WALKS)
def test_each_refusal_has_one_cause_and_provable_ones_the_right_one(name: str) -> None:
    marks = mark(shared("captures", "walks", f"{name}.pcap"))
    assert marks.steps > 1700
    assert marks.provable > 460
    assert marks.uncaused == []
    assert marks.wrong_unprovable == []
    assert marks.wrong == []
    assert marks.accused == []
    assert marks.right >= 0.99 * marks.provable


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", WALKS)
def test_mistakes_that_are_refused_otherwise_or_not_at_all_are_found_too(name: str) -> None:
    marks = mark(shared("captures", "walks", f"{name}.pcap"))
    assert marks.found > 90
    assert (marks.missed, marks.unfounded) == ([], [])


def violations(capture: Path, allowed: list[int]) -> list[str]:
    """Code and packet of each; `allowed` are rules that the peers of this capture break."""
    found = kshark.check(capture)
    return [f"{it.code} at packet {it.packet}" for it in found if it.verdict == "violation" and it.rule not in allowed]


def test_java_consumers_that_wait_for_a_session_break_no_rule() -> None:
    assert violations(CAPTURES / "java-limit.pcap", []) == []


@pytest.mark.slow
def test_correct_peers_break_no_rule() -> None:
    clean = json.loads(shared("captures", "clean.json").read_text())
    assert len(clean) > 30
    for name, allowed in clean.items():
        assert violations(shared("captures", *name.split("/")), allowed) == [], name
