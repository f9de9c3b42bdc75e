"""A fault in the bytes as rules see it: a weird of a message, of a connection, or of an incomplete exchange."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from kshark.analysis.facts.argument import EXCHANGE, Argument, Position, ProofNeeds
from kshark.analysis.facts.brokers import By, End
from kshark.analysis.facts.calls import Call
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.known import ALWAYS, Known, known_if, never
from kshark.analysis.rules.rule import Rule
from kshark.anomaly import Blame
from kshark.model import Closed


class ByteFault(Struct, eq=False):
    """A fault with a code that `rule` lists.

    `sender`: the party that sent the bytes. `call`: the exchange up to the faulty message, or a Sighting. `detail`: the
    exact fault.
    `codes`: all codes of the message, or that of the event. `known`: the fact that the bytes are what they seem to be.
    `is_answered`: the message is a request, and has an answer.
    `times`: the number of faults that this one represents. `end`: the end of the connection, if only that shows it.
    """

    rule: Rule
    connection: ConnectionFacts
    sender: Blame
    call: Call
    detail: str
    codes: Sequence[str] = ()
    known: Known = ALWAYS
    times: int = 1
    end: Closed | None = None
    is_answered: bool = False

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
    def closed_unanswered(self) -> Known:
        """The fact that the broker closed the connection without an answer."""
        return self.connection.clock.order if self.closed_by == "broker" else never("end_not_seen")

    @property
    def no_request_lost(self) -> Known:
        """The fact that the capture holds the request of each answer, before the answer."""
        return known_if(self.connection.clock.order.is_certain and not self.connection.orphans, "disorder")

    @property
    def unaccepted(self) -> Known:
        """The fact that the client closed the connection after the answer, and sent no further request."""
        is_last = self.connection.gaps or self.connection.last_request < self.call.end
        return known_if(is_last, "hidden_traffic")

    @property
    def still_up(self) -> Known:
        """The fact that the broker did not go down before the end of the connection."""
        broker, first = self.connection.broker, self.call.packet
        is_restart = self.end is not None and broker is not None and broker.restarted_between(first, self.end.packet)
        return known_if(not is_restart, "setting_unknown")

    def at_end(self, needs: ProofNeeds = EXCHANGE) -> Argument:
        """Return the argument, placed at the end of the connection."""
        argument = self.with_end(self.argument(needs))
        if self.end is None:
            return argument
        return replace(argument, position=Position(self.connection, self.end.packet, self.end.time_ns))

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
        origin = known_if(not self.rule.accuses or self.sender in self.rule.blame, "hidden_traffic")
        needs = replace(needs, facts=(self.known, origin, *needs.facts))
        return Argument(self.sentence, (self.call,), needs, blame=self.sender)

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
