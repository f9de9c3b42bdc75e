"""Recognise TLS before decryption, and report unread TLS: the only part that captures without TLS need."""

from __future__ import annotations

from typing import Final

from kshark.model import Flow, Weird

#: The record type of a handshake, and the two of its messages that are parsed (RFC 8446, sections 4 and 5.1).
HANDSHAKE: Final = 22
CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2


def unread(flow: Flow, packet: int, time_ns: int, size: int) -> Weird:
    """Return the Weird for `size` bytes that were not decrypted.

    Connections to one server, unread for one reason, get the same text.
    """
    tls = flow.tls
    if tls is None:
        text = f"its beginning is not in the capture: {flow.ends.first} - {flow.ends.second}"
    else:
        name = f" ({tls.server_name})" if tls.server_name else ""
        text = f"{tls.why}: {flow.ends[1 - tls.client]}{name}" + (f", {tls.version}" if tls.version else "")
    return Weird("TLS_UNREAD", "tls", packet, time_ns, text, flow.id, None, flow.first_packet, size)
