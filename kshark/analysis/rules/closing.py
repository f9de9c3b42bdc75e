"""How a client leaves: rule 40."""

from __future__ import annotations

from kshark.analysis.evidence import Argument, Needs, Place
from kshark.analysis.memory import Memory
from kshark.analysis.surroundings import Connection, End

CODE = "SESSION_NOT_CLOSED"


def left_open(memory: Memory, connection: Connection, end: End) -> Argument | None:
    """The client closes the connection that opened the session, or had left the group before, without epoch -1."""
    opening, last, leave = memory.opening, memory.last, memory.leave
    if end.by != "client" or not memory.is_open or opening is None or last is None or opening.connection is not connection:
        return None
    if leave is None:
        text = f"{last.story}; the client closed the connection (packet {end.packet}) without closing the session by epoch -1"
        return Argument(text, (last,), Needs.EXCHANGE, place=Place(connection, end.packet, end.time_ns))
    text = f"{last.story}; the member left the group ({leave.packets}) and never closed the session by epoch -1"
    return Argument(text, (last, leave), Needs.EXCHANGE, place=Place(leave.connection, leave.packet, leave.time_ns))
