"""Oddities and findings as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from kshark.anomaly import CATALOGUE
from kshark.model import Finding, Gap, Message, Weird
from kshark.tables.connections import Connection
from kshark.tables.exchanges import first_packet, set_or_none
from kshark.tables.fields import Row

_SENT_BY: Final = {"request": "client", "response": "broker"}


def touched(connection: Connection, message: Message) -> Iterator[Row]:
    """A row for each code that touches a message; a frame that nobody can tell is one too."""
    if isinstance(message.weird, UnsetType):
        return
    common = connection.common(message)
    detail = "" if message.detail is UNSET else message.detail
    correlation_id = set_or_none(message.correlation_id)
    for code in message.weird:
        stage = CATALOGUE[code].group if code in CATALOGUE else "exchange"
        sent_by, first = _SENT_BY.get(message.kind), first_packet(message)
        yield (*common, stage, code, detail, "message", sent_by, first, None, message.size, correlation_id, None)


def gap_row(connection: Connection, gap: Gap) -> Row:
    return (
        connection.capture,
        connection.flow_id,
        gap.packet,
        gap.flow.broker,
        gap.flow.client,
        gap.time_ns // 1000,
        gap.time_ns,
        "reassembly",
        "STREAM_GAP",
        gap.reason,
        "gap",
        connection.direction(gap.side),
        gap.first_packet,
        gap.last_packet,
        gap.size,
        None,
        connection.next(),
    )


def weird_row(capture: str, flow_id: str | None, connection: Connection | None, weird: Weird) -> Row:
    """`connection` is None where the oddity belongs to none, or to one that is over."""
    flow = connection.flow if connection else None
    return (
        capture,
        flow_id,
        weird.packet,
        flow and flow.broker,
        flow and flow.client,
        weird.time_ns // 1000,
        weird.time_ns,
        weird.stage,
        weird.code,
        weird.detail,
        "event",
        connection and connection.direction(weird.side),
        weird.first_packet,
        None,
        weird.size,
        None,
        connection and connection.next(),
    )


def finding_row(capture: str, flow_id: str | None, finding: Finding) -> Row:
    return (
        capture,
        flow_id,
        finding.packet,
        finding.broker,
        finding.client,
        finding.time_ns // 1000,
        finding.time_ns,
        finding.code,
        finding.rule,
        finding.severity,
        finding.verdict,
        finding.blame,
        finding.flow,
        finding.group_id,
        finding.member_id,
        finding.topic_id,
        finding.partition,
        finding.cause,
        [(w.flow, w.correlation_id, w.request_packet, w.response_packet) for w in finding.witness],
        finding.argument,
        finding.unknown_because,
        finding.client_id,
        finding.software,
    )
