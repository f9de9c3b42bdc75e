"""The argument of a rule: the sentence about a fault, the exchanges that prove it, and the conditions of the proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from msgspec import Struct
from msgspec.structs import replace

from kshark.analysis.facts.bases import NO_CONNECTION, NO_LEADER, Absence, Duration, Ground, Lasted
from kshark.analysis.facts.brokers import End
from kshark.analysis.facts.calls import Call, Partition
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.known import Known
from kshark.anomaly import Blame
from kshark.error_names import ERROR_NAMES


def refused_with(error: int | None) -> str:
    """Return the end of a sentence about a refusal.

    `error` None: the answer has an error code for each requested item instead of one for all.
    """
    return "was refused" if error is None else f"was refused with {ERROR_NAMES.get(error, f'error {error}')}"


def outcome(error: int | None) -> str:
    """Return the end of a sentence about an answer with this error; 0: it was accepted."""
    return "was accepted" if error == 0 else refused_with(error)


class Proof(Protocol):
    """Evidence that the capture may show later."""

    @property
    def because(self) -> str | None:
        """Why the finding is unknown without the evidence; None: without it there is no fault."""

    def holds(self) -> bool | str | None:
        """Return True if the evidence was seen and False if it was not.

        None: it may still appear. A word of kshark.analysis.facts.judge.REASONS: it can never appear, for this reason.
        `refuted`: there is no fault.
        """


class StillOpen(Struct, frozen=True):
    """Evidence that a connection was still open at a packet: a later request or FIN of its client."""

    because: ClassVar = "end_not_seen"
    connection: ConnectionFacts
    packet: int

    def holds(self) -> bool | None:
        return self.connection.is_used_after(self.packet)


class SentAfter(Struct, frozen=True):
    """Evidence that a request was sent after packet `since` of another connection, and not only arrived after it.

    TCP retransmits a request of a connection that its client has given up (RFC 9293): it may arrive long after it was
    sent. A connection that began later excludes this, and so does an acknowledgement of later bytes, a later request on
    the connection, or a FIN after the answer: a client that had given up sent its FIN before. Where packets are out of
    order, the acknowledged bytes may have been sent before `since`.
    """

    request: Call
    since: int
    because: str = "end_not_seen"

    def holds(self) -> bool | None:
        connection = self.request.connection
        flow = connection.flow
        if flow.opened_by is not None and flow.first_packet > self.since:
            return True
        knows_more = self.request.knows > self.since and not connection.clock.disorder_ns
        if knows_more or connection.last_request > self.request.packet:
            return True
        if self.request.answer is not None and (connection.client_fin or 0) > self.request.end:
            return True
        return False if connection.over else None


class Both(Struct, frozen=True):
    """Evidence of two kinds that must both appear."""

    first: Proof
    second: Proof

    @property
    def because(self) -> str | None:
        return self.first.because

    def holds(self) -> bool | str | None:
        first, second = self.first.holds(), self.second.holds()
        return second if first is True else first


class ProofNeeds(Struct, frozen=True):
    """The conditions that must be certain before a finding is proved.

    The exchanges of the argument must always be certain: every byte of them, and every byte of their connections
    between the first and the last of them.

    `state`: the state of the session was observed, and the broker's answer agrees with it.
    `whole`: the connections have no missing bytes from their beginning up to the last of these exchanges.
    `knows`: the client had received the answers of these exchanges when it sent the last witness: it reacted to them.
    `facts`: facts that must be certain from the first witness to the last one.
    `absence`: traffic that must not exist outside the capture. `proof`: evidence that must appear later, or a fact that
    is compared after all else.
    """

    state: bool = False
    whole: bool = False
    knows: Sequence[Call] = ()
    facts: tuple[Known, ...] = ()
    absence: Absence | None = None
    proof: Proof | None = None

    def after(self, *calls: Call) -> ProofNeeds:
        """Also need that the client had received the answers of these exchanges."""
        return replace(self, knows=calls)

    def knowing(self, *facts: Known) -> ProofNeeds:
        """Also need these facts."""
        return replace(self, facts=(*self.facts, *facts))

    def and_proof(self, proof: Proof) -> ProofNeeds:
        return replace(self, proof=proof)


#: The exchange alone is enough.
EXCHANGE = ProofNeeds()
#: Also needs all earlier bytes of its connection.
CONNECTION = ProofNeeds(whole=True)
#: Also needs the state of the session.
STATE = ProofNeeds(state=True)
#: Also needs that the member sent no other request, on a connection outside the capture.
ABSENCE = ProofNeeds(state=True, absence=NO_CONNECTION)
#: Also needs that no other broker used the stored state. A capture of all traffic of clients does not show it.
BROKER_ABSENCE = ProofNeeds(state=True, absence=NO_LEADER)


def at_least(bound_ns: int, since: PacketTime, call: Call) -> Lasted:
    """Return the ground that this time had passed when the request was sent."""
    return Lasted(call.connection.clock.durations, since, call.sent, Duration.AT_LEAST, bound_ns)


def at_most(bound_ns: int, since: PacketTime, call: Call, until: PacketTime | None = None) -> Lasted:
    """Return the ground that no more time had passed when the request was sent, or `until` then."""
    return Lasted(call.connection.clock.durations, since, until or call.sent, Duration.AT_MOST, bound_ns)


def sent_in_order(argument: Argument) -> Argument:
    """Return the argument of a client's fault; it also needs that the client sent the last exchange after the others.

    TCP may have delivered it late on a connection that the client has given up since.
    """
    *others, last = argument.witness
    others = [call for call in others if call.connection is not last.connection]
    ends = [call.end if call.end < last.packet else call.packet for call in others]
    proof = SentAfter(last, max(ends, default=-1), "in_flight")
    if not ends or proof.holds():
        return argument
    own = argument.needs.proof
    return replace(argument, needs=argument.needs.and_proof(proof if own is None else Both(own, proof)))


class Position(Struct, frozen=True):
    """The position of a finding that belongs to no exchange."""

    connection: ConnectionFacts
    packet: int
    time_ns: int


class Argument(Struct, frozen=True):
    """The argument of a rule: one sentence, and the exchanges that prove it in their order, with the subject last.

    `text`: the sentence. Rare sentences are functions: they are formatted only when a reader asks for `sentence`.
    `ends`: ends of connections that are part of the evidence.
    `grounds`: settings and durations that it rests on.
    `noted`: no party broke a rule.
    `blame`: the party at fault. None: the first party that the rule's row names.
    """

    text: str | Callable[[], str]
    witness: Sequence[Call]
    needs: ProofNeeds = STATE
    cause: str | None = None
    blame: Blame | None = None
    noted: bool = False
    partition: Partition | None = None
    offsets: tuple[int, int] | None = None
    position: Position | None = None
    ends: Sequence[End] = ()
    grounds: Sequence[Ground] = ()

    @property
    def sentence(self) -> str:
        return self.text if isinstance(self.text, str) else self.text()
