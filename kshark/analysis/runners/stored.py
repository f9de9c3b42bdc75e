"""Moves the persister machines: each exchange with a share coordinator is judged by the rules, then taken into the
stored state."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from kshark import limits
from kshark.analysis.facts.argument import Argument
from kshark.analysis.facts.calls import Partition
from kshark.analysis.facts.connections import Connection
from kshark.analysis.facts.holes import Hole
from kshark.analysis.facts.judge import Judgement
from kshark.analysis.facts.reading import doubt_of
from kshark.analysis.facts.state_steps import StateBatch, StateStep, state_steps
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.persister import STATES_FORGOTTEN, forgotten
from kshark.analysis.rules.rule import Rule
from kshark.analysis.rules.stored import LONGEST_WINDOW
from kshark.analysis.runners.coverage import Covering
from kshark.analysis.runners.verdict import Verdict, judged
from kshark.analysis.states.stored.state import StoredState, Storing
from kshark.analysis.states.tables import PERSISTER
from kshark.analysis.states.tables.in_flight import STORED
from kshark.model import Message

#: The number of the cluster, group id, partition.
_Key = tuple[int, str | None, Partition]


class Persister:
    """Looks at the exchanges between brokers and share coordinators. Beyond the limits the longest unused states are
    forgotten.

    `tell` is told every step. `exact`: the rules look at those, too, of which none has anything to say; the findings
    are the same."""

    def __init__(
        self,
        book: RuleBook,
        tell: Callable[[StateStep], object],
        covering: Covering | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self._tell = tell
        self._covering = covering
        self._exact = exact or book.concerns_plain(PERSISTER)
        rules = [rule for rule in book.rules if rule.machine is PERSISTER and rule.checks]
        self.apis: Final = PERSISTER.apis if rules else frozenset()
        #: By API the rules that look at it, each with those of its checks that do.
        self._checks: Final = {
            api: [
                (rule, mine)
                for rule in rules
                if (mine := [check for check in rule.checks if not check.apis or api in check.apis])
            ]
            for api in self.apis
        }
        self._stored: OrderedDict[_Key, StoredState] = OrderedDict()
        self._ranges = 0
        self._forgot = False

    def look(self, request: Message, response: Message | None, connection: Connection) -> Sequence[Verdict]:
        """What the rules say of an exchange."""
        said: list[Verdict] = []
        steps = state_steps(request, response, connection)
        cluster = 0 if connection.broker is None else connection.broker.cluster
        if not steps and doubt_of(request) == "cut":  # of whatever group's partitions it was, it may have been taken
            connection.holes.add(Hole(request.packet, request.packet, "cut"))
        for step in steps:
            stored = self._of((cluster, step.call.group_id, step.partition))
            if self._covering is not None:
                self._covering.step(Storing(step, stored), PERSISTER.name, step.call.api_key)
            if self._exact or not _is_plain(step, stored):
                said += self._judged(Storing(step, stored))
            self._tell(step)
            batches = stored.batches
            before = batches.size
            stored.take(step)
            step.lighten()
            self._ranges += batches.size - before
            if len(self._stored) > limits.SHARE_PARTITIONS or self._ranges > limits.STORED_RANGES:
                said += self._forget(step)
        return said

    def close(self) -> Sequence[Verdict]:
        return ()

    def _judged(self, now: Storing) -> Iterable[Verdict]:
        """What each rule says of the step, by the first of its checks that can."""
        for rule, checks in self._checks[now.step.call.api_key]:
            said = [_verdict(rule, now, argument) for check in checks if (argument := check.look(now)) is not None]
            yield from [verdict for verdict in said if verdict.is_told][:1] or said[:1]

    def _of(self, key: _Key) -> StoredState:
        stored = self._stored.get(key)
        if stored is None:
            stored = self._stored[key] = StoredState()
        else:
            self._stored.move_to_end(key)
        return stored

    def _forget(self, step: StateStep) -> Sequence[Verdict]:
        """Lets go of the states that were not used for longest; that is said once."""
        forgot = self._forgot
        while len(self._stored) > 1 and (
            len(self._stored) > limits.SHARE_PARTITIONS or self._ranges > limits.STORED_RANGES
        ):
            _, oldest = self._stored.popitem(last=False)
            self._ranges -= oldest.batches.size
            self._forgot = True
        return () if forgot == self._forgot else (Verdict(STATES_FORGOTTEN, forgotten(step), Judgement("note")),)


def _is_plain(step: StateStep, stored: StoredState) -> bool:
    """Whether it is a Write that was accepted, as the one before it on its connection, of the same epochs, with sound
    batches.

    No rule has anything to say of such a step.
    """
    if not step.taken or not step.is_write or step.call.any_doubt is not None:
        return False
    before = stored.sender(step).write
    if before is None:
        return False
    start = step.start_offset
    return (
        step.state_epoch == before.state_epoch
        and step.leader_epoch == before.leader_epoch
        and step.negative is None
        and start is not None
        and before.start_offset is not None
        and start >= before.start_offset
        and (stored.start_offset is None or start >= stored.start_offset)
        and (step.complete_count is None or -1 <= step.complete_count <= LONGEST_WINDOW)
        and _are_sound(step.batches, start)
    )


def _are_sound(batches: Iterable[StateBatch], start: int) -> bool:
    """Whether they come in their order from the start offset on, and all of them can be stored."""
    before = start - 1
    for first, last, state, delivery_count in batches:
        if not before < first <= last or state not in STORED or delivery_count < 0:
            return False
        before = last
    return True


def _verdict(rule: Rule, now: Storing, argument: Argument) -> Verdict:
    return judged(rule, replace(argument, partition=now.step.partition))
