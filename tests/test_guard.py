"""Nobody puts a loop into the hot path: what Python does for one message more, counted, on fixed traffic; no clock is
asked.

`python -m tests.test_guard` prints today's counts as the table ALLOWED wants them, the margin included.
"""

from __future__ import annotations

import gc
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

from benchmarks.conversations import OLD_VERSIONS, converse
from benchmarks.repeating import continued
from benchmarks.wire import Connection, Wire
from kshark.cli import main
from tests.exchange.test_stage import metadata
from tests.shared import CAPTURES

MARGIN: Final = 1.1
#: Two lengths of the same traffic: what the longer one costs more, its additional messages cost; the start cancels out.
SIZES: Final = {
    "share RPCs": (200_000, 800_000),
    "record batches": (300_000, 1_500_000),
    "pipelined requests": (40_000, 160_000),
}


class Counts(NamedTuple):
    """For one message: Python functions entered (generators each time they go on), C functions called, lines of Python
    run."""

    calls: float
    c_calls: float
    lines: float


TRAFFIC: Final[dict[str, Callable[[Wire, int], None]]] = {
    "share RPCs": lambda wire, size: continued(CAPTURES / "share-java-explicit.pcap", wire, size),
    "record batches": lambda wire, size: converse(wire, replace(OLD_VERSIONS, pool=20), size),
    "pipelined requests": lambda wire, size: pipelined(wire, size),
}
WAYS: Final = {
    "json": ("read", "-T", "json"),
    "no records": ("read", "-T", "json", "--no-records"),
    "fields": ("read", "-T", "fields", "-e", "kafka.api_key", "-e", "kafka.correlation_id"),
    "check": ("check", "-T", "json"),
    "tables": ("export", "-q"),
}
ALLOWED: Final = {
    ("share RPCs", "json"): Counts(12.8, 29.4, 193.2),
    ("share RPCs", "no records"): Counts(6.1, 20.6, 150.8),
    ("share RPCs", "fields"): Counts(3.7, 12.0, 85.7),
    ("share RPCs", "check"): Counts(54.5, 62.4, 464.4),
    ("share RPCs", "tables"): Counts(71.7, 90.7, 585.4),
    ("record batches", "json"): Counts(24.6, 44.1, 255.4),
    ("record batches", "no records"): Counts(8.1, 27.8, 149.7),
    ("record batches", "fields"): Counts(6.4, 18.5, 103.7),
    ("record batches", "tables"): Counts(33.0, 69.8, 409.6),
    ("pipelined requests", "fields"): Counts(4.8, 11.4, 93.9),
}


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(("traffic", "way"), ALLOWED, ids=[" as ".join(key) for key in ALLOWED])
def test_a_message_costs_no_more_than_it_is_allowed(traffic: str, way: str) -> None:
    found = a_message(traffic, way)
    allowed = ALLOWED[traffic, way]
    too_many = {
        name: (round(one, 1), most)
        for name, one, most in zip(Counts._fields, found, allowed, strict=True)
        if one > most
    }
    assert not too_many, "counted and allowed for a message; python -m tests.test_guard prints today's counts"


def a_message(traffic: str, way: str) -> Counts:
    """What one message more costs."""
    counted = []
    run(capture(traffic, SIZES[traffic][0]), WAYS[way])  # decoders are compiled, modules imported
    for size in SIZES[traffic]:
        path = capture(traffic, size)
        with counting() as counts:
            run(path, WAYS[way])
        counted.append((messages(path), counts))
    (few, less), (many, more) = counted
    return Counts(*((more[what] - less[what]) / (many - few) for what in Counts._fields))


@cache
def capture(traffic: str, size: int) -> Path:
    path = Path(folder().name) / f"{traffic}-{size}.pcap"
    with path.open("wb") as out:
        TRAFFIC[traffic](Wire(out), size)
    return path


def pipelined(wire: Wire, size: int) -> None:
    """None of them is answered: what is open may not be gone through with each that comes."""
    connection, number = Connection(wire, "10.0.0.1:50000", "10.0.0.9:9092"), 0
    connection.open()
    while wire.written < size:
        connection.piece(0, metadata(number))
        number += 1
    wire.flush()


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Removed at the end of the process."""
    return tempfile.TemporaryDirectory()


@cache
def messages(path: Path) -> int:
    return run(path, WAYS["fields"])


def run(path: Path, arguments: tuple[str, ...]) -> int:
    """Lines that kshark prints; tables go into a folder that is removed with the captures."""
    out = io.TextIOWrapper(io.BytesIO())
    young = gc.get_threshold()
    tables = ("-o", str(path.with_suffix(""))) if arguments[0] == "export" else ()
    try:
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            assert main([*arguments, str(path), *tables]) == 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*young)
    out.flush()
    raw = out.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().count(b"\n")


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count what this thread does; whoever traced or profiled before does so again afterwards. Meanwhile no garbage is
    collected: finalizers and Hypothesis's callback would be counted."""
    counts: Counter[str] = Counter()

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        counts["lines"] += event == "line"
        return line

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        counts["calls"] += 1
        return line

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        counts["c_calls"] += event == "c_call"

    before, collecting = (sys.gettrace(), sys.getprofile()), gc.isenabled()
    gc.disable()
    sys.settrace(call)
    sys.setprofile(profile)
    try:
        yield counts
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
        if collecting:
            gc.enable()


def print_today() -> None:
    for traffic, way in ALLOWED:
        counts = ", ".join(f"{one * MARGIN:.1f}" for one in a_message(traffic, way))
        print(f'    ("{traffic}", "{way}"): Counts({counts}),')


if __name__ == "__main__":
    print_today()
