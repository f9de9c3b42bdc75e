"""What may have ended a session without a request of its own: its connection's end, a restart of the broker, eviction.

Not having seen one is no proof that there was none, and having seen one is none either: the broker's next answer tells.
"""

from __future__ import annotations

from collections.abc import Iterator

from kshark.analysis.memory import Ending, Memory
from kshark.analysis.releases import BEHAVIOUR, all_say
from kshark.analysis.steps import TAKEN, Step


def endings_before(memory: Memory, step: Step) -> tuple[Ending, ...]:
    """Everything that may have ended the session by the time of the step's answer, the earliest first.

    A request that was accepted in the session is asked no such question.
    """
    if step.reply is TAKEN and not step.opens:
        return ()
    if memory.gone is not None:
        return (memory.gone,)
    if memory.alive is None:
        return ()
    found = [*_restart(memory, memory.alive, step), *_connections(memory, step), *_idle(memory, memory.alive, step)]
    return tuple(ending for _, ending in sorted(found, key=lambda pair: pair[0]))


#: An ending, behind the packet from which on it may have been one.
_Since = tuple[int, Ending]


def _restart(memory: Memory, alive: Step, step: Step) -> Iterator[_Since]:
    restart = memory.broker.restarted_between(alive.packet, step.end)
    if restart is not None:
        told = f"the broker went down ({restart.seen}, packet {restart.packet})"
        yield restart.since, Ending("broker_restart", restart.packet, restart.time_ns, told)


def _connections(memory: Memory, step: Step) -> Iterator[_Since]:
    """The connection that opened the session, and older ones whose sessions it replaced."""
    opening, releases = memory.opening, memory.broker.releases
    if opening is None:
        return
    for connection in (opening.connection, *memory.earlier):
        end = connection.ended_between(opening.packet, step.end)
        if end is None:
            continue
        own = connection is opening.connection
        dies = all_say(releases, "dies_with_connection" if own else "dies_with_older_connection")
        if dies is not False:
            what = "the connection that opened it" if own else "an older connection, whose session this one replaced"
            cause = "connection_closed" if own else "old_connection_closed"
            told = f"{what} ({connection.client}) ended (packet {end.packet})"
            yield end.packet, Ending(cause, end.packet, end.time_ns, told, because=None if dies else "release_unknown")


def _idle(memory: Memory, alive: Step, step: Step) -> Iterator[_Since]:
    idle_ns = {BEHAVIOUR[release].idle_ns for release in memory.broker.releases}
    allowed = idle_ns.pop() if len(idle_ns) == 1 else None
    if allowed is not None and step.time_ns - alive.time_ns > allowed:
        seconds = (step.time_ns - alive.time_ns) // 1_000_000_000
        told = f"unused for {seconds} s, the session may have given way to another"
        yield step.end, Ending("evicted", step.end, step.end_ns, told)
