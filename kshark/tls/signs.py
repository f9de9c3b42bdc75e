"""What TLS is known by before any of it is read, and what is said of what stays unread: all that captures without TLS
need."""

from __future__ import annotations

from typing import Final

from kshark.model import Flow, Weird

#: The type of the records of a handshake, and of its two messages that are read (RFC 8446, section 4 and 5.1).
HANDSHAKE: Final = 22
CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2


def unread(flow: Flow, packet: int, time_ns: int, size: int) -> Weird:
    """So many bytes of a connection were not decrypted; connections with one server, for one reason, are told in the
    same words."""
    told = flow.tls
    if told is None:
        text = f"its beginning is not in the capture: {flow.ends.first} - {flow.ends.second}"
    else:
        name = f" ({told.server_name})" if told.server_name else ""
        text = f"{told.why}: {flow.ends[1 - told.client]}{name}" + (f", {told.version}" if told.version else "")
    return Weird("TLS_UNREAD", "tls", packet, time_ns, text, flow.id, None, flow.first_packet, size)
