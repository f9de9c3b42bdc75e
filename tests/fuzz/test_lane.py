"""The fuzz lane: no kind fails today, each sees the faults that are planted for it, and what fails is made small and
comes again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kshark.analysis import Analyzer
from kshark.cli import check, stats
from kshark.conditions import filter as filters
from kshark.exchange import stage
from kshark.framing import cutting
from kshark.records import reader
from tests.fuzz import bodies, captures
from tests.fuzz.kinds import KINDS
from tests.fuzz.lane import Lane, Saved, replay, write

BY_NAME = {kind.name: kind for kind in KINDS}
#: Cases of each kind that the quick test tries, and until it has to see a planted fault.
QUICK = {
    "captures": 6,
    "losses": 2,
    "unreadable": 2,
    "frames": 6,
    "bodies": 15,
    "records": 8,
    "filters": 1,
    "commands": 5,
}
PATIENCE = 100


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize("name", QUICK)
def test_no_case_fails(name: str) -> None:
    lane = Lane([BY_NAME[name]], seed=1)
    for _ in range(QUICK[name]):
        assert lane.run(BY_NAME[name]) is None
    assert lane.counts[name].items > 0


def test_every_kind_is_tried() -> None:
    assert QUICK.keys() == BY_NAME.keys()


def raising(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("planted")


def endless(*_: Any, **__: Any) -> Any:
    while True:
        pass


def without_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """A writer that leaves its last byte out."""
    return lambda *given, **named: lambda value: function(*given, **named)(value)[:-1]


#: By what is planted: the kind that has to see it, what it says, where the fault is and what stands there.
PLANTED: dict[str, tuple[str, str, Any, str, Any]] = {
    "a reader that raises": ("frames", "ZeroDivisionError", stage, "read_request", raising),
    "a reader that never ends": ("frames", "Hang", stage, "read_response", endless),
    "a header that is skipped by one path": ("frames", "differ", stage, "skip_tags", lambda buffer, at, end: at),
    "a writer that forgets": ("bodies", "written", bodies, "compile_writer", without_last(bodies.compile_writer)),
    "frames that raise": ("captures", "ZeroDivisionError", cutting, "cut", raising),
    "an analysis with one path that is another": (
        "captures",
        "analysis",
        captures,
        "Analyzer",
        lambda **how: Other(**how),
    ),
    "columns that lose": ("records", "two ways", reader.Columns, "read", lambda *_: []),
    "a filter that raises": ("filters", "ZeroDivisionError", filters, "parse", raising),
    "a command that raises": ("commands", "bug in kshark", stats, "run", raising),
    "a command that ends otherwise": ("commands", "exit code", check, "run", lambda _: 3),
}


class Other(Analyzer):
    """Its exact path says one thing less."""

    def __init__(self, *, exact: bool = False, **how: Any) -> None:
        super().__init__(exact=exact, **how)
        self._less = exact

    def summary(self) -> dict[str, Any]:
        return {} if self._less else super().summary()


def found(kind: str) -> Saved:
    lane = Lane([BY_NAME[kind]], seed=2)
    return next(failed for _ in range(PATIENCE) if (failed := lane.run(BY_NAME[kind])) is not None)


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_seen_and_comes_again(planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kind, said, where, name, what = PLANTED[planted]
    if said == "Hang":
        monkeypatch.setattr(BY_NAME[kind], "most_s", 0.2)
    monkeypatch.setattr("tests.fuzz.lane.SHRINKING_S", 0.3)
    with monkeypatch.context() as patched:
        patched.setattr(where, name, what)
        saved = found(kind)
        assert said in saved.what
        path = write(saved, tmp_path)
        again = replay(path, list(KINDS))
        assert again is not None
        assert again.what == saved.what
    assert replay(path, list(KINDS)) is None


def test_what_fails_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "read_request", raising)
    saved = found("frames")
    (frame,) = saved.case["frames"]
    assert len(frame["data"]) < 20


def test_missing_packets_that_accuse_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever the whole capture has, as if that were nothing."""
    monkeypatch.setattr(
        "tests.fuzz.losses.added", lambda known, found: [one for one in found if one.verdict == "violation"]
    )
    assert found("losses").what == "missing packets accuse"


def test_what_cannot_be_read_and_accuses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.unreadable.OF_BYTES", frozenset())
    assert found("unreadable").what == "what cannot be read accuses"
