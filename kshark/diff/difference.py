"""A difference: one row of the comparison of two captures."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

from kshark.diff.chance import CHANCE

#: What a row is about, in the order of the output.
Kind = Literal[
    "event", "finding", "error", "unanswered", "latency", "throttling", "sessions", "rebalances",
    "note", "unproved", "client", "release", "version", "api", "wait", "load", "coverage",
]  # fmt: skip
#: Kinds that can get worse or better. The others are shown apart: a note or a finding that is not proved, and facts.
GRADED: Final = frozenset(
    {"event", "finding", "error", "unanswered", "latency", "throttling", "sessions", "rebalances"}
)
#: `changed`: it differs, which is neither better nor worse. `same`: no difference, or none that is more than chance.
Verdict = Literal["worse", "better", "new", "gone", "changed", "same", "not comparable"]


class Difference(Struct):
    """One row; its fields are the JSON object.

    `before`, `after`: of a rate `{"count", "of", "per_1000"}`, of latencies `{"ms", "count"}`, of loads
    `{"per_second"}`, of versions and releases a list of texts, of coverage how often a rule was put to the test; None
    where there is nothing to compare. `change`: the factor by which a number grew, None if it was 0 or is no number.
    `is_worse`: it gives exit code 1. `chance`: the greatest probability of such a difference if nothing changed, None
    if no test applies. `code`, `cause`: of findings; without a cause those of all causes together. `packet`: of the
    first finding, in the capture after the change if it has one. `weight`: of the rule. `example`: a sentence about
    the first event.
    """

    kind: Kind
    name: str
    before: Any
    after: Any
    change: float | None
    verdict: Verdict
    sentence: str
    is_worse: bool = False
    chance: float | None = None
    code: str | None = None
    cause: str | None = None
    packet: int | None = None
    weight: int = 0
    example: str = ""

    @property
    def may_be_chance(self) -> bool:
        """True if the numbers differ as much as the threshold asks, and too few occurrences show it."""
        return self.chance is not None and self.chance >= CHANCE

    @property
    def is_better(self) -> bool:
        """True if it is the opposite of worse."""
        return self.kind in GRADED and self.verdict in ("better", "gone") and not self.may_be_chance
