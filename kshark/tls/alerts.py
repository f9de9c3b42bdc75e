"""TLS alerts in the handshake: who refused the connection, and why.

An alert in clear text has a name. With TLS 1.3 most are encrypted, but their size shows them: no other record at their
place has it. Source: RFC 8446, sections 4.4.4, 5.2 and 6; RFC 5246, section 7.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kshark.model import Closed, Flow, Side, Weird
from kshark.tls.hello import TLS_13
from kshark.tls.records import APPLICATION_DATA, CHANGE_CIPHER_SPEC
from kshark.tls.signs import ALERT, ENCRYPTED, alert

if TYPE_CHECKING:
    from kshark.tls.records import Record

#: Sizes of encrypted alerts: level and name, the record's type, a tag of 8 or 16 bytes; JSSE adds 16 bytes of padding.
_SIZES: Final = frozenset({11, 19, 27, 35})


class Alerts:
    """The alerts of one connection's handshake.

    A refusal in TLS 1.3 is the client's first encrypted record, if it has an alert's size (an empty Certificate has 25
    bytes, or 17 or 41; a Finished message has 45 or more), or the server's only one after the client's, if the server
    then ends the connection: session tickets and answers of Kafka are longer.
    """

    __slots__ = ("_client", "_encrypted", "_flow", "_is_client_ready", "_is_over")

    def __init__(self, flow: Flow, client: Side) -> None:
        self._flow = flow
        self._client = client
        self._is_client_ready = False
        #: An encrypted record that is an alert if nothing follows it: its side, packet and time.
        self._encrypted: tuple[Side, int, int] | None = None
        #: The handshake succeeded, or its alert was reported, or nothing can be said of it.
        self._is_over = False

    def record(self, side: Side, record: Record, version: int, *, is_early: bool) -> Weird | None:
        """Take a record as it came; `version` 0: no ServerHello yet; `is_early`: the client may send 0-RTT data."""
        if self._is_over:
            return None
        if record.kind == ALERT and len(record.body) == 2:
            return self._named(side, record.body, record)
        if version == TLS_13:
            if record.kind == APPLICATION_DATA:
                self._protected(side, record, is_early=is_early)
        elif record.kind == CHANGE_CIPHER_SPEC and version and side != self._client:
            self._is_over = True
        return None

    def decrypted(self, side: Side, content: bytes, record: Record) -> Weird | None:
        """Take an alert that was encrypted."""
        return None if self._is_over or len(content) != 2 else self._named(side, content, record)

    def closed(self, closed: Closed) -> Weird | None:
        """Return the encrypted alert of a handshake that failed."""
        if self._is_over or self._encrypted is None:
            return None
        side, packet, time_ns = self._encrypted
        if side != self._client and (closed.how not in ("fin", "rst") or closed.side != side):
            return None
        return alert(self._flow, side, closed.packet, closed.time_ns, ENCRYPTED, packet, closed.time_ns - time_ns)

    def _named(self, side: Side, content: bytes, record: Record) -> Weird | None:
        """Return a fatal alert. Others end nothing (unrecognized_name), or are the regular end (close_notify)."""
        self._is_over = content[0] == 2 or content[1] == 0
        if content[0] != 2:
            return None
        return alert(self._flow, side, record.ready, record.ready_ns, content[1], record.packet)

    def _protected(self, side: Side, record: Record, *, is_early: bool) -> None:
        is_short, is_first = len(record.body) in _SIZES, not self._is_client_ready
        sender = None if self._encrypted is None else self._encrypted[0]
        if side == self._client:
            self._is_client_ready = True
            if is_first and is_short and not is_early:
                self._encrypted = side, record.ready, record.ready_ns
            elif sender is None:
                self._is_over = is_short  # perhaps the client itself ends the connection
            elif sender == side:
                self._is_over = not is_short
        elif not is_first and sender is None and is_short:
            self._encrypted = side, record.ready, record.ready_ns
        elif not is_first and sender != self._client:
            self._is_over = True
