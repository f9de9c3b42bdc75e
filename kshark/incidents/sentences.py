"""Words and numbers in the sentences of incidents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kshark.analysis.facts.clock import PacketTime
from kshark.endpoints import host_of
from kshark.model import Flow, Message
from kshark.units import clock

_SECOND: Final = 1_000_000_000
#: Most names in one sentence.
_NAMED: Final = 3
#: The end of an incident that lasts when the capture ends; and the same while the capture goes on.
TO_THE_END: Final = "to the end of the capture"
AT_THE_END: Final = ", when the capture ends"
_SO_FAR: Final = ((TO_THE_END, "until now"), (AT_THE_END, " so far"))


def seconds(ns: int) -> str:
    """Return a duration: `3.3 s`, `0.42 s`."""
    value = ns / _SECOND
    return f"{value:.1f} s" if value >= 1 else f"{value:.2f} s"


def span(since: PacketTime, until: PacketTime | None, *, is_inferred: bool = False) -> str:
    """Return the time of an incident: `from 14:03:07.412 to 14:03:09.000 (packets 12 to 40)`. `is_inferred`: no packet
    shows its end."""
    begin = f"from {clock(since.time_ns, 3)}"
    if until is None:
        return f"{begin} (packet {since.packet}) {TO_THE_END}"
    if is_inferred:
        return f"{begin} (packet {since.packet}) to about {clock(until.time_ns)[:8]}"
    return f"{begin} to {clock(until.time_ns, 3)} (packets {since.packet} to {until.packet})"


def so_far(sentence: str) -> str:
    """Return the sentence of an incident that lasts, in a capture that goes on."""
    for end, now in _SO_FAR:
        sentence = sentence.replace(end, now)
    return sentence


def listed(names: Iterable[str]) -> str:
    """Return `a`, `a and b`, or `a, b, c and 4 more`."""
    distinct = [*dict.fromkeys(names)]
    shown: Sequence[str] = distinct[:_NAMED]
    if len(distinct) > _NAMED:
        return f"{', '.join(shown)} and {len(distinct) - _NAMED} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def client_of(flow: Flow, client_id: object) -> str:
    """Return the client's own name, or its address."""
    return client_id if isinstance(client_id, str) and client_id else host_of(flow.client)


def client_named(flow: Flow, client_id: object) -> str:
    """Return `client c1 (10.0.0.1)`, or `client 10.0.0.1`."""
    name, host = client_of(flow, client_id), host_of(flow.client)
    return f"client {host}" if name == host else f"client {name} ({host})"


def client_id_of(message: Message | None) -> str | None:
    """Return the client id of a message."""
    client_id = None if message is None else message.client_id
    return client_id if isinstance(client_id, str) else None


def time_of(message: Message) -> PacketTime:
    """Return the packet of a message."""
    return PacketTime(message.packet, message.time_ns)
