"""Lost share sessions in headlines: how many of all, and who closed their connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kshark.analysis import MemberKey, Outcomes
from kshark.analysis.rules.causes import CAUSES
from kshark.headlines.hurts import OfMember
from kshark.units import counted, duration, number

#: What to do about closed connections, by the side that closed them.
_ADVICE: Final = {
    "client": "After error 122, open a new session: send a ShareFetch with epoch 0. Let the client keep the connection "
    "open that opened its session: raise the time after which it closes idle connections (connections.max.idle.ms, in "
    "franz-go ConnIdleTimeout), or fetch without long pauses.",
    "broker": "After error 122, open a new session: send a ShareFetch with epoch 0. A broker closes connections that "
    "are idle for its connections.max.idle.ms (10 minutes by default): raise it, or fetch without long pauses. If they "
    "were not idle, look into the broker's log.",
}


class Lost(Struct, frozen=True):
    """Lost sessions of some members. `opened`: all of their sessions, `closed_by`: the side that closed the connections
    of the lost ones, `quiet_ns`: the shortest and the longest time from the last answer to that; None if unknown."""

    lost: int
    opened: int | None = None
    closed_by: str | None = None
    quiet_ns: tuple[int, int] | None = None

    @property
    def how_many(self) -> str:
        """The number, of how many."""
        if self.opened is None:
            return counted(self.lost, "share session")
        if self.opened == self.lost == 1:
            return "its only share session"
        return f"{number(self.lost)} of {counted(self.opened, 'share session')}"

    def reason(self, cause: str) -> str:
        """Return the cause in words, with who closed the connection, and how long after the last answer."""
        if cause != "connection_closed" or self.closed_by not in _ADVICE:
            return CAUSES[cause]
        text = f"the {self.closed_by} itself closed the connection that opened the session"
        if self.quiet_ns is not None:
            shortest, longest = map(duration, self.quiet_ns)
            times = shortest if shortest == longest else f"{shortest} to {longest}"
            text += f", {times} after the session's last answer"
        return f"{text}, which ended it (Kafka 4.1 and later)"

    def advice(self, cause: str) -> str | None:
        """Return what to do; None if the cause says it."""
        return _ADVICE.get(self.closed_by or "") if cause == "connection_closed" else None


def lost_sessions(
    cause: str,
    findings: Mapping[tuple[str | None, str | None], OfMember],
    outcomes: Mapping[MemberKey, Outcomes],
) -> Lost:
    """Return the sessions that members lost for a cause.

    What the findings do not say is left out if the members' outcomes are not about the same sessions: the findings may
    be those of a part of the capture, or without those that an event explains.
    """
    members = {member: found.lost[cause] for member, found in findings.items() if found.lost[cause]}
    count = sum(members.values())
    of = [outcome for key, outcome in outcomes.items() if (key.group_id, key.member_id) in members]
    lost = [outcome.sessions.lost[cause] for outcome in of if cause in outcome.sessions.lost]
    if len(of) != len(members) or sum(each.count for each in lost) != count:
        return Lost(count)
    opened = sum(outcome.sessions.opened for outcome in of)
    is_certain = opened >= count and not any(outcome.sessions.uncertain for outcome in of)
    sides = Counter[str]()
    for each in lost:
        sides.update(each.closed_by)
    times = [ns for each in lost for ns in each.quiet_ns or ()]
    side = next(iter(sides)) if len(sides) == 1 and sides.total() == count else None
    return Lost(count, opened if is_certain else None, side, (min(times), max(times)) if side and times else None)
