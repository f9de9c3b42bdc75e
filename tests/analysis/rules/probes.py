"""A rule for each situation that is asked at every step of its kind: its check has no trigger.

Such a rule is written as kshark/analysis/rules/README.md says. Every engine has to give the same findings for it,
however plain a step is.
"""

from __future__ import annotations

from typing import Any, Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.rules.rule import NOTES, Check, Rule
from kshark.analysis.states.partition.situations import (
    Acknowledging,
    Acquiring,
    Misdirected,
    Persisted,
    Starving,
    Unserved,
)
from kshark.analysis.states.session.situation import SessionEnd
from kshark.analysis.states.tables import CONNECTION, IN_FLIGHT, MEMBER, PERSISTER, SESSION, Machine
from kshark.api_keys import SHARE_FETCH


def _step(now: Any) -> Argument:
    return Argument(now.step.here, (now.step,), EXCHANGE)


def _stored(now: Any) -> Argument:
    return Argument(now.step.call.here, (now.step.call,), EXCHANGE)


def _visit(now: Any) -> Argument:
    return Argument(now.call.here, (now.call,), EXCHANGE)


def _end(now: Any) -> Argument | None:
    last = now.session.last
    return None if last is None else Argument(last.here, (last,), EXCHANGE)


def _probe(code: str, machine: Machine, check: Check, apis: tuple[int, ...] = ()) -> Rule:
    return Rule(
        number=None,
        code=code,
        text="Reported at each such step.",
        source="a test",
        blame=(),
        verdicts=NOTES,
        machine=machine,
        apis=apis,
        checks=(check,),
    )


#: Captures with steps of every kind.
CAPTURES: Final = (
    "share-errors",
    "share-java-explicit-4.1.2",
    "share-leaders",
    "share-restart",
    "share-window",
    "seed-messy",
)
PROBES: Final = (
    _probe("EACH_REQUEST", SESSION, Check(_step)),
    _probe("EACH_END", SESSION, Check(_end, about=SessionEnd)),
    _probe("EACH_HEARTBEAT", MEMBER, Check(_step)),
    _probe("EACH_ACKNOWLEDGEMENT", IN_FLIGHT, Check(_step, about=Acknowledging)),
    _probe("EACH_ACQUISITION", IN_FLIGHT, Check(_step, about=Acquiring)),
    _probe("EACH_STORED_ACKNOWLEDGEMENT", IN_FLIGHT, Check(_step, about=Persisted)),
    _probe("EACH_LEADER_HINT", IN_FLIGHT, Check(_step, about=Misdirected)),
    _probe("EACH_FULL_WINDOW", IN_FLIGHT, Check(_step, about=Starving)),
    _probe("EACH_FAILED_PARTITION", IN_FLIGHT, Check(_step, about=Unserved)),
    _probe("EACH_STATE", PERSISTER, Check(_stored)),
    _probe("EACH_VISIT", CONNECTION, Check(_visit), (SHARE_FETCH,)),
)
