"""The runner of persister machines: judge each exchange with a share coordinator, then apply it to the stored state."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from kshark import limits
from kshark.analysis.facts.calls import Partition
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.holes import Hole
from kshark.analysis.facts.reading import doubt_of
from kshark.analysis.facts.state_steps import StateStep, state_steps
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.persister import STATES_FORGOTTEN, forgotten
from kshark.analysis.runners.coverage import CoverageCounter
from kshark.analysis.runners.runner import Runner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.stored.plain import is_plain
from kshark.analysis.states.stored.state import StoredSituation, StoredState
from kshark.analysis.states.tables import PERSISTER
from kshark.model import Message

#: The number of the cluster, group id, partition.
_Key = tuple[int, str | None, Partition]


class StoredStateRunner:
    """Look at the exchanges between brokers and share coordinators. Beyond the limits the states that were unused for
    longest are forgotten.

    `on_step` is called with every step. `exact`: ask the rules about plain steps too; the findings are the same."""

    def __init__(
        self,
        book: RuleBook,
        on_step: Callable[[StateStep], object],
        counter: CoverageCounter | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self._on_step = on_step
        self._runner = Runner(book, counter, exact=exact, room=limits.PENDING_VERDICTS)
        self._skips_plain = self._runner.skips_plain(PERSISTER)
        self.apis: Final = PERSISTER.apis if PERSISTER in book.machines else frozenset()
        self._stored: OrderedDict[_Key, StoredState] = OrderedDict()
        self._ranges = 0

    def look(self, request: Message, response: Message | None, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts on an exchange."""
        if connection is None:
            return ()
        verdicts: list[Verdict] = []
        steps = state_steps(request, response, connection)
        cluster = 0 if connection.broker is None else connection.broker.cluster
        if not steps and doubt_of(request) == "cut":  # its group is unknown, and the coordinator may have applied it
            connection.holes.add(Hole(request.packet, request.packet, "cut"))
        for step in steps:
            stored = self._of((cluster, step.call.group_id, step.partition))
            situation = StoredSituation(step, stored)
            self._runner.count(situation)
            if not (self._skips_plain and is_plain(step, stored)):
                self._runner.ask_uncounted(situation, verdicts, stored)
            self._on_step(step)
            batches = stored.batches
            before = batches.size
            stored.take(step)
            step.lighten()
            self._ranges += batches.size - before
            if len(self._stored) > limits.SHARE_PARTITIONS or self._ranges > limits.STORED_RANGES:
                verdicts += self._forget(step)
        return verdicts

    def close(self) -> Sequence[Verdict]:
        return self._runner.close()

    def _of(self, key: _Key) -> StoredState:
        stored = self._stored.get(key)
        if stored is None:
            stored = self._stored[key] = StoredState()
        else:
            self._stored.move_to_end(key)
        return stored

    def _forget(self, step: StateStep) -> Sequence[Verdict]:
        """Drop the states that were unused for longest. A note reports the first time."""
        before = len(self._stored)
        while len(self._stored) > 1 and (
            len(self._stored) > limits.SHARE_PARTITIONS or self._ranges > limits.STORED_RANGES
        ):
            _, oldest = self._stored.popitem(last=False)
            self._ranges -= oldest.batches.size
        return () if len(self._stored) == before else self._runner.note_once(STATES_FORGOTTEN, forgotten(step))
