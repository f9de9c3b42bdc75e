"""Weirds, findings and faults as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from kshark.anomaly import CATALOGUE
from kshark.errors import UnreadableInput
from kshark.model import Finding, Flow, Gap, Message, Weird
from kshark.tables.blocks import Row, Where
from kshark.tables.columns import CORRELATION, GROUP, MEMBER, Column, table
from kshark.tables.readers import field, its, made, optional

_SENT_BY: Final = {"request": "client", "response": "broker"}


def _stage(event: Gap | Weird | Message, code: str) -> str:
    match event:
        case Gap():
            return "reassembly"
        case Weird():
            return event.stage
        case _:
            return CATALOGUE[code].group if code in CATALOGUE else "exchange"


def _detail(event: Gap | Weird | Message) -> str:
    if isinstance(event, Gap):
        return event.reason
    return "" if event.detail is UNSET else event.detail


def _kind(event: Gap | Weird | Message) -> str:
    match event:
        case Gap():
            return "gap"
        case Weird():
            return "event"
        case _:
            return "message"


def _first_packet(event: Gap | Weird | Message) -> int | None:
    if isinstance(event, Message):
        return None if isinstance(event.packets, UnsetType) else event.packets[0]
    return event.first_packet


def _last_packet(event: Gap | Weird | Message) -> int | None:
    return event.last_packet if isinstance(event, Gap) else None


def _times(event: Gap | Weird | Message) -> int:
    return event.times if isinstance(event, Weird) else 1


WEIRDS: Final = table(
    "weirds",
    "a weird is a fact about these bytes (inside record batches: with --records)",
    "event code direction position",
    Column("stage", "string", "who saw it", made(_stage, "event", "code")),
    Column("code", "string", "of the catalogue (kshark explain CODE)", its("code")),
    Column("detail", "string", "what exactly was seen", made(_detail, "event")),
    Column(
        "kind",
        "string",
        "gap: a hole in the bytes; message: it touches the message with this correlation id; event: any other",
        made(_kind, "event"),
    ),
    Column("direction", "string", "client or broker: who sent the bytes", its("direction")),
    Column(
        "first_packet",
        "bigint",
        "where it began; of a gap: the last packet before it",
        made(_first_packet, "event"),
    ),
    Column("last_packet", "bigint", "of a gap: the packet with which it was given up", made(_last_packet, "event")),
    Column("size_bytes", "bigint", "-1: unknown", its("event.size")),
    Column("correlation_id", "int", "of the message that it touches", field("event", "correlation_id")),
    Column("position", "bigint", "place among the events of its flow", its("position")),
    Column("times", "bigint", "how often it was seen: an event may stand for many", made(_times, "event")),
)


def _witness(finding: Finding) -> list[tuple[object, ...]]:
    return [(w.flow, w.correlation_id, w.request_packet, w.response_packet, w.packet, w.event) for w in finding.witness]


FINDINGS: Final = table(
    "findings",
    "finding (kshark check)",
    "finding exchange",
    Column("code", "string", "of the catalogue (kshark explain CODE)", its("finding.code")),
    Column("rule", "int", "number in the rule catalogue", its("finding.rule")),
    Column("severity", "string", "error, warn, note", its("finding.severity")),
    Column("verdict", "string", "violation, unknown, note", its("finding.verdict")),
    Column("blame", "string", "client, broker, network, capture, unknown", its("finding.blame")),
    Column("flow", "bigint", "number of the connection, in order of first packet", its("finding.flow")),
    GROUP.read(its("finding.group_id")),
    MEMBER.read(its("finding.member_id")),
    Column("topic_id", "string", "of the partition it is about", its("finding.topic_id")),
    Column("partition", "int", "it is about", its("finding.partition")),
    Column("cause", "string", "of a refused epoch", its("finding.cause")),
    Column(
        "witness",
        "array<struct<flow: bigint, correlation_id: int, request_packet: bigint, response_packet: bigint, "
        "packet: bigint, event: string>>",
        "exchanges that the finding rests on",
        made(_witness, "finding"),
    ),
    Column("argument", "string", "the evidence as a sentence", its("finding.argument")),
    Column(
        "unknown_because",
        "string",
        "why the capture proves nothing (kshark explain REASON)",
        its("finding.unknown_because"),
    ),
    Column("client_id", "string", "name that the client gave itself", its("finding.client_id")),
    Column("software", "string", "of the client", its("finding.software")),
    CORRELATION.read(optional("exchange.correlation_id")),
)

FAULTS: Final = table(
    "faults",
    "capture that could not be read: its other rows are those of a later export; of no packet and no time",
    "error",
    Column(
        "code",
        "string",
        "vanished, changed (it was another file in the end), damaged, no_capture, unreadable (it was refused)",
        its("error.code"),
    ),
    Column(
        "stage",
        "string",
        "what was done with it: hash (to know it again), index (Spark: to share it out), read",
        its("error.when"),
    ),
    Column("detail", "string", "what was said, with the file's name", made(str, "error")),
)

_weird_row: Final = WEIRDS.row_maker()
_finding_row: Final = FINDINGS.row_maker()
_fault_row: Final = FAULTS.row_maker()


def touched(where: Where, message: Message, exchange: int | None) -> Iterator[Row]:
    """A row for each code of a message; a frame without a readable header is of no `exchange`."""
    if isinstance(message.weird, UnsetType):
        return
    for code in message.weird:
        yield _weird_row(
            where, message.packet, message.time_ns, exchange, message, code, _SENT_BY.get(message.kind), None
        )


def odd_row(flow: Flow, where: Where, position: int, event: Gap | Weird) -> Row:
    """A row for a gap or a weird of a connection whose ends have these names."""
    sent_by = None if event.side is None else "client" if flow.ends[event.side] == where.client else "broker"
    if isinstance(event, Gap):
        return _weird_row(where, event.packet, event.time_ns, None, event, "STREAM_GAP", sent_by, position)
    return weird_row(where, event, sent_by, position)


def weird_row(where: Where, weird: Weird, sent_by: str | None = None, position: int | None = None) -> Row:
    """`sent_by`, `position`: None if the weird belongs to no connection, or to one that has ended.

    What the exchange stage says of a request later begins with that request.
    """
    exchange = weird.first_packet if weird.stage == "exchange" else None
    return _weird_row(where, weird.packet, weird.time_ns, exchange, weird, weird.code, sent_by, position)


def finding_row(where: Where, finding: Finding) -> Row:
    """A finding is of the last exchange of its connection that it rests on."""
    about = next(
        (one for one in reversed(finding.witness) if one.request_packet is not None and one.flow == finding.flow), None
    )
    return _finding_row(where, finding.packet, finding.time_ns, about and about.request_packet, finding, about)


def fault_row(where: Where, error: UnreadableInput) -> Row:
    """A capture that cannot be read has no packet and no time."""
    return _fault_row(where, None, None, None, error)
