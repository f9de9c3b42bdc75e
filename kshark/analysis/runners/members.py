"""Members of share groups as their coordinator sees them: each heartbeat, with its answer, against what was known of
its member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.calls import INITIAL, SUBSEQUENT
from kshark.analysis.facts.connections import Connection
from kshark.analysis.facts.heartbeats import ACCEPTED, Beat, beat_of
from kshark.analysis.facts.judge import Judgement, judge
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.membership import MEMBER_REFUSED
from kshark.analysis.runners.coverage import Covering
from kshark.analysis.runners.verdict import Verdict, explanations, judged, unexplained
from kshark.analysis.states.member.situation import AcquisitionsOf, MemberSituation, conclude
from kshark.analysis.states.member.state import Member, Members
from kshark.analysis.states.tables import MEMBER
from kshark.model import Message


class Memberships:
    """A Watcher: keeps `members` up to date, and says what the rules say of their heartbeats.

    `exact`: also of those of which none has anything to say; the findings are the same.
    """

    def __init__(
        self,
        book: RuleBook,
        members: Members,
        acquisitions: AcquisitionsOf,
        covering: Covering | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self.apis: Final = MEMBER.apis
        self._book = book
        self._covering = covering
        self._members = members
        self._acquisitions = acquisitions
        #: Also heartbeats that are plain: all are counted, or a rule asks for them.
        self._exact = exact or covering is not None or book.concerns_plain(MEMBER)

    def look(self, request: Message, response: Message | None, connection: Connection) -> Sequence[Verdict]:
        """What the rules say of a heartbeat. Of those that were open at the same time none is known to have been taken
        first."""
        beat = beat_of(request, response, connection)
        if beat is None:
            return ()
        member = self._member(beat)
        if not self._exact and _is_plain(member, beat):
            member.remember(beat)
            return ()
        before = member.before
        crossed = before is not None and beat.packet < (
            before.packet if before.connection is connection else before.end
        )
        if crossed:
            member.lose_sight("race")
        now = MemberSituation(member, beat, self._acquisitions)
        if self._covering is not None:
            self._covering.step(now, MEMBER.name, beat.api_key, beat.kind, beat.reply, accepted=beat.reply is ACCEPTED)
        said = self._explained(now) if beat.refused else []
        for rule, check in self._book.member_remarks[beat.kind, beat.reply]:
            argument = check.look(now)
            if argument is not None:
                said.append(judged(rule, argument, now))
        conclude(now)
        if crossed:
            member.lose_sight("race")
        return said

    def close(self) -> Sequence[Verdict]:
        return ()

    def _member(self, beat: Beat) -> Member:
        member = self._members.of(beat.connection.broker, beat.group_id, beat.member_id)
        if beat.kind is INITIAL and member.before is None and not member.brokers and not self._members.forgetful:
            member.join, member.complete_since = beat, beat.packet
        return member

    def _explained(self, now: MemberSituation) -> list[Verdict]:
        """The one finding that says why the heartbeat was refused: the first that is proved, else one that may come to
        `unknown`."""
        weak: list[Verdict] = []
        for verdict in explanations(self._book.member_explanations[now.step.kind, now.step.reply], now, now):
            if verdict.judgement.verdict != "unknown":
                return [verdict]
            weak.append(verdict)
        worth = next((verdict for verdict in weak if verdict.is_told), None)
        if worth is not None:
            return unexplained(worth, weak)
        witness = [beat for beat in (now.member.last, now.step) if beat is not None]
        argument = Argument("; ".join(beat.story for beat in witness), witness, EXCHANGE, "unknown")
        because = weak[0].judgement.because if weak else now.doubt
        judgement = Judgement("unknown", because or judge(argument, None).because or now.why_unknown)
        return unexplained(Verdict(MEMBER_REFUSED, argument, judgement, "explanation"), weak)


def _is_plain(member: Member, beat: Beat) -> bool:
    """Whether nothing is new: the one epoch that the member can have, in time, taken and given again, as with the
    heartbeat before; and its assignment is younger than rules ask for, or was looked at.

    No rule has anything to say of such a heartbeat, and behind it the coordinator knows what it knew.
    """
    last, states, epoch = member.last, member.states, beat.epoch
    return (
        beat.reply is ACCEPTED
        and beat.kind is SUBSEQUENT
        and beat.given == epoch
        and beat.topics is None
        and beat.any_doubt is None
        and states is not None
        and len(states) == 1
        and states[0].epoch == epoch
        and last is not None
        and last is member.before
        and last.given == epoch
        and last.connection is beat.connection
        and last.end < beat.packet
        and (last.interval_ns <= 0 or beat.time_ns - last.time_ns <= 2 * last.interval_ns)
        and not member.settles(beat)
    )
