"""Every API, in every version: the bytes that the writer makes are read by the compiled reader and by the interpreter,
with the same value."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kshark.codec import compile_reader, compile_writer, interpret, plain
from kshark.codec.shapes import shape_of
from tests.dissectors.schema_rows import WRITTEN, dissector, span
from tests.examples import as_many
from tests.property.schemas import values


@pytest.mark.sweep(quick=8)
@pytest.mark.parametrize("key", sorted(WRITTEN))
@settings(max_examples=as_many(2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_all_readers_agree_on_what_was_written(key: int, data: st.DataObject) -> None:
    for layout in (dissector(key).request, dissector(key).response):
        for version in span(layout.versions):
            value = data.draw(values(shape_of(layout, version), longest=1))
            written = compile_writer(layout, version)(value)
            body, position = compile_reader(layout, version)(written, 0, len(written))
            assert (plain(body), position) == (value, len(written)), f"{layout.name} {version}"
            assert compile_writer(layout, version)(body) == written
            reading = interpret(layout, version, written, 0, len(written))
            assert (reading.body, reading.position, reading.faults) == (body, len(written), ())
