"""What a rule is: one row of facts. What `explain` says, what Spark screens for, which bodies are read is derived from it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from kshark.analysis.argument import Argument
from kshark.analysis.machines import Machine
from kshark.analysis.rules.triggers import ALWAYS, Trigger
from kshark.analysis.steps import Kind, Reply
from kshark.anomaly import Blame
from kshark.conditions import Condition

Verdict = Literal["violation", "unknown", "note"]
#: Where a finding stands: at the request that breaks the rule, at the answer that shows it (what explains a refusal always does), or where
#: the client let go of its session: at its FIN, or the heartbeat by which it left.
At = Literal["request", "answer", "end"]
KINDS: Final = tuple(Kind)
REPLIES: Final = tuple(Reply)
#: What a rule that accuses may come to, what one may that also notes, and what one that never accuses comes to.
ACCUSES: Final[tuple[Verdict, ...]] = ("violation", "unknown")
NOTES_TOO: Final[tuple[Verdict, ...]] = ("violation", "unknown", "note")
NOTES: Final[tuple[Verdict, ...]] = ("note",)
#: What one comes to that explains a refusal: what the capture cannot prove is no explanation, and the refusal stays unexplained.
EXPLAINS: Final[tuple[Verdict, ...]] = ("violation",)


@dataclass(frozen=True, slots=True)
class Check:
    """A function that looks at a machine's step and says what is wrong, or nothing.

    `kinds`, `replies`: the steps of a session machine that it is about; it is called where `trigger` holds.
    `order`: its place among those that explain a refusal (122 or 123): the first one proved gives the refusal its one cause.
    """

    look: Callable[[Any], Argument | None]
    kinds: Collection[Kind] = KINDS
    replies: Collection[Reply] = REPLIES
    trigger: Trigger = ALWAYS
    order: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the catalogue.

    What it looks at is either one exchange: the requests of `apis` for which `when` holds, and whose answer `answer` holds for, if given;
    or the steps of `machine`, with `checks`. `blame` are the parties that it may accuse, the likeliest first; `verdicts` all that it can
    come to; `causes` all that its findings may name.
    """

    number: int | None
    code: str
    text: str
    source: str
    blame: tuple[Blame, ...] = ("client",)
    verdicts: tuple[Verdict, ...] = ACCUSES
    causes: tuple[str, ...] = ()
    at: At = "answer"
    machine: Machine | None = None
    checks: tuple[Check, ...] = ()
    apis: tuple[int, ...] = ()
    when: Condition | None = None
    answer: Condition | None = None
    #: What the exchange shows, in a few words for the argument's sentence.
    told: str = ""

    @property
    def accuses(self) -> bool:
        return "violation" in self.verdicts


class Checked(NamedTuple):
    """A check with the rule that it belongs to."""

    rule: Rule
    check: Check
