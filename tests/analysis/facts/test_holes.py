"""Holes of a connection: what lies between two packets may be missing."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.analysis.facts.holes import Hole, Holes


@pytest.mark.parametrize(
    ("first", "last", "missing"),
    [(1, 10, None), (1, 11, "cut"), (10, 20, "cut"), (12, 13, "cut"), (19, 30, "cut"), (20, 30, None), (1, 99, "cut")],
)
def test_a_hole_lies_between_two_packets(first: int, last: int, missing: str | None) -> None:
    assert Holes([Hole(10, 20, "cut")]).between(first, last) == missing


def test_the_first_one_found_says_why() -> None:
    holes = Holes([Hole(30, 40, "gap"), Hole(10, 20, "cut")])
    assert holes.between(1, 99) == "gap"
    assert holes.between(1, 25) == "cut"
    assert holes.between(20, 30) is None


def test_too_many_become_fewer_that_cover_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HOLES", 2)
    holes = Holes()
    for first, last in ((30, 40), (10, 20), (60, 70)):
        holes.add(Hole(first, last, "cut"))
    assert holes == [Hole(10, 40, "gap"), Hole(60, 70, "cut")]


def test_the_newer_half_is_still_known_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HOLES", 4)
    holes = Holes(Hole(packet, packet + 5, "cut") for packet in (10, 20, 30, 40, 50))
    assert holes == [Hole(10, 35, "gap"), Hole(40, 45, "cut"), Hole(50, 55, "cut")]
    assert holes.between(16, 19) == "gap"
    assert holes.between(46, 49) is None


def test_as_many_as_there_may_be_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HOLES", 2)
    holes, others = Holes(), Holes([Hole(10, 20, "cut"), Hole(30, 40, "gap")])
    holes.join(others)
    assert holes == others
