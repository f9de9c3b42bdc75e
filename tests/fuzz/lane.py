"""Runs cases of the kinds, each within its CPU time, and makes those that fail as small as they get."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from traceback import extract_tb, format_exception
from types import FrameType
from typing import Any, Final

import msgspec

from tests.fuzz.kind import Broken, Kind

#: Tries of smaller cases, and their CPU time in seconds, for one failure.
TRIES: Final = 5_000
SHRINKING_S: Final = 60.0


class Hang(BaseException):
    """A case took more CPU time than it may; no `except Exception` takes it for damaged bytes."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises Hang in what takes more CPU time of this process than that."""

    def stop(_: int, frame: FrameType | None) -> None:
        raise Hang(f"more than {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass(frozen=True)
class Failure:
    """How a case failed: `what` is the same for cases that fail in the same way."""

    what: str
    text: str


class Saved(msgspec.Struct):
    """A failure as a file."""

    kind: str
    seed: int
    number: int
    what: str
    text: str
    case: Any


@dataclass
class Counts:
    """What was run of a kind."""

    cases: int = 0
    items: int = 0
    size: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0


class Lane:
    """Cases of one seed; `counts` by the name of their kind."""

    def __init__(self, kinds: list[Kind[Any]], seed: int) -> None:
        self.kinds = kinds
        self.seed = seed
        self.counts = {kind.name: Counts() for kind in kinds}

    def next(self) -> Kind[Any]:
        """The kind that lags most behind its share of the time."""
        return min(self.kinds, key=lambda kind: self.counts[kind.name].cpu_s / kind.share)

    def run(self, kind: Kind[Any]) -> Saved | None:
        """Its next case: None where all is well, else the failure, made small."""
        counts = self.counts[kind.name]
        begun = time.process_time()
        failed = self.one(kind, counts.cases)
        counts.cases += 1
        counts.cpu_s += time.process_time() - begun
        return failed

    def one(self, kind: Kind[Any], number: int) -> Saved | None:
        """The case with that number."""
        case = kind.make(Random(f"{self.seed} {kind.name} {number}"))
        failure = tried(kind, case, self.counts[kind.name])
        if failure is None:
            return None
        small, last = shrunk(kind, case, failure)
        return Saved(kind.name, self.seed, number, last.what, last.text, msgspec.to_builtins(small, builtin_types=()))


def tried(kind: Kind[Any], case: Any, counts: Counts | None = None) -> Failure | None:
    """How the case fails; None where it does not."""
    try:
        with within(kind.most_s):
            seen = kind.check(case)
    except KeyboardInterrupt:
        raise
    except (Exception, Hang, SystemExit) as error:
        return Failure(_what(error), "".join(format_exception(error, limit=-12)))
    if counts is not None:
        counts.items += seen.items
        counts.size += seen.size
        counts.codes.update(seen.codes)
    return None


def _what(error: BaseException) -> str:
    if isinstance(error, Broken):
        return error.what
    if isinstance(error, Hang):
        return "Hang"
    frames = [frame for frame in extract_tb(error.__traceback__) if "tests/fuzz" not in frame.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "the lane itself"
    return f"{type(error).__name__} at {where}"


def shrunk(kind: Kind[Any], case: Any, failure: Failure) -> tuple[Any, Failure]:
    """The smallest case found that fails in the same way."""
    tries, until = 0, time.process_time() + SHRINKING_S
    found = True
    while found:
        found = False
        for smaller in kind.smaller(case):
            tries += 1
            if tries > TRIES or time.process_time() > until:
                return case, failure
            again = tried(kind, smaller)
            if again is not None and again.what == failure.what:
                case, failure, found = smaller, again, True
                break
    return case, failure


def write(saved: Saved, folder: Path) -> Path:
    """The failure as a file that `replay` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{saved.kind}-{saved.seed}-{saved.number}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(saved)))
    return path


def replay(path: Path, kinds: list[Kind[Any]]) -> Failure | None:
    """How the case of that file fails today; None where it does not any more."""
    saved = msgspec.json.decode(path.read_bytes(), type=Saved)
    kind = next(kind for kind in kinds if kind.name == saved.kind)
    return tried(kind, msgspec.convert(saved.case, kind.case))
