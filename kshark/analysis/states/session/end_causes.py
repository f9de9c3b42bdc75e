"""Possible causes of a session's end without a request: the end of its connection, a broker restart, eviction.

An unseen cause may have happened, and a seen one may have had no effect: the broker's next answer shows the result.
"""

from __future__ import annotations

from collections.abc import Iterator

from kshark.analysis.facts.calls import UNANSWERED, UNCLEAR, Reply, ShareStep
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.releases import BEHAVIOUR, agreed, release_known
from kshark.analysis.states.session.state import EndCause, PossibleState, SessionState

#: An end cause with its sort key: causes that the broker noticed at once by time, and late ones after all others.
_Placed = tuple[tuple[bool, bool, int], EndCause]


def is_unsure(reply: Reply) -> bool:
    """True if the reply does not show whether the broker counted the request."""
    return reply is UNANSWERED or reply is UNCLEAR


def end_causes(session: SessionState, state: PossibleState, step: ShareStep) -> tuple[EndCause, ...]:
    """Return the possible causes of an open session's end by the step's answer, the most likely first.

    The list ends with the first certain cause. The first cause after the session's last sign of life is the most
    likely; an earlier event may have been noticed late.
    """
    alive = session.alive or state.opening
    if alive is None:
        return ()
    if state.opening is not None and state.opening.packet > alive.packet:
        alive = state.opening
    placed = [*_restart(session, alive, step), *_connections(session, state, alive, step), *_idle(session, alive, step)]
    causes = [cause for _, cause in sorted(placed, key=lambda pair: pair[0])]
    certain = next((index for index, cause in enumerate(causes) if cause.known.is_certain), len(causes))
    return tuple(causes[: certain + 1])


def _restart(session: SessionState, alive: ShareStep, step: ShareStep) -> Iterator[_Placed]:
    restart = session.broker.restarted_between(alive.packet, step.end)
    if restart is not None:
        text = f"the broker went down ({restart.seen}, packet {restart.packet})"
        yield (
            (False, False, restart.since),
            EndCause("broker_restart", restart.packet, restart.time_ns, text, end=restart.end),
        )


def _connections(session: SessionState, state: PossibleState, alive: ShareStep, step: ShareStep) -> Iterator[_Placed]:
    """Yield the end of the connection that opened the session, and of older ones that had opened one."""
    opening = state.opening
    if opening is None:
        return
    own, dies = opening.connection, agreed(session.releases, "dies_with_connection")
    if dies is not False and (cause := _end(own, opening, alive, step, dies)) is not None:
        did = (
            "asked for a new session and got no answer"
            if opening is alive and is_unsure(opening.reply)
            else "opened it"
        )
        yield (
            (cause.packet <= alive.packet, False, cause.packet),
            cause._replace(cause="connection_closed", description=f"the connection that {did} {cause.description}"),
        )
    dies = agreed(session.releases, "dies_with_older_connection")
    for connection in state.replaced if dies is not False else ():
        if (cause := _end(connection, opening, alive, step, dies)) is not None:
            text = f"an older connection that had opened a session of the member {cause.description}"
            yield (
                (cause.packet <= alive.packet, True, cause.packet),
                cause._replace(cause="old_connection_closed", description=text),
            )


def _end(
    connection: ConnectionFacts, opening: ShareStep, alive: ShareStep, step: ShareStep, dies: bool | None
) -> EndCause | None:
    end = connection.ended_between(alive.packet, step.end) or connection.ended_between(opening.packet, step.end)
    if end is None:
        return None
    text = f"({connection.name}) ended (packet {end.packet})"
    return EndCause("", end.packet, end.time_ns, text, known=release_known(dies), end=end)


def _idle(session: SessionState, alive: ShareStep, step: ShareStep) -> Iterator[_Placed]:
    idle_ns = {BEHAVIOUR[release].idle_ns for release in session.releases}
    allowed = idle_ns.pop() if len(idle_ns) == 1 else None
    if allowed is not None and step.time_ns - alive.time_ns > allowed:
        seconds = (step.time_ns - alive.time_ns) // 1_000_000_000
        text = f"the session was unused for {seconds} s and may have been evicted"
        yield (True, True, step.end), EndCause("evicted", step.end, step.end_ns, text)
