"""What a rule is: a code of the catalogue and a pure function from a situation to an argument, or to nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kshark.analysis.evidence import Argument
from kshark.analysis.memory import Situation
from kshark.anomaly import CATALOGUE

Check = Callable[[Situation], Argument | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the catalogue."""

    code: str
    check: Check

    def __call__(self, now: Situation) -> Argument | None:
        return self.check(now)


def rule(code: str) -> Callable[[Check], Rule]:
    """Names the catalogue's code that a function proves."""
    assert code in CATALOGUE, code
    return lambda check: Rule(code, check)
