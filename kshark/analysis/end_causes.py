"""What may have ended a session without a request of its own: its connection's end, a restart of the broker, eviction.

Not having seen one is no proof that there was none, and having seen one is none either: the broker's next answer tells.
"""

from __future__ import annotations

from collections.abc import Iterator

from kshark.analysis.connections import Connection
from kshark.analysis.releases import BEHAVIOUR, all_say
from kshark.analysis.session_state import EndCause, SessionState, State
from kshark.analysis.steps import Step

#: An end cause, behind the packet from which on it may have been one.
_Since = tuple[int, EndCause]


def end_causes(session: SessionState, state: State, step: Step) -> tuple[EndCause, ...]:
    """Everything that may have ended an open session by the time of the step's answer, the earliest first."""
    alive = session.alive or state.opening
    if alive is None:
        return ()
    if state.opening is not None and state.opening.packet > alive.packet:
        alive = state.opening
    found = [*_restart(session, alive, step), *_connections(session, state, step), *_idle(session, alive, step)]
    return tuple(cause for _, cause in sorted(found, key=lambda pair: pair[0]))


def _restart(session: SessionState, alive: Step, step: Step) -> Iterator[_Since]:
    restart = session.broker.restarted_between(alive.packet, step.end)
    if restart is not None:
        told = f"the broker went down ({restart.seen}, packet {restart.packet})"
        yield restart.since, EndCause("broker_restart", restart.packet, restart.time_ns, told, end=restart.end)


def _connections(session: SessionState, state: State, step: Step) -> Iterator[_Since]:
    """The connection that opened the session, and older ones whose sessions it replaced."""
    if state.opening is None:
        return
    own = _end(state.opening.connection, state.opening, step, all_say(session.releases, "dies_with_connection"))
    if own is not None:
        yield own.packet, own._replace(cause="connection_closed", told=f"the connection that opened it {own.told}")
    for connection in state.replaced:
        end = _end(connection, state.opening, step, all_say(session.releases, "dies_with_older_connection"))
        if end is not None:
            told = f"an older connection, whose session this one replaced, {end.told}"
            yield end.packet, end._replace(cause="old_connection_closed", told=told)


def _end(connection: Connection, opening: Step, step: Step, dies: bool | None) -> EndCause | None:
    end = connection.ended_between(opening.packet, step.end)
    if end is None or dies is False:
        return None
    told = f"({connection.client}) ended (packet {end.packet})"
    return EndCause("", end.packet, end.time_ns, told, because=None if dies else "release_unknown", end=end)


def _idle(session: SessionState, alive: Step, step: Step) -> Iterator[_Since]:
    idle_ns = {BEHAVIOUR[release].idle_ns for release in session.releases}
    allowed = idle_ns.pop() if len(idle_ns) == 1 else None
    if allowed is not None and step.time_ns - alive.time_ns > allowed:
        seconds = (step.time_ns - alive.time_ns) // 1_000_000_000
        told = f"unused for {seconds} s, the session may have given way to another"
        yield step.end, EndCause("evicted", step.end, step.end_ns, told)
