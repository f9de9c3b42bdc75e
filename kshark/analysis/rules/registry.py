"""What a rule is: a code of the catalogue, the steps it is about, and a pure function from a situation to an argument, or to nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Final

from kshark.analysis.evidence import Argument
from kshark.analysis.memory import Situation
from kshark.analysis.steps import Kind, Reply
from kshark.anomaly import CATALOGUE

Check = Callable[[Situation], Argument | None]
_KINDS: Final = tuple(Kind)
_REPLIES: Final = tuple(Reply)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the catalogue: looked at for steps with one of these kinds of epoch and one of these answers only."""

    code: str
    kinds: Collection[Kind]
    replies: Collection[Reply]
    check: Check


def rule(code: str, *, kinds: Collection[Kind] = _KINDS, replies: Collection[Reply] = _REPLIES) -> Callable[[Check], Rule]:
    """Names the catalogue's code that a function proves, and the steps that it is about."""
    assert code in CATALOGUE, code
    return lambda check: Rule(code, kinds, replies, check)


def by_step(rules: Iterable[Rule]) -> dict[tuple[Kind, Reply], tuple[Rule, ...]]:
    """The rules to be looked at for a step, by its kind and reply, in the order given."""
    known = tuple(rules)
    steps = product(_KINDS, _REPLIES)
    return {(kind, reply): tuple(rule for rule in known if kind in rule.kinds and reply in rule.replies) for kind, reply in steps}
