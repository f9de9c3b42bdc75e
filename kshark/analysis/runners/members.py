"""The runner of members of groups: judge each heartbeat, with its answer, by the state of its member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kshark import limits
from kshark.analysis.facts.calls import INITIAL
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.heartbeats import Beat, beat_of
from kshark.analysis.rules import RuleBook
from kshark.analysis.runners.coverage import CoverageCounter
from kshark.analysis.runners.runner import Runner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.member.plain import is_plain
from kshark.analysis.states.member.situation import AcquisitionsOf, MemberSituation, conclude
from kshark.analysis.states.member.state import Member, Members
from kshark.analysis.states.tables import MEMBER, Machine
from kshark.model import Message


class MemberRunner:
    """A MachineRunner: keep `members` of share groups (or of another `machine`) up to date, and judge their heartbeats.

    `exact`: ask the rules about plain heartbeats too; the findings are the same.
    """

    def __init__(
        self,
        book: RuleBook,
        members: Members,
        acquisitions: AcquisitionsOf,
        counter: CoverageCounter | None = None,
        *,
        machine: Machine = MEMBER,
        exact: bool = False,
    ) -> None:
        self.apis: Final = machine.apis
        self._runner = Runner(book, counter, exact=exact, room=limits.PENDING_VERDICTS)
        #: False if coverage counts every heartbeat.
        self._skips_plain = counter is None and self._runner.skips_plain(machine)
        self._members = members
        self._acquisitions = acquisitions

    def look(self, request: Message, response: Message | None, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts on a heartbeat. The broker may take heartbeats that are open together in any order."""
        beat = None if connection is None else beat_of(request, response, connection)
        if beat is None:
            return ()
        member = self._member(beat)
        if (last := member.before) is not None and last.connection is connection:
            last.note_received(beat)
        if self._skips_plain and is_plain(member, beat):
            member.remember(beat)
            return ()
        before = member.before
        is_crossed = before is not None and beat.packet < (
            before.packet if before.connection is connection else before.end
        )
        if is_crossed:
            member.lose_sight("race")
        verdicts: list[Verdict] = []
        situation = MemberSituation(member, beat, self._acquisitions)
        self._runner.ask(situation, verdicts, member)
        conclude(situation)
        if is_crossed:
            member.lose_sight("race")
        return verdicts

    def close(self) -> Sequence[Verdict]:
        return self._runner.close()

    def _member(self, beat: Beat) -> Member:
        # A member that joins without an id gets one in the answer (ConsumerGroupHeartbeat 0).
        if not beat.member_id:
            return Member()
        member = self._members.of(beat.connection.broker, beat.group_id, beat.member_id)
        if beat.kind is INITIAL and member.before is None and not member.brokers and not self._members.forgetful:
            member.join, member.complete_since = beat, beat.packet
        return member
