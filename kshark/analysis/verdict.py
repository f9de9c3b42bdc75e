"""A rule's argument, judged."""

from __future__ import annotations

from typing import NamedTuple

from kshark.analysis.argument import Argument
from kshark.analysis.judge import Judgement
from kshark.analysis.rules.rule import Rule


class Verdict(NamedTuple):
    """What a rule says and what the capture proves of it; findings are made of it."""

    rule: Rule
    argument: Argument
    judgement: Judgement
