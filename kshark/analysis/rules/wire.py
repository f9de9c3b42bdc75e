"""Bytes that are no messages, and messages with wrong bytes. Rules 1 to 6."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kshark import limits
from kshark.analysis.facts.argument import CONNECTION, EXCHANGE, Argument
from kshark.analysis.facts.bases import BETWEEN_DIRECTIONS, REQUEST_BYTES, Limit
from kshark.analysis.facts.calls import Sighting
from kshark.analysis.rules.byte_fault import ByteFault
from kshark.analysis.rules.rule import NOTES, Check, Rule


def impossible(odd: ByteFault) -> Argument | None:
    """Impossible lengths count only in the client's bytes.

    Only the client's requests show that a connection is Kafka. TLS, for example, has impossible lengths, and is no
    fault.
    """
    return odd.argument(CONNECTION) if odd.sender == "client" and odd.has(_IMPOSSIBLE) else None


def refused(odd: ByteFault) -> Argument | None:
    """Report a request that is too long for the broker, which closed the connection instead of an answer.

    The longest one is a broker setting: only the broker shows that a request exceeds it. One that is above the default
    is no reason.
    """
    if not odd.has(_TOO_LONG) or (odd.end is not None and odd.closed_by != "broker"):
        return None
    broker = odd.connection.broker
    setting = None if broker is None else broker.shown(REQUEST_BYTES)
    if setting is not None and setting.number > limits.REQUEST_BYTES:
        return None
    return odd.with_end(odd.argument(CONNECTION.knowing(odd.still_up)))


def foreign(odd: ByteFault) -> Argument | None:
    """A client sent a wrong protocol.

    A TLS listener answers TLS. So the protocol is wrong only if the broker closes or resets without an answer.
    """
    return odd.at_end(CONNECTION.knowing(odd.closed_unanswered))


def truncated(odd: ByteFault) -> Argument | None:
    """A frame is incomplete at the connection's end. At the capture's end that is normal."""
    return odd.at_end() if odd.is_over else None


def undecodable(odd: ByteFault) -> Argument | None:
    """Bytes without a header may be a SASL token whose beginning is not in the capture."""
    return odd.argument(CONNECTION if isinstance(odd.call, Sighting) else EXCHANGE)


def of_other_version(fault: ByteFault) -> Argument | None:
    """A reader refused a tagged field of another version, and closed the connection: the broker without an answer, the
    client after it. Who goes on reads it in a way of its own.
    """
    if fault.is_answered:
        return None
    refused = fault.closed_unanswered if fault.sender == "client" else fault.unaccepted
    return fault.at_end(CONNECTION.knowing(refused))


def header_refused(fault: ByteFault) -> Argument | None:
    """A broker read a PROXY header as a length, which is too large, and closed the connection.

    It may have had another reason, such as max.connections, unless it answers connections without a header.
    """
    connection, end = fault.connection, fault.end
    if end is None or connection.broker is None or not connection.is_refused_header:
        return None
    plain = connection.broker.proxies.answered.get(False)
    text = f"{fault.detail}; the broker closed the connection without an answer (packet {end.packet})"
    if plain is not None:
        text += f", and it answers connections without such a header (packet {plain})"
    needs = CONNECTION.knowing(connection.broker.proxies.refuses)
    return replace(fault.at_end(), text=text, needs=needs, blame="network")


#: A negative length or one without a request, and a request above the broker's setting.
_IMPOSSIBLE: Final = "FRAME_LENGTH_INVALID"
_TOO_LONG: Final = "REQUEST_TOO_LONG"

ROWS: Final = (
    Rule(
        number=1,
        code="FRAME_LENGTH_INVALID",
        text="A length prefix is negative, is not followed by a request, or is larger than the broker accepts.",
        source="Kafka: NetworkReceive; socket.request.max.bytes",
        rests_on=(REQUEST_BYTES, Limit("FRAME_BYTES")),
        weird=(_IMPOSSIBLE, _TOO_LONG),
        read="frames",
        checks=(Check(impossible), Check(refused)),
        sentence="the broker reads no message of such a length",
        act="sent a length prefix that no request follows",
        weight=60,
        must="A request begins with its length, 8 to the broker's socket.request.max.bytes (100 MB by default; name "
        "another setting with --max-request-bytes).",
        advice="Write nothing but requests to the socket, each after its length. Brokers close the connection without "
        "an answer. If the length is right, send less at once, or raise socket.request.max.bytes.",
        wrong="length -2, 8 bytes",
        right="length 8, 8 bytes",
    ),
    Rule(
        number=2,
        code="FRAME_TRUNCATED_AT_CLOSE",
        text="A connection ended in the middle of a message.",
        wrong="length 120, 40 bytes; A closes",
        right="length 120, 120 bytes; A closes",
        source="Kafka: NetworkReceive",
        blame=(),
        verdicts=NOTES,
        at="end",
        weird=("FRAME_TRUNCATED_AT_CLOSE",),
        read="connections",
        checks=(Check(truncated),),
        sentence="the message is incomplete",
        advice="Close a connection only between messages.",
    ),
    Rule(
        number=3,
        code="STREAM_GAP",
        text="The capture lacks a part of a connection: findings there may be unknown.",
        wrong="bytes 0-1447; bytes 2896-4343",
        right="bytes 0-1447; bytes 1448-2895; bytes 2896-4343",
        source="RFC 9293",
        blame=(),
        verdicts=NOTES,
        weird=("STREAM_GAP",),
        read="connections",
        checks=(Check(ByteFault.argument),),
        advice="Capture closer to the broker, with a larger buffer (tcpdump -B), or without traffic that is not "
        "needed. Read a request log whole, not the output of grep.",
    ),
    Rule(
        number=4,
        code="FOREIGN_PROTOCOL",
        text="A client sent TLS or HTTP to a listener that speaks plain Kafka.",
        source="Kafka: security.protocol, listener.security.protocol.map",
        rests_on=(BETWEEN_DIRECTIONS,),
        at="end",
        weird=("FOREIGN_PROTOCOL",),
        read="connections",
        checks=(Check(foreign),),
        act="sent TLS or HTTP to a listener that speaks plain Kafka",
        weight=60,
        must="The client's security.protocol is that of the listener it connects to.",
        advice="Set security.protocol to that of the listener: brokers read the TLS hello as a length and close the "
        "connection.",
        wrong="16 03 01 (TLS) to a PLAINTEXT listener",
        right="ApiVersions to a PLAINTEXT listener",
    ),
    Rule(
        number=None,
        code="PROXY_HEADER_REFUSED",
        text="A load balancer began a connection with a PROXY header, and the broker closed it, as listeners "
        "without the PROXY protocol do.",
        source="HAProxy: proxy-protocol.txt; Kafka: NetworkReceive",
        blame=("network",),
        at="end",
        weird=("PROXY_HEADER_REFUSED",),
        checks=(Check(header_refused),),
        act="began connections with a PROXY header, and the broker closed them",
        weight=80,
        must="A load balancer sends PROXY headers only to listeners that support them. Kafka's do not: they read the "
        "header as a length (1347571544 or 218762506) and close the connection.",
        advice="Nothing to change in the client. Switch off the PROXY protocol for this target of the load balancer "
        "(AWS: proxy_protocol_v2.enabled; HAProxy: send-proxy), or put a proxy that removes the header before the "
        "broker.",
    ),
    Rule(
        number=5,
        code="TRAILING_BYTES",
        text="A message is longer than its body. Brokers ignore the extra bytes, other readers may not.",
        source="Kafka protocol guide",
        blame=("client", "broker"),
        weird=("TRAILING_BYTES",),
        read="messages",
        checks=(Check(ByteFault.argument),),
        sentence="extra bytes follow the body",
        act="sent a message with extra bytes after the body",
        weight=30,
        must="A message ends where its body ends, by the layout of its version.",
        advice="Compare the writer with the layout (kshark explain API): it writes an extra field, or one of another "
        "version.",
        wrong="Metadata v0, 4 bytes of body in a frame with 8",
        right="Metadata v0, 4 bytes of body in a frame with 4",
    ),
    Rule(
        number=6,
        code="UNDECODABLE_BODY",
        text="A message does not fit the layout of its API and version. Brokers close the connection of such a "
        "request.",
        source="Kafka: RequestContext.parseRequest",
        blame=("client", "broker"),
        weird=(
            "BODY_TOO_SHORT",
            "LENGTH_INVALID",
            "NULL_NOT_ALLOWED",
            "VARINT_TOO_LONG",
            "TAG_LENGTH_MISMATCH",
            "TAGS_UNSORTED",
            "TOO_MANY_ELEMENTS",
        ),
        read="messages",
        checks=(Check(undecodable),),
        sentence="it does not fit the layout of its version",
        act="sent a message that does not fit the layout of this API and version",
        weight=65,
        must="A body has the fields of its API and version, each with the length that it announces.",
        advice="Compare the writer with the layout (kshark explain API). Brokers close the connection of such a "
        "request.",
        wrong="Metadata v0 that announces 2 topics and has 1",
        right="Metadata v0 that announces 1 topic and has 1",
    ),
    Rule(
        number=159,
        code="TAG_OF_OTHER_VERSION",
        text="A message has a tagged field that only other versions of it have. Kafka's readers refuse it.",
        source="KIP-482; Kafka: the generated readers of messages",
        rests_on=(BETWEEN_DIRECTIONS,),
        blame=("client", "broker"),
        at="end",
        weird=("TAG_OF_OTHER_VERSION",),
        read="messages",
        checks=(Check(of_other_version),),
        sentence="its version has no such tagged field",
        act="sent a tagged field of another version",
        weight=65,
        must="A message has only the tagged fields of its own version, and those that no version knows.",
        advice="Write a tagged field only in the versions that have it (kshark explain API). Brokers close the "
        "connection of such a request, and log that the tag is not valid for the version.",
        wrong="Fetch v16 with ReplicaDirectoryId of version 17; A closes",
        right="Fetch v17 with ReplicaDirectoryId; A closes",
    ),
)
