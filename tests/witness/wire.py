"""What kshark read from a capture, in the form of a broker's log: requests with their answers, those inside Envelopes
as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import UNSET

from kshark.capture import open_captures
from kshark.codec import interpret
from kshark.exchange.decoding import skip_tags
from kshark.model import Closed, Exchange, Flow, Gap, Message, PacketBatch
from kshark.pipeline import Engine, Options
from kshark.registry import Registry
from kshark_dissectors.headers import REQUEST_HEADER
from tests.witness.values import jsonable

ENVELOPE, PRODUCE = 58, 0
SASL = frozenset({17, 18, 36})
REGISTRY = Registry(installed=False)


class Seen(NamedTuple):
    """One request; `request` and `response` are bodies as JSON has them, None where there is none."""

    client: str
    broker: str
    api_key: int
    api: str
    version: int
    correlation_id: int
    client_id: str | None
    packet: int
    request: Any
    response: Any
    outcome: str
    weird: tuple[str, ...]
    forwarded: bool
    flow: Flow

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.forwarded, self.client, self.broker, self.api_key, self.version, self.correlation_id)


@dataclass
class Wire:
    """A capture: its requests in the order of their exchanges, and what tells why a request is on one side only."""

    seen: list[Seen] = field(default_factory=list)
    orphans: list[Exchange] = field(default_factory=list)
    #: Kafka's connections and others by their ends, either way round.
    flows: dict[tuple[str, str], list[Flow]] = field(default_factory=dict)
    closed: dict[int, Closed] = field(default_factory=dict)
    authenticated: set[int] = field(default_factory=set)
    damaged: set[int] = field(default_factory=set)
    first_ms: float = float("inf")
    last_ms: float = 0


def wire_of(capture: Path, tls_keys: bytes = b"") -> Wire:
    wire, items = Wire(), [*open_captures([capture])]
    for item in items:
        if isinstance(item, PacketBatch):
            wire.first_ms = min(wire.first_ms, int(item.time_ns.min()) / 1e6)
            wire.last_ms = max(wire.last_ms, int(item.time_ns.max()) / 1e6)
    for event in (
        event for page in Engine(Options(records=False, tls_keys=tls_keys, secrets=True)).pages(items) for event in page
    ):
        match event:
            case Closed():
                wire.closed[event.flow.id] = event
                wire.flows.setdefault(event.flow.ends, []).append(event.flow)
                wire.flows.setdefault(event.flow.ends[::-1], []).append(event.flow)
            case Gap():
                wire.damaged.add(event.flow.id)
            case Exchange(request=None):
                wire.orphans.append(event)
            case Exchange():
                if event.request.api_key in (17, 36):
                    wire.authenticated.add(event.flow.id)
                wire.seen += requests_of(event)
    return wire


def requests_of(exchange: Exchange) -> Iterator[Seen]:
    request, response = exchange.request, exchange.response
    assert request is not None
    weird = tuple(code for message in (request, response) if message is not None for code in _weirds(message))
    ends = (request.client, request.broker)
    if request.api_key == ENVELOPE and (inside := _forwarded(request, response, exchange.flow)):
        yield inside
        return
    what = (
        request.api_key,
        str(request.api),
        request.version,
        request.correlation_id,
        request.client_id,
        request.packet,
    )
    bodies = (jsonable(request.body), None if response is None else jsonable(response.body))
    yield Seen(*ends, *what, *bodies, exchange.outcome, weird, False, exchange.flow)


def _weirds(message: Message) -> list[str]:
    return [] if message.weird is UNSET else message.weird


def _forwarded(request: Message, response: Message | None, flow: Flow) -> Seen | None:
    """The request inside an Envelope, header and all, with the answer inside its answer (KIP-590); None where nothing
    is inside."""
    data = request.body.request_data
    key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    api = REGISTRY.api(key)
    if api is None or version not in api.versions:
        return None
    header = interpret(REQUEST_HEADER, api.request_header_version(version), data, 0, len(data))
    body = interpret(api.request, version, data, header.position, len(data))
    weird = [fault.code for fault in body.faults]
    answer, inner = None, None if response is None else response.body.response_data
    if inner is not None:
        behind = 4 if api.response_header_version(version) == 0 else skip_tags(inner, 4, len(inner))
        answer = interpret(api.response, version, inner, behind, len(inner))
        weird += [fault.code for fault in answer.faults]
    what = (key, api.name, version, header.body.correlation_id, header.body.client_id, request.packet)
    bodies = (jsonable(body.body), None if answer is None else jsonable(answer.body))
    outcome = "unanswered" if answer is None else "answered"
    return Seen(request.client, request.broker, *what, *bodies, outcome, tuple(weird), True, flow)
