"""Clients of brokers, for incidents that repeat on one connection after the other."""

from __future__ import annotations

from msgspec import Struct

from kshark.endpoints import host_of
from kshark.model import Flow, Message, Witness


class Client(Struct, frozen=True):
    """A client of a broker: its host without the port, and its client id."""

    broker: str
    host: str
    client_id: str | None


def client_of(flow: Flow, request: Message) -> Client:
    """Return the client that sent a request."""
    client_id = request.client_id if isinstance(request.client_id, str) else None
    return Client(flow.broker, host_of(flow.client), client_id)


def closed_on(flow: Flow, request: Message, packet: int) -> Witness:
    """Return the evidence that a broker closed the connection of a request, in this packet."""
    number = request.correlation_id if isinstance(request.correlation_id, int) else None
    return Witness(flow.id, number, request.packet, None, packet, "closed by the broker")
