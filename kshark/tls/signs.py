"""Recognise TLS before decryption, and report unread TLS and alerts: the only part that captures without TLS need."""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

from kshark.model import Flow, Side, Weird

#: The record type of a handshake, and the two of its messages that are parsed (RFC 8446, sections 4 and 5.1).
HANDSHAKE: Final = 22
CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2
#: The record type of an alert, and the size of one in clear text.
ALERT: Final = 21
ALERT_BYTES: Final = 7
#: The detail of a TLS_ALERT that is encrypted.
ENCRYPTED: Final = "encrypted"
#: Names of alerts. Source: IANA, TLS Alerts.
_ALERTS: Final = {
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    40: "handshake_failure",
    41: "no_certificate",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    109: "missing_extension",
    110: "unsupported_extension",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}
#: A fatal alert in clear text.
_FATAL: Final = re.compile(rb"\x15\x03[\x00-\x04]\x00\x02\x02", re.DOTALL)
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


def fatal_alert(data: bytes) -> int | None:
    """Return the number of a fatal alert in clear text at the beginning of these bytes; None if there is none."""
    return data[ALERT_BYTES - 1] if len(data) >= ALERT_BYTES and _FATAL.match(data) else None


def alert(
    flow: Flow,
    side: Side,
    packet: int,
    time_ns: int,
    number: int | Literal["encrypted"],
    first_packet: int,
    by_ns: int | None = None,
    stage: Literal["tls", "framing"] = "tls",
) -> Weird:
    """Return the Weird for an alert that ends a handshake: its name, and the version if that is agreed on.

    `by_ns`: the time since the packet of the alert, if it is known for what it is only at the connection's end.
    """
    name = number if isinstance(number, str) else _ALERTS.get(number, f"alert {number}")
    text = f"{name}, {flow.tls.version}" if flow.tls is not None and flow.tls.version else name
    return Weird("TLS_ALERT", stage, packet, time_ns, text, flow.id, side, first_packet, by_ns=by_ns)


class Parts(Struct, frozen=True):
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
