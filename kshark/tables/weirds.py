"""Weirds and findings as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from kshark.anomaly import CATALOGUE
from kshark.model import Finding, Flow, Gap, Message, Weird
from kshark.tables.blocks import Row, Where

_SENT_BY: Final = {"request": "client", "response": "broker"}


def touched(where: Where, message: Message, exchange: int | None) -> Iterator[Row]:
    """A row for each code of a message; a frame without a readable header is of no `exchange`."""
    if isinstance(message.weird, UnsetType):
        return
    detail = "" if message.detail is UNSET else message.detail
    place = (where, message.packet, message.time_ns, exchange)
    sent_by = _SENT_BY.get(message.kind)
    first = None if isinstance(message.packets, UnsetType) else message.packets[0]
    for code in message.weird:
        stage = CATALOGUE[code].group if code in CATALOGUE else "exchange"
        yield (
            *place,
            stage,
            code,
            detail,
            "message",
            sent_by,
            first,
            None,
            message.size,
            message.correlation_id,
            None,
            1,
        )


def odd_row(flow: Flow, where: Where, position: int, event: Gap | Weird) -> Row:
    """Of something odd about a connection whose ends are named so."""
    sent_by = None if event.side is None else "client" if flow.ends[event.side] == where.client else "broker"
    return (
        _gap_row(where, event, sent_by, position)
        if isinstance(event, Gap)
        else weird_row(where, event, sent_by, position)
    )


def _gap_row(where: Where, gap: Gap, sent_by: str | None, position: int) -> Row:
    return (
        where,
        gap.packet,
        gap.time_ns,
        None,
        "reassembly",
        "STREAM_GAP",
        gap.reason,
        "gap",
        sent_by,
        gap.first_packet,
        gap.last_packet,
        gap.size,
        None,
        position,
        1,
    )


def weird_row(where: Where, weird: Weird, sent_by: str | None = None, position: int | None = None) -> Row:
    """`sent_by`, `position`: None if the weird belongs to no connection, or to one that has ended.

    What the exchange stage says of a request later begins with that request.
    """
    return (
        where,
        weird.packet,
        weird.time_ns,
        weird.first_packet if weird.stage == "exchange" else None,
        weird.stage,
        weird.code,
        weird.detail,
        "event",
        sent_by,
        weird.first_packet,
        None,
        weird.size,
        weird.correlation_id,
        position,
        weird.times,
    )


def finding_row(where: Where, finding: Finding) -> Row:
    """A finding is of the last exchange of its connection that it rests on."""
    about = next(
        (one for one in reversed(finding.witness) if one.request_packet is not None and one.flow == finding.flow), None
    )
    return (
        where,
        finding.packet,
        finding.time_ns,
        about and about.request_packet,
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
        [(w.flow, w.correlation_id, w.request_packet, w.response_packet, w.packet, w.event) for w in finding.witness],
        finding.argument,
        finding.unknown_because,
        finding.client_id,
        finding.software,
        about and about.correlation_id,
    )
