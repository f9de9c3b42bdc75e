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


def _by_ns(event: Gap | Weird | Message) -> int | None:
    return event.by_ns if isinstance(event, Weird) else None


WEIRDS: Final = table(
    "weirds",
    "weird: an anomaly in the bytes (inside record batches: with --records)",
    "event code direction position",
    Column("stage", "string", "stage that found it", made(_stage, "event", "code")),
    Column("code", "string", "code in the catalogue (kshark explain CODE)", its("code")),
    Column("detail", "string", "details", made(_detail, "event")),
    Column(
        "kind",
        "string",
        "gap: missing bytes; message: concerns the message with this correlation id; event: any other",
        made(_kind, "event"),
    ),
    Column("direction", "string", "sender of the bytes, client or broker", its("direction")),
    Column(
        "first_packet",
        "bigint",
        "first packet of it; for a gap: the last packet before the gap",
        made(_first_packet, "event"),
    ),
    Column(
        "last_packet",
        "bigint",
        "for a gap: the packet with which kshark stopped to wait for the bytes",
        made(_last_packet, "event"),
    ),
    Column("size_bytes", "bigint", "number of bytes; -1: unknown", its("event.size")),
    Column("correlation_id", "int", "correlation id of the message", field("event", "correlation_id")),
    Column("position", "bigint", "position among the events of its flow", its("position")),
    Column("times", "bigint", "number of occurrences: one row may stand for many", made(_times, "event")),
    Column(
        "by_ns",
        "bigint",
        "how far the capture's clock is wrong, stepped or silent, or how long it had lasted, in nanoseconds",
        made(_by_ns, "event"),
        since=2,
        needed=False,
    ),
)


def _witness(finding: Finding) -> list[tuple[object, ...]]:
    return [(w.flow, w.correlation_id, w.request_packet, w.response_packet, w.packet, w.event) for w in finding.witness]


FINDINGS: Final = table(
    "findings",
    "finding (kshark check)",
    "finding exchange",
    Column("code", "string", "code in the catalogue (kshark explain CODE)", its("finding.code")),
    Column("rule", "int", "number in the rule catalogue", its("finding.rule")),
    Column("severity", "string", "error, warn, note", its("finding.severity")),
    Column("verdict", "string", "violation, unknown, note", its("finding.verdict")),
    Column("blame", "string", "client, broker, network, capture, unknown", its("finding.blame")),
    Column("flow", "bigint", "number of the connection, in order of first packet", its("finding.flow")),
    GROUP.read(its("finding.group_id")),
    MEMBER.read(its("finding.member_id")),
    Column("topic_id", "string", "topic id of the partition concerned", its("finding.topic_id")),
    Column("partition", "int", "number of the partition concerned", its("finding.partition")),
    Column("cause", "string", "cause, for example of a rejected epoch", its("finding.cause")),
    Column(
        "witness",
        "array<struct<flow: bigint, correlation_id: int, request_packet: bigint, response_packet: bigint, "
        "packet: bigint, event: string>>",
        "exchanges that are the evidence",
        made(_witness, "finding"),
    ),
    Column("argument", "string", "the evidence as a sentence", its("finding.argument")),
    Column(
        "unknown_because",
        "string",
        "reason why it is not proved (kshark explain REASON)",
        its("finding.unknown_because"),
    ),
    Column("client_id", "string", "client id in the header of the request", its("finding.client_id")),
    Column("software", "string", "name and version of the client's software", its("finding.software")),
    CORRELATION.read(optional("exchange.correlation_id")),
    Column(
        "proxy",
        "string",
        "address:port of the load balancer whose PROXY header named the client",
        its("finding.proxy"),
        since=2,
        needed=False,
    ),
    Column(
        "until_packet",
        "bigint",
        "last packet of an event; null: it lasted when the capture ended, no packet shows its end, or the finding is "
        "no event",
        field("finding", "until_packet"),
        since=3,
        needed=False,
    ),
    Column(
        "until_ts_ns",
        "bigint",
        "end of an event, in nanoseconds since 1970; null: it lasted when the capture ended, or it is no event",
        field("finding", "until_ns"),
        since=3,
        needed=False,
    ),
    Column(
        "event_code", "string", "event that explains the finding", field("finding", "event_code"), since=3, needed=False
    ),
    Column(
        "event_packet", "bigint", "first packet of that event", field("finding", "event_packet"), since=3, needed=False
    ),
)

FAULTS: Final = table(
    "faults",
    "capture that could not be read (without packet and time); other rows of it are from a later export",
    "error",
    Column(
        "code",
        "string",
        "vanished, changed (the file changed while it was read), damaged, no_capture, unreadable (cannot be opened), "
        "worker_lost (Spark: the process that read it was killed), failed (Spark: a bug in kshark)",
        its("error.code"),
    ),
    Column(
        "stage",
        "string",
        "operation that failed: hash (to recognize the file), read",
        its("error.when"),
    ),
    Column("detail", "string", "error message, with the file's name", made(str, "error")),
)

_weird_row: Final = WEIRDS.row_maker()
_finding_row: Final = FINDINGS.row_maker()
_fault_row: Final = FAULTS.row_maker()


def touched(where: Where, message: Message, exchange: int | None) -> Iterator[Row]:
    """Return a row for each code of a message; a frame without a readable header has no `exchange`."""
    if isinstance(message.weird, UnsetType):
        return
    for code in message.weird:
        yield _weird_row(
            where, message.packet, message.time_ns, exchange, message, code, _SENT_BY.get(message.kind), None
        )


def odd_row(flow: Flow, where: Where, position: int, event: Gap | Weird) -> Row:
    """Return the row of a gap or a weird of a connection whose ends have these names."""
    sent_by = None if event.side is None else "broker" if flow.ends[event.side] == where.broker else "client"
    if isinstance(event, Gap):
        return _weird_row(where, event.packet, event.time_ns, None, event, "STREAM_GAP", sent_by, position)
    return weird_row(where, event, sent_by, position)


def weird_row(where: Where, weird: Weird, sent_by: str | None = None, position: int | None = None) -> Row:
    """Return the row of a weird.

    `sent_by`, `position`: None if the weird belongs to no connection, or to one that has ended. A weird of the exchange
    stage about an earlier request starts at that request.
    """
    exchange = weird.first_packet if weird.stage == "exchange" else None
    return _weird_row(where, weird.packet, weird.time_ns, exchange, weird, weird.code, sent_by, position)


def finding_row(where: Where, finding: Finding) -> Row:
    """Return the row of a finding; its exchange is the last witness on the finding's connection."""
    last_witness = next(
        (
            witness
            for witness in reversed(finding.witness)
            if witness.request_packet is not None and witness.flow == finding.flow
        ),
        None,
    )
    return _finding_row(
        where, finding.packet, finding.time_ns, last_witness and last_witness.request_packet, finding, last_witness
    )


def fault_row(where: Where, error: UnreadableInput) -> Row:
    """Return the row of a capture that cannot be read; it has no packet and no time."""
    return _fault_row(where, None, None, None, error)
