"""Bodies that do not fit: each has its code and its field, and what came before the fault is shown."""

from __future__ import annotations

import struct

import pytest

import kshark
from kshark.anomaly import CATALOGUE as CODES
from kshark.codec import compile_reader, interpret, plain
from kshark.errors import DecodeError, UsageError
from kshark.model import Message
from kshark.pipeline import Engine
from kshark.schema import Layout
from tests.conformance.malformed import CATALOGUE, Malformed
from tests.dissectors.schema_rows import dissector
from tests.packets import Tcp, Wire, batch

EVERY = pytest.mark.parametrize("case", CATALOGUE, ids=lambda case: case.what)


def layout_of(case: Malformed) -> Layout:
    api = dissector(case.key)
    return api.request if case.direction == "request" else api.response


@EVERY
def test_the_fault_has_its_code_byte_and_field(case: Malformed) -> None:
    data = bytes.fromhex(case.hex)
    reading = interpret(layout_of(case), case.version, b"\xff" * 3 + data + bytes(99), 3, 3 + len(data))
    assert tuple((fault.code, fault.offset, fault.path) for fault in reading.faults) == case.faults


@EVERY
def test_what_came_before_the_fault_is_shown(case: Malformed) -> None:
    data = bytes.fromhex(case.hex)
    assert plain(interpret(layout_of(case), case.version, data, 0, len(data)).body) == case.read


@EVERY
def test_the_fast_reader_does_not_take_it(case: Malformed) -> None:
    data = bytes.fromhex(case.hex)
    try:
        _, position = compile_reader(layout_of(case), case.version)(data + bytes(99), 0, len(data))
    except Exception:
        position = -1
    assert (position == len(data)) == (not case.faults)


@EVERY
def test_decode_raises_the_first_fault_that_is_more_than_a_note(case: Malformed) -> None:
    severe = [fault for fault in case.faults if CODES[fault[0]].severity != "note"]
    data = bytes.fromhex(case.hex)
    if not severe:
        assert kshark.decode(case.key, case.version, case.direction, data) == case.read  # type: ignore[arg-type]
        return
    with pytest.raises(DecodeError) as raised:
        kshark.decode(case.key, case.version, case.direction, data)  # type: ignore[arg-type]
    assert (raised.value.code, raised.value.offset, raised.value.path) == severe[0]


@pytest.mark.parametrize("version", [-1, -32768, 99])
def test_a_version_below_zero_or_beyond_all_is_named_and_read_as_the_nearest(version: int) -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(frame(struct.pack(">hhih", 18, 0, 1, -1)))
    tcp.broker(frame(struct.pack(">ihi", 1, 0, 0)))
    nearest = 0 if version < 0 else 4
    header = struct.pack(">hhih", 12, version, 2, -1) + bytes(nearest == 4)
    tcp.client(
        frame(header + kshark.encode(12, nearest, "request", {"group_id": "g", "generation_id": 5, "member_id": "m"}))
    )
    tcp.close()
    message = messages(wire)[-1]
    assert (message.api, message.version, message.weird) == ("Heartbeat", version, ["VERSION_UNKNOWN"])
    assert (message.body.group_id, message.body.generation_id) == ("g", 5)
    with pytest.raises(UsageError, match=f"Heartbeat has versions 0-4, not {version}"):
        kshark.decode(12, version, "request", b"")


def frame(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def messages(wire: Wire) -> list[Message]:
    return [event for page in Engine().pages([batch(wire.packets)]) for event in page if isinstance(event, Message)]
