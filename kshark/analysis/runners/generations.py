"""The runner of members that use generations and member epochs, of classic and consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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


class GenerationRunner:
    """A MachineRunner: follow the generations of members, and judge the requests that use them."""

    def __init__(self, book: RuleBook, counter: CoverageCounter | None = None) -> None:
        self.apis: Final = GENERATION.apis
        self._runner = Runner(book, counter)
        self._members: Recent[tuple[int, str | None, str | None], Numbered] = Recent(Numbered, "SESSIONS")
        self._instances: Recent[tuple[int, str | None, str], Instance] = Recent(Instance, "SESSIONS")
        #: The last answer that gave a generation, by group.
        self._groups: Recent[tuple[int, str | None], list[Use]] = Recent(list, "SESSIONS")

    def look(self, request: Message, response: Message | None, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts on a request of one or several members."""
        if connection is None or request.body is None:
            return ()
        verdicts: list[Verdict] = []
        for use in uses_of(request, response, connection):
            cluster = 0 if connection.broker is None else connection.broker.cluster
            member = self._members.of((cluster, use.group_id, use.member_id))
            instance = self._instances.of((cluster, use.group_id, use.instance)) if use.instance else None
            group = self._groups.of((cluster, use.group_id))
            moved = group[0] if group and group[0].member_id != use.member_id else None
            self._runner.ask(Using(use, member, instance, moved), verdicts, member)
            member.remember(use)
            if instance is not None:
                instance.remember(use)
            if use.error == 0 and use.given is not None and use.given >= 0:
                group[:] = [use]
        return verdicts

    def close(self) -> Sequence[Verdict]:
        return self._runner.close()
