"""What the capture holds of a member: what it was not seen to be handed, it has not been handed."""

from __future__ import annotations

from kshark.analysis.facts.calls import Step
from kshark.analysis.states.session.state import SessionState


def seen_since(step: Step, session: SessionState) -> int | None:
    """The packet of the member's join, where the capture holds all that it has done with the broker since; None where
    it may not.

    No byte of its connections is missing, and the session's epochs leave none out since its opening: a whole connection
    that the capture lacks would have taken some of them."""
    join, unbroken = session.member.join, session.unbroken
    if join is None or unbroken is None or not unbroken.opens or session.last_unread > join.packet:
        return None
    hosts = session.hosts if step.connection.host in session.hosts else (*session.hosts, step.connection.host)
    return join.packet if session.broker.missing_between(hosts, join.packet, step.end) is None else None
