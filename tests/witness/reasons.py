"""Why a request is in the log and not on the wire, or the other way round: each reason with the facts of the capture
that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kshark.model import Exchange
from tests.witness.wire import ENVELOPE, PRODUCE, SASL, Seen, Wire

UNEXPLAINED: Final = "UNEXPLAINED"
EDGE: Final = "open when the capture began or ended"
ELSEWHERE: Final = "between two processes of one host, not on the captured link"
ENCRYPTED: Final = "inside TLS"
MISSED: Final = "its bytes are missing in the capture"
AUTHENTICATION: Final = "authentication is not logged, nor what comes before it"
NULL_RECORDS: Final = "a Produce whose records are null is neither answered nor logged"
REFUSED: Final = "refused unread, or by its sender: the connection closed"
LOST: Final = "the connection closed before its answer was sent"
UNOPENED: Final = "an Envelope with no request of a known API inside has no line"


def why_not_on_wire(line: dict[str, Any], ends: tuple[str, str], wire: Wire) -> str:
    client, broker = ends
    if line["logged_ms"] - line["totalTimeMs"] <= wire.first_ms or line["logged_ms"] >= wire.last_ms:
        return EDGE
    flows = wire.flows.get(ends, [])
    if not flows and client.rpartition(":")[0] == broker.rpartition(":")[0]:
        return ELSEWHERE
    if any(flow.service == "tls" for flow in flows):
        return ENCRYPTED
    if any(flow.id in wire.damaged or not all(flow.begun) for flow in flows):
        return MISSED
    return UNEXPLAINED


def why_not_logged(seen: Seen, wire: Wire) -> str:
    closed = wire.closed.get(seen.flow.id)
    if seen.api_key in SASL and seen.flow.id in wire.authenticated:
        return AUTHENTICATION
    if seen.api_key == ENVELOPE:
        return UNOPENED
    if seen.outcome == "answered":
        return UNEXPLAINED
    if set(seen.weird) - {"RESYNC"}:
        return REFUSED
    if seen.api_key == PRODUCE and set(_records(seen.request)) == {None}:
        return NULL_RECORDS
    if closed is not None and closed.how == "capture":
        return EDGE
    return LOST if closed is not None else UNEXPLAINED


def why_an_orphan(exchange: Exchange, wire: Wire) -> str:
    """Why an answer has no request: that came before the capture where the answer is one of the first found in its
    connection."""
    flow, answer = exchange.flow, exchange.response
    if flow.id in wire.damaged:
        return MISSED
    early = answer is not None and "RESYNC" in (answer.weird or ())
    return EDGE if early and not all(flow.begun) else UNEXPLAINED


def _records(produce: Any) -> Iterator[int | None]:
    """The size of every records field."""
    for topic in produce["topic_data"]:
        for partition in topic["partition_data"]:
            yield None if partition["records"] is None else partition["records"]["size"]
