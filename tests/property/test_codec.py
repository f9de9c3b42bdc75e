"""The compiled reader, the interpreter and the writer hold each other: over random schemas, random values, and bytes
after accidents."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kshark.anomaly import CATALOGUE
from kshark.codec import Reader, compile_reader, compile_writer, interpret, plain
from kshark.codec.shapes import shape_of
from kshark.schema import Layout
from tests.examples import as_many
from tests.property.schemas import VERSIONS, damaged, layouts, values

FEW = settings(max_examples=as_many(40), suppress_health_check=list(HealthCheck))


def in_traffic(
    data: bytes, before: bytes = b"\x00\x01\xff", behind: bytes = b"\x01\x00\x00\x00\x05\xff\x7f\x00\x02"
) -> tuple[bytes, int, int]:
    """A body between other bytes, as in a buffer of many messages; where it starts and ends."""
    return before + data + behind * 3, len(before), len(before) + len(data)


def assert_safe(layout: Layout, version: int, read: Reader, data: bytes) -> bool:
    """Where the compiled reader ends at the end, the interpreter found nothing wrong and read the same. Returns whether
    it did."""
    buffer, start, end = in_traffic(data)
    reading = interpret(layout, version, buffer, start, end)
    assert start <= reading.position <= end
    assert all(fault.code in CATALOGUE for fault in reading.faults)
    assert not any(fault.fatal for fault in reading.faults[:-1])
    msgspec.json.encode(reading.body)
    try:
        body, position = read(buffer, start, end)
    except Exception:
        return False
    if position != end:
        return False
    assert not reading.faults
    assert repr(reading.body) == repr(body)  # by text, since no NaN equals another
    return True


@FEW
@given(st.data(), layouts(), st.sampled_from(VERSIONS))
def test_what_was_written_is_read_by_both_readers(data: st.DataObject, layout: Layout, version: int) -> None:
    value: dict[str, Any] = data.draw(values(shape_of(layout, version)))
    written = compile_writer(layout, version)(value)
    buffer, start, end = in_traffic(written)

    body, position = compile_reader(layout, version)(buffer, start, end)
    assert position == end
    assert compile_reader(layout, version)(buffer, start) == (body, end)
    assert plain(body) == value
    assert compile_writer(layout, version)(body) == written
    reading = interpret(layout, version, buffer, start, end)
    assert (reading.body, reading.position, reading.faults) == (body, end, ())


@FEW
@given(st.data(), layouts(), st.sampled_from(VERSIONS))
def test_damaged_bytes_never_pass_as_whole_ones(data: st.DataObject, layout: Layout, version: int) -> None:
    written = compile_writer(layout, version)(data.draw(values(shape_of(layout, version), longest=2)))
    read = compile_reader(layout, version)
    assert_safe(layout, version, read, data.draw(damaged(written)))
    for at in range(min(len(written), 60)):
        for byte in (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, (written[at] + 1) & 0xFF):
            other = written[:at] + bytes([byte]) + written[at + 1 :]
            event("read all the same" if assert_safe(layout, version, read, other) else "refused")


@FEW
@given(layouts(), st.sampled_from(VERSIONS), st.lists(st.binary(max_size=60), min_size=1, max_size=8))
def test_noise_never_passes_as_a_message(layout: Layout, version: int, noises: list[bytes]) -> None:
    read = compile_reader(layout, version)
    for noise in noises:
        assert_safe(layout, version, read, noise)


@FEW
@given(st.data(), layouts(), st.sampled_from(VERSIONS))
def test_a_body_cut_short_keeps_what_was_read(data: st.DataObject, layout: Layout, version: int) -> None:
    value = data.draw(values(shape_of(layout, version)))
    written = compile_writer(layout, version)(value)
    end = data.draw(st.integers(0, len(written)))
    reading = interpret(layout, version, written[:end], 0, end)

    assert bool(reading.faults) == (end < len(written))
    if reading.faults:
        assert reading.faults[-1].fatal
    first = shape_of(layout, version).slots[:1]
    broken = reading.faults[-1].path.partition(".")[0].partition("[")[0] if reading.faults else ""
    if first and end == len(written) - 1 and len(written) > 1 and broken != first[0].name:
        assert getattr(reading.body, first[0].name) is not msgspec.UNSET
