"""Which answer belongs to which request. Rules 7 to 12."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import CONNECTION, Argument
from kshark.analysis.rules.byte_fault import ByteFault
from kshark.analysis.rules.rule import NOTES, Check, Rule


def reused(odd: ByteFault) -> Argument | None:
    """Answers that are missing would explain it, or that stand behind where they came."""
    return _in_order(odd, odd.disordered or odd.connection.orphans > 0)


def overtook(odd: ByteFault) -> Argument | None:
    """An answer may stand before its request, which then seems to be open: the first time it was sent was missed."""
    return _taken_amiss(odd, _in_order(odd, odd.disordered or odd.connection.orphans > 0))


def unrequested(odd: ByteFault) -> Argument | None:
    """What was asked before the capture is answered in it; and behind one such answer others follow: it is told of the
    first alone."""
    connection, follows = odd.connection, odd.end is None and odd.connection.orphans > 0
    return unwanted(odd) if connection.flow.opened_by is not None and not follows else None


def unwanted(odd: ByteFault) -> Argument | None:
    """A response that its client did not wait for."""
    return _taken_amiss(odd, _in_order(odd, odd.disordered))


def _in_order(odd: ByteFault, disordered: bool) -> Argument:
    argument = odd.argument(CONNECTION)
    return replace(argument, because=argument.because or "disorder") if disordered else argument


def _taken_amiss(odd: ByteFault, argument: Argument) -> Argument:
    """A client closes the connection then; one that goes on to ask has seen something else."""
    if odd.connection.gaps or odd.connection.last_request < odd.call.end:
        return argument
    return replace(argument, because=argument.because or "hidden_traffic")


def timed_out(odd: ByteFault) -> Argument | None:
    """What is closed after so long may have been closed for another reason."""
    if odd.end is None or odd.closed_by != "client":
        return None
    text = (
        f"{odd.detail} had been open for 30 seconds or longer when the client closed the connection{odd.often} (packet "
        f"{odd.end.packet})"
    )
    return replace(odd.at_end(), text=text)


def unanswered(odd: ByteFault) -> Argument | None:
    """The one who closed may have had his reasons: shutting down, a timeout, a request that came before."""
    if odd.end is None or not odd.is_over:
        return None
    closed = "the connection ended" if odd.closed_by == "unknown" else f"the {odd.closed_by} closed the connection"
    return replace(odd.at_end(), text=f"{odd.detail} was open when {closed}{odd.often} (packet {odd.end.packet})")


ROWS: Final = (
    Rule(
        number=7,
        code="RESPONSE_UNMATCHED",
        text="A response matches no open request. Clients then close the connection.",
        source="Kafka: NetworkClient",
        blame=("broker",),
        weird=("RESPONSE_UNMATCHED",),
        read="matched",
        checks=(Check(unrequested),),
        sentence="no open request has this correlation id",
        must="A response has the correlation id of an open request of its connection.",
        advice="No client causes this. Check what lies between client and broker, such as a proxy.",
        wrong="Metadata #7; answer #8",
        right="Metadata #7; answer #7",
    ),
    Rule(
        number=8,
        code="RESPONSE_OUT_OF_ORDER",
        text="A response was sent before the response to an earlier request of its connection. Clients then close the "
        "connection.",
        source="Kafka: InFlightRequests, SocketServer",
        blame=("broker",),
        weird=("RESPONSE_OUT_OF_ORDER",),
        read="answers",
        checks=(Check(overtook),),
        sentence="it was sent before the answer to an earlier request",
        must="Requests of one connection are answered in the order in which they were sent.",
        advice="No client causes this. Check what lies between client and broker, such as a proxy.",
        wrong="Metadata #7; Metadata #8; answer #8; answer #7",
        right="Metadata #7; Metadata #8; answer #7; answer #8",
    ),
    Rule(
        number=9,
        code="REQUEST_UNANSWERED",
        text="A connection closed while a request was open.",
        wrong="Metadata #7; A closes",
        right="Metadata #7; answer #7; A closes",
        source="Kafka: NetworkClient",
        blame=(),
        verdicts=NOTES,
        at="end",
        weird=("REQUEST_UNANSWERED",),
        read="due",
        checks=(Check(unanswered),),
        advice="If the broker closed the connection, look at its log. If the client closed it, it gave up the open "
        "requests.",
    ),
    Rule(
        number=10,
        code="ACKS0_ANSWERED",
        text="A Produce request with acks 0 got a response, although it asks for none.",
        source="Kafka: KafkaApis",
        blame=("broker",),
        weird=("ACKS0_ANSWERED",),
        read="one_way",
        checks=(Check(unwanted),),
        sentence="the request asked for no response (acks 0)",
        must="A Produce request with acks 0 has no response.",
        advice="No client causes this. Use acks 1 or all if you need responses.",
        wrong="Produce #7, acks 0; answer #7",
        right="Produce #7, acks 0",
    ),
    Rule(
        number=11,
        code="CORRELATION_ID_REUSED",
        text="A request has the correlation id of another open request.",
        source="Kafka protocol guide",
        at="request",
        weird=("CORRELATION_ID_REUSED",),
        read="requests",
        checks=(Check(reused),),
        sentence="its correlation id is that of an open request",
        must="Each open request of a connection has its own correlation id.",
        advice="Count correlation ids per connection. Do not reuse an id while its request is open: the client could "
        "not match the answers.",
        wrong="Metadata #7; Metadata #7; answer #7",
        right="Metadata #7; answer #7; Metadata #7",
    ),
    Rule(
        number=12,
        code="REQUEST_TIMEOUT_CLOSE",
        text="A client waited 30 seconds or longer for an answer, gave up, and closed the connection.",
        wrong="Metadata #7; 30000 ms later; A closes",
        right="Metadata #7; 30000 ms later; answer #7; A closes",
        source="Kafka: NetworkClient; request.timeout.ms",
        blame=(),
        verdicts=NOTES,
        at="end",
        weird=("REQUEST_TIMEOUT_CLOSE",),
        read="due",
        checks=(Check(timed_out),),
        advice="Check whether the broker was blocked, or whether the network lost the request or its answer.",
    ),
)
