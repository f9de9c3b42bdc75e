"""Plain heartbeats: they change no state of the coordinator, and no rule that permits it needs to read them."""

from __future__ import annotations

from kshark.analysis.facts.calls import SUBSEQUENT
from kshark.analysis.facts.heartbeats import ACCEPTED, Beat
from kshark.analysis.states.member.state import Member


def is_plain(member: Member, beat: Beat) -> bool:
    """True if the heartbeat adds no information.

    Its epoch is the only possible one; it was sent in time, accepted and answered with the same epoch, like the
    heartbeat before. The assignment is younger than rules require, or was checked already.
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
        and (last.interval_ns <= 0 or beat.time_ns - last.end_ns <= 2 * last.interval_ns)
        and not member.settles(beat)
    )
