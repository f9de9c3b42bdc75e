"""What may have ended a session without a request of its own: its connection's end, a restart of the broker, eviction.

Not having seen one is no proof that there was none, and having seen one is none either: the broker's next answer tells.
"""

from __future__ import annotations

from collections.abc import Iterator

from kshark.analysis.memory import Ending, Memory
from kshark.analysis.releases import BEHAVIOUR, all_say
from kshark.analysis.steps import Reply, Step
from kshark.analysis.surroundings import End


def endings_before(memory: Memory, step: Step) -> tuple[Ending, ...]:
    """Everything that may have ended the session by the time of the step's answer, the likeliest first.

    A request that was accepted in the session is asked no such question.
    """
    if step.reply is Reply.TAKEN and not step.opens:
        return ()
    if memory.gone is not None:
        return (memory.gone,)
    if memory.alive is None:
        return ()
    return tuple(_unasked(memory, memory.alive, step))


def _unasked(memory: Memory, alive: Step, step: Step) -> Iterator[Ending]:
    own = _own_connection(memory, step)
    restart = memory.broker.restarted_between(alive.packet, step.end)
    if own is not None and (restart is None or own.packet < restart.since):
        yield from _with_connection(memory, own)
    if own is None and restart is None:
        yield from _with_older_connection(memory, step)
    if restart is not None:
        told = f"the broker went down ({restart.seen}, packet {restart.packet})"
        yield Ending("broker_restart", restart.packet, restart.time_ns, told)
    idle = {BEHAVIOUR[release].idle_ns for release in memory.broker.releases}
    if len(idle) == 1 and (allowed := idle.pop()) is not None and step.time_ns - alive.time_ns > allowed:
        seconds = (step.time_ns - alive.time_ns) // 1_000_000_000
        yield Ending("evicted", step.end, step.end_ns, f"unused for {seconds} s, the session may have given way to another")


def _own_connection(memory: Memory, step: Step) -> End | None:
    opening = memory.opening
    return None if opening is None else opening.connection.ended_between(opening.packet, step.end)


def _with_connection(memory: Memory, end: End) -> Iterator[Ending]:
    dies = all_say(memory.broker.releases, "dies_with_connection")
    if dies is False or memory.opening is None:
        return
    told = f"the connection that opened it, {memory.opening.connection.client}, ended (packet {end.packet})"
    yield Ending("connection_closed", end.packet, end.time_ns, told, because=None if dies else "release_unknown")


def _with_older_connection(memory: Memory, step: Step) -> Iterator[Ending]:
    dies = all_say(memory.broker.releases, "dies_with_older_connection")
    if dies is False or memory.opening is None:
        return
    for connection in memory.earlier:
        end = connection.ended_between(memory.opening.packet, step.end)
        if end is not None:
            told = f"an older connection, {connection.client}, whose session this one replaced, ended (packet {end.packet})"
            yield Ending("old_connection_closed", end.packet, end.time_ns, told, because=None if dies else "release_unknown")
