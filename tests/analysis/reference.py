"""A broker's share sessions written a second time, from the KIP alone: what it answers, and why, to whatever a client
sends.

It knows what no capture tells; kshark has to come to the same conclusions from the packets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NONE, NOT_FOUND, WRONG_EPOCH, UNKNOWN_ERROR = 0, 122, 123, -1


@dataclass
class Session:
    due: int
    connection: str


@dataclass
class ReferenceBroker:
    """One member's session. `reason` says why the last request was refused, or what took the session away."""

    release: str = "4.2"
    session: Session | None = None
    gone: str = "never_opened"
    reason: str | None = None
    #: Connections that opened a session of the member, whether it still is or not: 4.1 goes by them when one closes.
    openers: set[str] = field(default_factory=set)

    def ask(self, connection: str, *, fetch: bool, epoch: int, twice: bool = False) -> int:
        """The answer's error code."""
        self.reason = None
        session = self.session
        if epoch == 0:
            return self._open(connection, twice) if fetch else self._refuse(WRONG_EPOCH, "ack_epoch_zero")
        if session is None:
            return self._refuse(NOT_FOUND, "negative" if epoch < -1 else self.gone)
        if epoch == -1:
            self.session, self.gone = None, "final_epoch"
            return NONE
        if epoch != session.due:
            return self._refuse(WRONG_EPOCH, "negative" if epoch < -1 else "behind" if epoch < session.due else "ahead")
        session.due = 1 if epoch == 2**31 - 1 else epoch + 1
        return NONE

    def _open(self, connection: str, twice: bool) -> int:
        self.session = None
        if twice:
            self.gone = "failed_reopen"
            return UNKNOWN_ERROR
        self.session = Session(1, connection)
        self.openers.add(connection)
        return NONE

    def _refuse(self, error: int, reason: str) -> int:
        self.reason = reason
        return error

    def close(self, connection: str) -> None:
        session, opened = self.session, connection in self.openers
        self.openers.discard(connection)
        if session is None or self.release == "4.0":
            return
        if session.connection == connection:
            self.session, self.gone = None, "connection_closed"
        elif self.release == "4.1" and opened:
            self.session, self.gone = None, "old_connection_closed"
