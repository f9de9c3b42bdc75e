"""The runner of machines whose table is not written yet: rules see the exchanges of each machine in their order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

from msgspec import UNSET, Struct

from kshark import limits
from kshark.analysis.facts.calls import Call
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.known import ALWAYS, Known
from kshark.analysis.facts.machine import StepType
from kshark.analysis.facts.reading import call_of
from kshark.analysis.rules import RuleBook
from kshark.analysis.runners.coverage import CoverageCounter
from kshark.analysis.runners.runner import Runner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.tables import Machine
from kshark.model import Message

_Key = tuple[Any, ...]


class Exchanged(Struct, frozen=True):
    """One exchange of a machine: the bodies of both sides, and the machine's exchange `before` (None: the first one
    seen)."""

    machine: Machine
    key: _Key
    call: Call
    request: Any
    response: Any
    before: Call | None

    @property
    def step_type(self) -> StepType:
        return StepType(self.machine.name, self.call.api_key)

    @property
    def knowledge(self) -> Known:
        """A machine without states judges each argument by itself."""
        return ALWAYS

    @property
    def subject(self) -> None:
        """None: an exchange does not belong to one share partition."""


class StatelessRunner:
    """Look at exchanges of the APIs in `apis`, for every machine without states. Beyond limits.SESSIONS the machine
    that was unused for longest is forgotten."""

    def __init__(self, book: RuleBook, counter: CoverageCounter | None = None) -> None:
        self._runner = Runner(book, counter)
        #: The APIs that each machine looks at.
        self._machines: Final = {
            machine: frozenset(api for entry in book.checks(machine) for api in entry.rule.apis or machine.apis)
            for machine in book.machines
            if not machine.states
        }
        self._last: OrderedDict[_Key, Call] = OrderedDict()
        self.apis: Final = frozenset[int]().union(*self._machines.values())

    def look(self, request: Message, response: Message | None, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts on an exchange."""
        verdicts: list[Verdict] = []
        if request.body is None or connection is None:
            return verdicts
        call = call_of(request, response, connection)
        answer = None if response is None else response.body
        for machine, apis in self._machines.items():
            for key in _keys(machine, request.body, connection) if call.api_key in apis else ():
                machine_key = (machine.name, *key)
                self._runner.ask(
                    Exchanged(machine, key, call, request.body, answer, self._last.get(machine_key)),
                    verdicts,
                    machine_key,
                )
                self._remember(machine_key, call)
        return verdicts

    def close(self) -> Sequence[Verdict]:
        return self._runner.close()

    def _remember(self, key: _Key, call: Call) -> None:
        self._last[key] = call
        self._last.move_to_end(key)
        if len(self._last) > limits.SESSIONS:
            self._last.popitem(last=False)


def _keys(machine: Machine, body: Any, connection: ConnectionFacts) -> Iterator[_Key]:
    """Yield the keys of a kind of machines that a request is about; none if the body lacks a column of the key."""
    partitions = list(dict.fromkeys(_partitions(body))) if "partition" in machine.key else [("", 0)]
    for topic_id, partition in partitions:
        values = {
            "broker": connection.broker,
            "flow_id": connection.flow.id,
            "topic_id": topic_id,
            "partition": partition,
        }
        key = tuple(values[column] if column in values else getattr(body, column, UNSET) for column in machine.key)
        if UNSET not in key:
            yield key


def _partitions(body: Any) -> Iterator[tuple[str, int]]:
    """Yield the topic ids and partitions that a request lists, as numbers or as structs."""
    topics = getattr(body, "topics", None) or ()
    for topic in topics if topics is not UNSET else ():
        for topic_id, entry in product([getattr(topic, "topic_id", "")], topic.partitions or ()):
            yield (
                topic_id,
                entry if isinstance(entry, int) else getattr(entry, "partition_index", getattr(entry, "partition", -1)),
            )
