"""Why nothing of a capture could be judged, and what to do: one sentence."""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct, field

from kshark import limits
from kshark.endpoints import port_of
from kshark.model import Flow, Weird
from kshark.tls.signs import NO_BEGINNING, NO_KEYS, NOT_SEEN, parts_of

#: Most servers, and kinds of connections, that the sentence names.
_SHOWN: Final = 3
_NAMES: Final = {"http": "HTTP", "other": "another protocol", "unknown": "not recognised"}
_KEYS: Final = "Use --tls-keys FILE; how to get one: kshark explain tls-keys"


class Unread(Struct):
    """The connections of a capture, or of a part of it, that are not read as Kafka. `join` adds parts.

    `kafka`: connections that speak Kafka. `tls`: those that were not decrypted, by the detail of TLS_UNREAD. `silent`:
    connections without data. `others`: the rest, by service and port of the server. `destroyed`: how the file was
    destroyed; empty if it was not.
    """

    kafka: int = 0
    tls: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    others: Counter[tuple[str, int]] = field(default_factory=Counter)
    destroyed: str = ""

    def connection(self, flow: Flow) -> None:
        """Count a connection that is over; TLS is counted by its weird."""
        if flow.service == "kafka":
            self.kafka += 1
        elif not any(flow.stream_bytes):
            self.silent += 1
        elif flow.service != "tls":
            self._add_other((flow.service, port_of(flow.broker)), 1)

    def weird(self, weird: Weird) -> None:
        """Count TLS that was not decrypted, and a destroyed file."""
        if weird.code == "TLS_UNREAD":
            self._add_tls(weird.detail, weird.times)
        elif weird.code == "CAPTURE_DESTROYED":
            self.destroyed = self.destroyed or weird.detail or "the file was destroyed: record again"

    def join(self, other: Unread) -> None:
        """Add the counts of other pages or connections."""
        self.kafka += other.kafka
        self.silent += other.silent
        for detail, times in other.tls.items():
            self._add_tls(detail, times)
        for kind, times in other.others.items():
            self._add_other(kind, times)
        self.destroyed = self.destroyed or other.destroyed

    def _add_tls(self, detail: str, times: int) -> None:
        self.tls[detail if detail in self.tls or len(self.tls) < limits.STATISTICS_ROWS else ""] += times

    def _add_other(self, kind: tuple[str, int], times: int) -> None:
        self.others[kind if kind in self.others or len(self.others) < limits.STATISTICS_ROWS else ("other", 0)] += times

    def why(self, only: str = "", *, has_keys: bool = False) -> str:
        """Return why nothing could be judged, and what to do.

        `only`: requests or responses, if there are no others; `has_keys`: a key log was given.
        """
        if self.destroyed:
            return f"it is {self.destroyed}" if self.destroyed.startswith("a ") else self.destroyed
        if self.tls:
            return _of_tls(self.tls, self.kafka + self.others.total(), has_keys=has_keys)
        if only:
            return (
                f"the capture has only {only}. Record both directions of the connections (a capture filter may not "
                f"name a direction, and a mirror port must copy both)"
            )
        if self.kafka:
            return "no Kafka message in it is whole. Record for longer, and whole packets (tcpdump -s 0)"
        if self.others:
            return _of_others(self.others)
        silent = f"{_counted(self.silent)} in it, without data" if self.silent else "it has no TCP connection"
        return f"{silent}. Check the interface and the filter of the recording (tcpdump -i any tcp port 9092)"


def _of_tls(details: Counter[str], rest: int, *, has_keys: bool) -> str:
    """Return why TLS could not be read: servers, versions, and what is missing."""
    parts = [(parts_of(detail), times) for detail, times in details.most_common()]
    servers, versions, reasons = Counter[str](), Counter[str](), Counter[str]()
    for part, times in parts:
        servers[part.server] += times
        versions[part.version] += times
        reasons[part.why] += times
    count, named = details.total(), [server for server, _ in servers.most_common() if server]
    to = f" to {', '.join(named[:_SHOWN])}" if named else ""
    to += f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    which = _counted(count) if rest or count == 1 else f"all {_counted(count)}"
    versions_named = " and ".join(sorted(filter(None, versions))) or "TLS"
    why, _ = reasons.most_common(1)[0]
    if why in (NOT_SEEN, NO_BEGINNING):
        missing = "the capture lacks the handshake"
        step = "Begin to record before the clients connect, and give their keys (kshark explain tls-keys)"
    elif not has_keys:
        missing, step = "no keys were given", _KEYS
    elif why == NO_KEYS:
        missing = f"the key log has no keys for {'it' if count == 1 else 'them'}"
        step = "The client must write it while the connections open (kshark explain tls-keys)"
    else:
        missing, step = why, "kshark explain TLS_UNREAD, kshark explain tls-keys"
    is_ = "is" if count == 1 else "are"
    others = f"; {_counted(rest)} beside {'it' if count == 1 else 'them'} could not be judged" if rest else ""
    return f"{which}{to} {is_} {versions_named}, and {missing}{others}. {step}"


def _of_others(others: Counter[tuple[str, int]]) -> str:
    """Return which protocols and ports were there instead of Kafka."""
    kinds = [
        f"{_counted(times)} to port {port} ({_NAMES.get(service, service)})"
        for (service, port), times in others.most_common(_SHOWN)
    ]
    rest = others.total() - sum(times for _, times in others.most_common(_SHOWN))
    [((_, port), _)] = others.most_common(1)
    return (
        f"none of its connections is Kafka: {', '.join(kinds)}{f' and {rest} more' if rest else ''}. If one is, name "
        f"its port with -d tcp.port=={port or 9092},kafka; else record at a broker's port"
    )


def _counted(count: int) -> str:
    return f"{count:,} connection{'' if count == 1 else 's'}"
