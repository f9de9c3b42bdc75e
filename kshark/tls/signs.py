"""Recognise TLS before decryption, and report unread TLS: the only part that captures without TLS need."""

from __future__ import annotations

from typing import Final, NamedTuple

from kshark.model import Flow, Weird

#: The record type of a handshake, and the two of its messages that are parsed (RFC 8446, sections 4 and 5.1).
HANDSHAKE: Final = 22
CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2
#: The most frequent reasons why TLS is not read.
NO_KEYS: Final = "no keys for it"
NOT_SEEN: Final = "its handshake is not all in the capture"
NO_BEGINNING: Final = "its beginning is not in the capture"


def unread(flow: Flow, packet: int, time_ns: int, size: int) -> Weird:
    """Return the Weird for `size` bytes that were not decrypted.

    Connections to one server, unread for one reason, get the same text.
    """
    tls = flow.tls
    if tls is None:
        text = f"{NO_BEGINNING}: {flow.ends.first} - {flow.ends.second}"
    else:
        name = f" ({tls.server_name})" if tls.server_name else ""
        text = f"{tls.why}: {flow.ends[1 - tls.client]}{name}" + (f", {tls.version}" if tls.version else "")
    return Weird("TLS_UNREAD", "tls", packet, time_ns, text, flow.id, None, flow.first_packet, size)


class Parts(NamedTuple):
    """The parts of a text of `unread`; empty where it does not say so."""

    why: str
    server: str
    version: str


def parts_of(text: str) -> Parts:
    """Return the parts of a text that `unread` made: the reason, the server with its name, the version."""
    why, colon, rest = text.partition(": ")
    server, comma, version = rest.rpartition(", ")
    if not comma:
        server, version = "" if why == NO_BEGINNING else rest, ""
    return Parts(why if colon else "", server, version)
