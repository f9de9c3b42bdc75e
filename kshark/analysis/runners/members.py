"""Members of share groups as their coordinator sees them: each heartbeat, with its answer, against what was known of
its member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kshark.analysis.facts.calls import INITIAL
from kshark.analysis.facts.connections import Connection
from kshark.analysis.facts.heartbeats import Beat, beat_of
from kshark.analysis.rules import RuleBook
from kshark.analysis.runners.coverage import CoverageCounter
from kshark.analysis.runners.runner import Runner
from kshark.analysis.runners.verdict import Verdict
from kshark.analysis.states.member.plain import is_plain
from kshark.analysis.states.member.situation import AcquisitionsOf, MemberSituation, conclude
from kshark.analysis.states.member.state import Member, Members
from kshark.analysis.states.tables import MEMBER
from kshark.model import Message


class MemberRunner:
    """A Watcher: keeps `members` up to date, and says what the rules say of their heartbeats.

    `exact`: also of those of which none has anything to say; the findings are the same.
    """

    def __init__(
        self,
        book: RuleBook,
        members: Members,
        acquisitions: AcquisitionsOf,
        covering: CoverageCounter | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self.apis: Final = MEMBER.apis
        self._runner = Runner(book, covering, exact=exact)
        #: Not where coverage counts every heartbeat.
        self._skips_plain = covering is None and self._runner.skips_plain(MEMBER)
        self._members = members
        self._acquisitions = acquisitions

    def look(self, request: Message, response: Message | None, connection: Connection | None) -> Sequence[Verdict]:
        """What the rules say of a heartbeat. Of those that were open at the same time none is known to have been taken
        first."""
        beat = None if connection is None else beat_of(request, response, connection)
        if beat is None:
            return ()
        member = self._member(beat)
        if self._skips_plain and is_plain(member, beat):
            member.remember(beat)
            return ()
        before = member.before
        crossed = before is not None and beat.packet < (
            before.packet if before.connection is connection else before.end
        )
        if crossed:
            member.lose_sight("race")
        said: list[Verdict] = []
        now = MemberSituation(member, beat, self._acquisitions)
        self._runner.ask(now, said, member)
        conclude(now)
        if crossed:
            member.lose_sight("race")
        return said

    def close(self) -> Sequence[Verdict]:
        return self._runner.close()

    def _member(self, beat: Beat) -> Member:
        member = self._members.of(beat.connection.broker, beat.group_id, beat.member_id)
        if beat.kind is INITIAL and member.before is None and not member.brokers and not self._members.forgetful:
            member.join, member.complete_since = beat, beat.packet
        return member
