"""Plain heartbeats: they change nothing that the coordinator knows, and concern no rule that declares so."""

from __future__ import annotations

from kshark.analysis.facts.calls import SUBSEQUENT
from kshark.analysis.facts.heartbeats import ACCEPTED, Beat
from kshark.analysis.states.member.state import Member


def is_plain(member: Member, beat: Beat) -> bool:
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
