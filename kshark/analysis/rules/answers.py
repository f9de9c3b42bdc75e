"""Rules 7 to 12: which response belongs to which request."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark.analysis.facts.argument import CONNECTION, Argument
from kshark.analysis.facts.bases import AT_LEAST, BETWEEN_DIRECTIONS, IDLE_TIME, Limit
from kshark.analysis.rules.byte_fault import ByteFault
from kshark.analysis.rules.rule import NOTES, Check, Rule


def reused(fault: ByteFault) -> Argument | None:
    """Report a correlation id that is already in use.

    Missing answers, or answers captured too late, would explain it.
    """
    return fault.argument(CONNECTION.knowing(fault.no_request_lost))


def overtook(fault: ByteFault) -> Argument | None:
    """Report a response that was sent before that of an earlier request.

    If the capture holds an answer before its request, the request seems to be open, because its first answer was
    missed.
    """
    return fault.argument(CONNECTION.knowing(fault.no_request_lost, fault.unaccepted))


def unrequested(fault: ByteFault) -> Argument | None:
    """Report a response without a request.

    The request may have been sent before the capture began. Such answers can come in a row: only the first one is
    reported.
    """
    connection = fault.connection
    is_repeated = fault.end is None and connection.orphans > 0
    return unwanted(fault) if connection.flow.opened_by is not None and not is_repeated else None


def unwanted(fault: ByteFault) -> Argument | None:
    """Report a response that its client does not expect."""
    return fault.argument(CONNECTION.knowing(fault.connection.clock.order, fault.unaccepted))


def timed_out(fault: ByteFault) -> Argument | None:
    """Note a request that was open for 30 seconds or longer when the client closed the connection.

    The client may have had another reason to close it.
    """
    if fault.end is None or fault.closed_by != "client":
        return None
    text = (
        f"{fault.detail} had been open for 30 seconds or longer when the client closed the connection{fault.often} "
        f"(packet {fault.end.packet})"
    )
    return replace(fault.at_end(), text=text)


def unanswered(fault: ByteFault) -> Argument | None:
    """Note a request that was open when the connection closed.

    Possible reasons are a shutdown, a timeout, or an earlier request. A refused PROXY header is reported instead.
    """
    if fault.end is None or not fault.is_over or fault.connection.is_refused_header:
        return None
    by = fault.closed_by
    closed = "the connection ended" if by == "unknown" else f"the {by} closed the connection"
    return replace(
        fault.at_end(),
        text=f"{fault.detail} was open when {closed}{fault.often} (packet {fault.end.packet})",
        cause=None if by == "unknown" else f"{by}_closed",
    )


ROWS: Final = (
    Rule(
        number=7,
        code="RESPONSE_UNMATCHED",
        text="A response matches no open request. Clients then close the connection.",
        source="Kafka: NetworkClient",
        rests_on=(BETWEEN_DIRECTIONS, Limit("OPEN_BYTES")),
        blame=("broker",),
        weird=("RESPONSE_UNMATCHED",),
        unproved_as="RESPONSE_WITHOUT_REQUEST",
        read="matched",
        checks=(Check(unrequested),),
        sentence="no open request has this correlation id",
        act="sent an answer that no open request asked for",
        weight=85,
        must="A response has the correlation id of an open request of its connection.",
        advice="Not the client. Suspect a proxy between client and broker, or a broker that answers twice.",
        wrong="Metadata #7; answer #8",
        right="Metadata #7; answer #7",
    ),
    Rule(
        number=None,
        code="RESPONSE_WITHOUT_REQUEST",
        text="The request of a response is not in the capture, which lacks bytes of the client.",
        source="Kafka: NetworkClient",
        rests_on=(BETWEEN_DIRECTIONS, Limit("OPEN_BYTES")),
        blame=(),
        verdicts=NOTES,
        weird=("RESPONSE_UNMATCHED",),
        checks=(Check(unrequested),),
        sentence="its request is not in the capture",
        advice="Record both directions, whole packets, and without drops: the request was sent, and the capture does "
        "not have it.",
    ),
    Rule(
        number=8,
        code="RESPONSE_OUT_OF_ORDER",
        text="A response was sent before the response to an earlier request of its connection. Clients then close the "
        "connection.",
        source="Kafka: InFlightRequests, SocketServer",
        rests_on=(BETWEEN_DIRECTIONS, Limit("OPEN_BYTES")),
        blame=("broker",),
        weird=("RESPONSE_OUT_OF_ORDER",),
        read="answers",
        checks=(Check(overtook),),
        sentence="it was sent before the answer to an earlier request",
        act="answered a request before an earlier one of the same connection",
        weight=85,
        must="Requests of one connection are answered in the order in which they were sent.",
        advice="No client causes this. Check what lies between client and broker, such as a proxy.",
        wrong="Metadata #7; Metadata #8; answer #8; answer #7",
        right="Metadata #7; Metadata #8; answer #7; answer #8",
    ),
    Rule(
        number=9,
        code="REQUEST_UNANSWERED",
        text="A connection ended while a request was open.",
        causes=("broker_closed", "client_closed"),
        wrong="Metadata #7; A closes",
        right="Metadata #7; answer #7; A closes",
        source="Kafka: NetworkClient",
        rests_on=(IDLE_TIME,),
        blame=(),
        verdicts=NOTES,
        at="end",
        weird=("REQUEST_UNANSWERED",),
        read="due",
        checks=(Check(unanswered),),
        weight=30,
        advice="If the broker closed the connection, look at its log. If the client closed it, it gave up the open "
        "requests.",
    ),
    Rule(
        number=10,
        code="ACKS0_ANSWERED",
        text="A Produce request with acks 0 got a response, although it asks for none.",
        source="Kafka: KafkaApis",
        rests_on=(BETWEEN_DIRECTIONS, Limit("OPEN_BYTES")),
        blame=("broker",),
        weird=("ACKS0_ANSWERED",),
        read="one_way",
        checks=(Check(unwanted),),
        sentence="the request asked for no response (acks 0)",
        act="answered a Produce with acks 0, which has no answer",
        weight=80,
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
        rests_on=(BETWEEN_DIRECTIONS, Limit("OPEN_BYTES")),
        at="request",
        weird=("CORRELATION_ID_REUSED",),
        read="requests",
        checks=(Check(reused),),
        sentence="its correlation id is that of an open request",
        act="used the correlation id of a request that was still open",
        weight=50,
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
        rests_on=(AT_LEAST,),
        blame=(),
        verdicts=NOTES,
        at="end",
        weird=("REQUEST_TIMEOUT_CLOSE",),
        read="due",
        checks=(Check(timed_out),),
        weight=37,
        advice="Check whether the broker was blocked, or whether the network lost the request or its answer.",
    ),
)
