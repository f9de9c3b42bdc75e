"""A rule's argument with its judgement."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from kshark.analysis.facts.argument import Argument, sent_in_order
from kshark.analysis.facts.judge import Judgement, judge
from kshark.analysis.facts.known import ALWAYS, Known
from kshark.analysis.rules.rule import Rule
from kshark.analysis.states.tables import CONSUMER, GENERATION, MEMBER, PERSISTER, SESSION

#: A remark is about a step that the rule looks at in any case. An explanation gives the reason why a step was refused.
Part = Literal["remark", "explanation"]
#: Machines whose verdicts can wait for later requests.
_WAIT: Final = (SESSION, MEMBER, CONSUMER, GENERATION, PERSISTER)


class Verdict(NamedTuple):
    """The argument of a rule and what the capture proves of it. Findings are made of the reported ones.

    `silent`: not reported, as an explanation without a proof where another one is reported.
    `instead`: the explanation that is reported if this one waits for its proof and does not get it.
    """

    rule: Rule
    argument: Argument
    judgement: Judgement
    part: Part = "remark"
    silent: bool = False
    instead: Verdict | None = None

    @property
    def is_reported(self) -> bool:
        """True if a finding is made of it. A rule that can only give notes is not reported without a proof."""
        return not self.silent and self.judgement.verdict in self.rule.verdicts


def judged(rule: Rule, argument: Argument, states: Known = ALWAYS, part: Part = "remark") -> Verdict:
    """Judge the argument by the states at its step, or by itself."""
    blame = argument.blame or next(iter(rule.blame), None)
    if blame == "client" and len(argument.witness) > 1 and rule.machine in _WAIT and not argument.noted:
        argument = sent_in_order(argument)
    return Verdict(rule, argument, judge(argument, states, accuses=rule.accuses), part)
