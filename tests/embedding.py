"""Bytes that hold structures, and bodies that hold such bytes: written by the product's own writers, taken apart
again."""

from __future__ import annotations

from struct import pack
from typing import Any

from kshark import encode
from kshark.codec import compile_reader, compile_writer
from kshark.embedded.companions import Companion, companions
from kshark.model import Event, Message
from kshark.pipeline import Engine, Options
from kshark.places import Structure
from kshark.records import Record
from kshark.records.writer import write_batch
from kshark.registry import Registry
from kshark.schema import Layout
from kshark_dissectors.embedded.places import PLACES
from kshark_dissectors.topics import TOPIC_NAMES
from tests.packets import Tcp, Wire, batch
from tests.records.opening import opened

REGISTRY = Registry(installed=False)


def prefixed(structure: Structure | Layout, version: int, **data: Any) -> bytes:
    """A structure behind its version."""
    layout = structure.layout if isinstance(structure, Structure) else structure
    return pack(">h", version) + compile_writer(layout, version)(data)


def numbered(number: int, layout: Layout, version: int = 0, **data: Any) -> bytes:
    """A structure behind frame version, type and version, each below 128: as the metadata log has it."""
    return bytes((1, number, version)) + compile_writer(layout, version)(data)


def body(key: int, version: int, kind: str, **value: Any) -> Any:
    """A body as the codec makes it, its records opened."""
    api = REGISTRY.api(key)
    assert api is not None
    layout = api.request if kind == "request" else api.response
    data = encode(key, version, kind, value)  # type: ignore[arg-type]
    made, _ = compile_reader(
        layout, version, records=lambda b, start, end, aligned=True: opened(b[start:end], aligned=aligned)[0]
    )(data, 0)
    return made


def found(
    key: int, version: int, kind: str, *, request: Any = None, names: dict[str, str] | None = None, **value: Any
) -> list[Companion]:
    """The companions in a body of that API."""
    return list(
        companions(
            PLACES[key, kind],
            body(key, version, kind, **value),
            request=request,
            names={**TOPIC_NAMES, **(names or {})},
        )
    )


def batch_of(*records: tuple[bytes | None, bytes | None], control: bool = False) -> bytes:
    """A record batch with these keys and values."""
    return write_batch([Record(i, 0, key, value, ()) for i, (key, value) in enumerate(records)], control=control)


def fetched(topic: str, *records: tuple[bytes | None, bytes | None], control: bool = False) -> list[Companion]:
    """The companions in a Fetch answer that carries these records of a topic."""
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 9,
        "records": batch_of(*records, control=control),
    }
    return found(1, 4, "response", responses=[{"topic": topic, "partitions": [partition]}])


def request_frame(
    key: int, version: int, value: dict[str, Any], *, correlation_id: int = 1, client_id: str | None = "c1"
) -> bytes:
    """A request with its header, without the length prefix."""
    api = REGISTRY.api(key)
    assert api is not None
    fields = {"request_api_key": key, "request_api_version": version, "correlation_id": correlation_id}
    head = api.request_header_version(version)
    if head:
        fields["client_id"] = client_id
    return compile_writer(REGISTRY.request_header, head)(fields) + encode(key, version, "request", value)


def response_frame(key: int, version: int, value: dict[str, Any], *, correlation_id: int = 1) -> bytes:
    """A response with its header, without the length prefix."""
    api = REGISTRY.api(key)
    assert api is not None
    header = compile_writer(REGISTRY.response_header, api.response_header_version(version))(
        {"correlation_id": correlation_id}
    )
    return header + encode(key, version, "response", value)


def exchange(
    tcp: Tcp, key: int, version: int, asked: dict[str, Any], answer: dict[str, Any], *, correlation_id: int = 1
) -> None:
    """A request and its answer on a connection."""
    for send, frame in (
        (tcp.client, request_frame(key, version, asked, correlation_id=correlation_id)),
        (tcp.broker, response_frame(key, version, answer, correlation_id=correlation_id)),
    ):
        send(pack(">i", len(frame)) + frame)


def events(wire: Wire, **options: Any) -> list[Event]:
    """What the engine makes of the packets, for a consumer that shows bodies."""
    engine = Engine(Options(**{"embedded": True, **options}))
    return [event for page in engine.pages([batch(wire.packets)]) for event in page]


def messages(wire: Wire, **options: Any) -> list[Message]:
    """The messages among them."""
    return [event for event in events(wire, **options) if isinstance(event, Message)]
