"""A fault in the bytes as rules see it: a weird of a message, of a connection, or of an incomplete exchange."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from kshark.analysis.facts.argument import EXCHANGE, Argument, Position, ProofNeeds
from kshark.analysis.facts.brokers import By, End
from kshark.analysis.facts.calls import Call
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.rules.rule import Rule
from kshark.anomaly import Blame
from kshark.model import Closed


class ByteFault(Struct, eq=False):
    """A fault with a code that `rule` lists.

    `sender`: the party that sent the bytes. `call`: the exchange up to the faulty message, or a Sighting. `detail`: the
    exact fault.
    `codes`: all codes of the message, or that of the event. `doubt`: the reason why the bytes may be something else.
    `times`: the number of faults that this one represents.
    `disordered`: True if the capture's times run backwards. `end`: the end of the connection, if only the end shows the
    fault.
    """

    rule: Rule
    connection: ConnectionFacts
    sender: Blame
    call: Call
    detail: str
    codes: Sequence[str] = ()
    doubt: str | None = None
    times: int = 1
    disordered: bool = False
    end: Closed | None = None

    def has(self, code: str) -> bool:
        return code in self.codes

    @property
    def is_over(self) -> bool:
        """True if client or broker closed the connection; False if only the capture or kshark's memory ends."""
        return self.end is not None and self.end.how in ("fin", "rst", "reused")

    @property
    def closed_by(self) -> By:
        """The party that closed the connection first."""
        if self.end is None or self.end.side is None or not self.is_over:
            return "unknown"
        return self.connection.flow.sender(self.end.side)

    @property
    def may_be_answered(self) -> str | None:
        """Why the broker may have answered before the connection ended; None if it closed without an answer."""
        if self.closed_by != "broker":
            return "end_not_seen"
        return "disorder" if self.disordered else None

    def at_end(self, needs: ProofNeeds = EXCHANGE, because: str | None = None) -> Argument:
        """Return the argument, placed at the end of the connection."""
        argument = self.with_end(self.argument(needs))
        if self.end is None:
            return argument
        position = Position(self.connection, self.end.packet, self.end.time_ns)
        return replace(argument, position=position, because=argument.because or because)

    def with_end(self, argument: Argument) -> Argument:
        """Return the argument with the end of the connection as evidence."""
        if self.end is None:
            return argument
        return replace(
            argument, ends=(End(self.end.packet, self.end.time_ns, self.closed_by, self.connection.flow.id),)
        )

    def argument(self, needs: ProofNeeds = EXCHANGE) -> Argument:
        """Return the argument that the sender sent faulty bytes.

        If the rule does not blame this party, the party forwards bytes that another, uncaptured one sent.
        """
        because = None if not self.rule.accuses or self.sender in self.rule.blame else "hidden_traffic"
        return Argument(self.sentence, (self.call,), needs, blame=self.sender, because=self.doubt or because)

    @property
    def sentence(self) -> str:
        """The text `the answer to Metadata #3: bytes follow the body: at byte 57 (packets 10, 11)`."""
        whose = "the answer to " if self.call.answer is not None else ""
        return (
            f"{whose}{self.call.here}: {': '.join(filter(None, (self.rule.sentence, self.detail)))}{self.often} "
            f"({self.call.packets})"
        )

    @property
    def often(self) -> str:
        return f", {self.times} times" if self.times > 1 else ""
