"""Find restarts of brokers in their request logs.

The names of connections end in numbers that a broker's process uses once (Kafka: SocketServer, nextConnectionIndex).
So two connections with the same numbers are those of two processes. The restart is the longest silence between them
over which no connection lasts.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kshark import limits
from kshark.requests.connections import connection_of

#: Before 4.0 the number of the processor is missing, so that connections of one process share numbers.
_NUMBERS: Final = 2
#: A process takes longer to start.
_LEAST_SILENCE_NS: Final = 500_000_000
#: Silences that are kept apart.
_MOST_GROUPS: Final = 64


class LoggedRestart(Struct, frozen=True):
    """A restart. `line`: the last line of the broker before it, at `time_ns`."""

    broker: str
    time_ns: int
    line: int


class _Group:
    """The connections of a broker that were first seen between two silences, by their numbers."""

    __slots__ = ("connections", "line", "silence_ns", "time_ns")

    def __init__(self, line: int, time_ns: int, silence_ns: int) -> None:
        #: The last line before the silence that precedes the group, and the length of the silence.
        self.line, self.time_ns, self.silence_ns = line, time_ns, silence_ns
        self.connections: dict[str, str] = {}


class _Broker:
    """One listener of a broker. The broker may have restarted in the silence before each group except the first."""

    __slots__ = ("groups", "last_line", "last_ns")

    def __init__(self, line: int, time_ns: int) -> None:
        self.last_line, self.last_ns = line, time_ns
        self.groups = [_Group(line, time_ns, 0)]

    def silence(self, silence_ns: int) -> None:
        """Begin a group."""
        self.groups.append(_Group(self.last_line, self.last_ns, silence_ns))
        if len(self.groups) > _MOST_GROUPS:
            self._join(0, 2)

    def connection(self, connection: str, numbers: str) -> _Group | None:
        """Take the connection of a request; return the first group after a restart, if it shows one."""
        groups = self.groups
        for at in range(len(groups) - 1, -1, -1):
            earlier = groups[at].connections.get(numbers)
            if earlier is not None:
                break
        if earlier == connection:
            self._join(at, len(groups))
            return None
        first = None
        if earlier is not None and at < len(groups) - 1:
            first = max(groups[at + 1 :], key=lambda group: group.silence_ns)
            del groups[: groups.index(first)]
        groups[-1].connections[numbers] = connection
        if sum(len(group.connections) for group in groups) > limits.FLOWS:
            del groups[:-1]
        return first

    def _join(self, begin: int, stop: int) -> None:
        """Take the connections of several groups as those of one process."""
        first, *others = self.groups[begin:stop]
        for other in others:
            first.connections |= other.connections
        del self.groups[begin + 1 : stop]


class LoggedRestarts:
    """Take the lines of a request log, one by one, and return restarts."""

    def __init__(self) -> None:
        self._brokers: dict[str, _Broker] = {}

    def line(self, connection: str, line: int, begin_ns: int, end_ns: int) -> LoggedRestart | None:
        """Take a line: the connection of its request, and when the broker had read it and had sent the response."""
        parts = connection_of(connection)
        if parts is None or parts.numbers.count("-") != _NUMBERS:
            return None
        name, numbers = f"{parts.broker}:{parts.broker_port}", parts.numbers
        broker = self._brokers.get(name)
        if broker is None:
            if len(self._brokers) >= limits.BROKERS:
                return None
            broker = self._brokers[name] = _Broker(line, end_ns)
        if begin_ns - broker.last_ns > _LEAST_SILENCE_NS:
            broker.silence(begin_ns - broker.last_ns)
        group = broker.connection(connection, numbers)
        broker.last_line, broker.last_ns = line, max(end_ns, broker.last_ns)
        return None if group is None else LoggedRestart(name, group.time_ns, group.line)
