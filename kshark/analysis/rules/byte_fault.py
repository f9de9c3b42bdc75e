"""What is odd about bytes, as rules see it: a weird of a message, of a connection, or of an exchange that never was."""

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
    """Something whose code `rule` names.

    `sender`: whose bytes they are. `call`: the exchange up to the message that is odd, or a Sighting. `detail`: what
    exactly was seen.
    `codes`: all of a message. `doubt`: why the bytes may be something else. `times`: it stands for so many.
    `disordered`: the capture's times run backwards. `end`: the connection's, where only that tells."""

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

    @property
    def is_over(self) -> bool:
        """Whether one end closed the connection, not the capture or kshark's memory."""
        return self.end is not None and self.end.how in ("fin", "rst", "reused")

    @property
    def closed_by(self) -> By:
        """Who closed it first."""
        if self.end is None or self.end.side is None or not self.is_over:
            return "unknown"
        return "client" if self.connection.flow.ends[self.end.side] == self.connection.client else "broker"

    def at_end(self, needs: ProofNeeds = EXCHANGE, because: str | None = None) -> Argument:
        """The same, where the connection ended."""
        argument = self.argument(needs)
        if self.end is None:
            return argument
        packet, time_ns = self.end.packet, self.end.time_ns
        place, ends = (
            Position(self.connection, packet, time_ns),
            (End(packet, time_ns, self.closed_by, self.connection.flow.id),),
        )
        return replace(argument, position=place, ends=ends, because=argument.because or because)

    def argument(self, needs: ProofNeeds = EXCHANGE) -> Argument:
        """The sender sent what the rule's row tells. Whom the row does not name as a culprit hands on what somebody
        unseen sent."""
        because = None if not self.rule.accuses or self.sender in self.rule.blame else "hidden_traffic"
        return Argument(self.sentence, (self.call,), needs, blame=self.sender, because=self.doubt or because)

    @property
    def sentence(self) -> str:
        """`the answer to exchange 3 (Metadata): bytes are left behind the body: at byte 57 (packets 10, 11)`."""
        whose = "the answer to " if self.call.answer is not None else ""
        return (
            f"{whose}{self.call.here}: {': '.join(filter(None, (self.rule.sentence, self.detail)))}{self.often} "
            f"({self.call.packets})"
        )

    @property
    def often(self) -> str:
        return f", {self.times} times" if self.times > 1 else ""
