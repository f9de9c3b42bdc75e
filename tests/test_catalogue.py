"""The catalogue and the code agree: every code is told of some capture, and no other is.

Codes of the group `session` are rules of kshark.analysis; their own tests say when they come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

from kshark.anomaly import CATALOGUE
from kshark.face import pages
from kshark.model import Gap, Message, Weird
from kshark.pipeline import Options
from tests.shared import CAPTURES
from tests.weird_captures import MAKERS, Bench

#: Codes of running captures only: tests/capture/test_live_items.py.
LIVE = {"INTERFACE_DOWN"}
#: Codes of log segments, which are no captures: tests/segments.
SEGMENTS = {"SEGMENT_CUT", "SEGMENT_ZEROS", "SEGMENT_INVALID", "SNAPSHOT_EPOCH_OLD", "TOMBSTONE_MISSING"}
SEGMENTS |= {"STATE_PARTITION_WRONG"}
BUNDLED = frozenset(CAPTURES.glob("*.pcap*"))


def codes(paths: Collection[Path]) -> set[str]:
    """Everything odd that the stages tell of a capture; of a bundled one, which many ask for, it is read once."""
    return set(_of_bundled(*paths) if set(paths) <= BUNDLED else _codes(*paths))


def _codes(*paths: Path) -> Iterator[str]:
    for page in pages(paths, Options(embedded=True)):
        for event in page:
            match event:
                case Weird():
                    yield event.code
                case Gap():
                    yield "STREAM_GAP"
                case Message(weird=list()):
                    yield from event.weird


@cache
def _of_bundled(*paths: Path) -> set[str]:
    return set(_codes(*paths))


def test_every_code_of_a_stage_has_a_capture() -> None:
    assert MAKERS.keys() | LIVE | SEGMENTS == {code for code, entry in CATALOGUE.items() if entry.group != "session"}


@pytest.mark.sweep(quick=20)
@pytest.mark.parametrize("code", MAKERS)
def test_the_code_is_told_of_its_capture(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code in codes(MAKERS[code](Bench(tmp_path, monkeypatch)))


@pytest.mark.slow
@pytest.mark.parametrize("capture", sorted(BUNDLED), ids=lambda path: path.name)
def test_no_capture_is_told_a_code_that_the_catalogue_lacks(capture: Path) -> None:
    assert codes([capture]) <= CATALOGUE.keys()


def test_texts_are_sentences() -> None:
    assert [
        entry.code for entry in CATALOGUE.values() if not entry.text.endswith(".") or not entry.text[0].isupper()
    ] == []
