"""The runner of members that use generations and member epochs, of classic and consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.generations import Use, uses_of
from kshark.analysis.rules import RuleBook
from kshark.analysis.runners.coverage import CoverageCounter
from kshark.analysis.runners.runner import Runner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.generation.state import Instance, Numbered, Using
from kshark.analysis.states.tables import GENERATION
from kshark.model import Message
from kshark.recent import Recent

#: Generations of a group that are remembered: a member may be away for some.
_KEPT: Final = 8


class _Named(Struct):
    """The member of a group that a connection named last, and the one before. `is_shared`: by turns."""

    now: str | None = None
    before: str | None = None
    is_shared: bool = False

    def take(self, member_id: str) -> None:
        if member_id != self.now:
            self.is_shared = self.is_shared or member_id == self.before
            self.now, self.before = member_id, self.now


class GenerationRunner:
    """A MachineRunner: follow the generations of members, and judge the requests that use them."""

    def __init__(self, book: RuleBook, counter: CoverageCounter | None = None) -> None:
        self.apis: Final = GENERATION.apis
        self._runner = Runner(book, counter)
        self._members: Recent[tuple[int, str | None, str | None, str | None], Numbered] = Recent(Numbered, "SESSIONS")
        self._instances: Recent[tuple[int, str | None, str], Instance] = Recent(Instance, "SESSIONS")
        #: By group, the first answer that gave each of the last generations, and the last answer that gave one.
        self._groups: Recent[tuple[int, str | None], dict[int, Use]] = Recent(dict, "SESSIONS")
        self._moved: Recent[tuple[int, str | None], list[Use]] = Recent(list, "SESSIONS")
        #: The member of each group that a connection names: its client's.
        self._named: Recent[tuple[int, str | None], _Named] = Recent(_Named, "SESSIONS")

    def look(self, request: Message, response: Message | None, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts on a request of one or several members."""
        if connection is None or request.body is None:
            return ()
        verdicts: list[Verdict] = []
        for use in uses_of(request, response, connection):
            cluster = 0 if connection.broker is None else connection.broker.cluster
            self._name(use, connection)
            # A static member may name its instance id alone.
            instance_id = None if use.member_id else use.instance
            is_known = use.member_id or instance_id
            member = self._members.of((cluster, use.group_id, use.member_id, instance_id)) if is_known else Numbered()
            instance = self._instances.of((cluster, use.group_id, use.instance)) if use.instance else None
            given, last = self._groups.of((cluster, use.group_id)), self._moved.of((cluster, use.group_id))
            moved = last[0] if last and last[0].member_id != use.member_id else None
            passed = next((given[number] for number in sorted(given) if number > use.epoch), None)
            self._runner.ask(Using(use, member, instance, moved, passed), verdicts, member)
            member.remember(use)
            if instance is not None:
                instance.remember(use)
            if use.error == 0 and use.given is not None and use.given >= 0:
                last[:] = [use]
                _remember(given, use.given, use)
        return verdicts

    def _name(self, use: Use, connection: ConnectionFacts) -> None:
        """Give a request without a member id the one of its connection's client."""
        named = self._named.of((connection.flow.id, use.group_id))
        if use.member_id:
            named.take(use.member_id)
        elif use.is_unnamed and not named.is_shared:
            use.member_id = named.now

    def close(self) -> Sequence[Verdict]:
        return self._runner.close()


def _remember(given: dict[int, Use], number: int, use: Use) -> None:
    """Remember the first answer that gave a generation. After a lower one the group is another one."""
    if given and number < max(given):
        given.clear()
    given.setdefault(number, use)
    if len(given) > _KEPT:
        del given[min(given)]
