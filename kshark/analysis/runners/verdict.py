"""A rule's argument with its judgement."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.judge import Judgement, judge
from kshark.analysis.facts.known import ALWAYS, Known
from kshark.analysis.rules.rule import Rule

#: A remark is about a step that the rule looks at in any case. An explanation gives the reason why a step was refused.
Part = Literal["remark", "explanation"]


class Verdict(NamedTuple):
    """The argument of a rule and what the capture proves of it. Findings are made of the reported ones.

    `silent`: not reported, as an explanation without a proof where another one is reported.
    """

    rule: Rule
    argument: Argument
    judgement: Judgement
    part: Part = "remark"
    silent: bool = False

    @property
    def is_reported(self) -> bool:
        """True if a finding is made of it. A rule that can only give notes is not reported without a proof."""
        return not self.silent and self.judgement.verdict in self.rule.verdicts


def judged(rule: Rule, argument: Argument, states: Known = ALWAYS, part: Part = "remark") -> Verdict:
    """Judge the argument by the states at its step, or by itself."""
    return Verdict(rule, argument, judge(argument, states, accuses=rule.accuses), part)
