"""A rule's argument, judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.judge import Judgement, judge
from kshark.analysis.rules.rule import Checked, Rule

#: A remark is what a rule says of a step that it looks at anyway, an explanation why a step was refused.
Part = Literal["remark", "explanation"]


class Verdict(NamedTuple):
    """What a rule says and what the capture proves of it; findings are made of those that are told.

    `silent`: it is not, as an explanation that was not proved where another one is told.
    """

    rule: Rule
    argument: Argument
    judgement: Judgement
    part: Part = "remark"
    silent: bool = False

    @property
    def is_reported(self) -> bool:
        """Whether it is worth a word: what could only be a note is not, where it is not proved."""
        return not self.silent and self.judgement.verdict in self.rule.verdicts


def judged(rule: Rule, argument: Argument, now: Any = None, part: Part = "remark") -> Verdict:
    """The argument, judged by what was known at the step it is about; `now` None: by itself."""
    return Verdict(rule, argument, judge(argument, now, accuses=rule.accuses), part)


def explanations(checks: Iterable[Checked], now: Any, known: Any) -> Iterator[Verdict]:
    """What may explain why `now` was refused, in the order of the checks; judged by what was `known`, None for by
    itself."""
    for rule, check in checks:
        argument = check.look(now)
        if argument is not None:
            yield judged(rule, argument, known, "explanation")


def unexplained(told: Verdict, weak: Iterable[Verdict]) -> list[Verdict]:
    """What is said of a refusal that nothing explains, and the rules that may yet, once each."""
    return [told, *{one.rule.code: one._replace(silent=True) for one in weak if one.rule is not told.rule}.values()]
