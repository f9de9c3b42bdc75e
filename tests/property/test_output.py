"""Whatever a body holds, it can be printed: damaged bodies of every API as line, tree, fields and JSON, and counted."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from kshark.analysis.results.statistics import Statistics
from kshark.codec import compile_writer, interpret
from kshark.codec.shapes import shape_of
from kshark.conditions.fields import COMMON, Fields
from kshark.conditions.filter import Filter
from kshark.model import Ends, Exchange, Flow, Message
from kshark.output.fields import fields_lines
from kshark.output.jsonlines import json_lines
from kshark.output.lines import MessageLines
from kshark.output.spans import plain
from kshark.output.tree import Trees
from kshark.records import make_reader
from kshark.registry import Registry
from tests.examples import as_many
from tests.output.messages import NOON_NS
from tests.property.schemas import damaged, values

REGISTRY = Registry()
FLOW = Flow(0, Ends("a:1", "b:2"), 1, 1)
KNOWN = [
    (key, version, kind)
    for key in REGISTRY.names()
    for api in [REGISTRY.api(key)]
    if api is not None
    for version in range(api.versions.low, api.versions.high + 1)
    for kind in ("request", "response")
]
FIELDS = Fields(REGISTRY)
NAMES = [
    *COMMON,
    "kafka.error_code",
    "kafka.partition_index",
    "kafka.group_id",
    "kafka.records.batches.count",
    "kafka.topics",
    "kafka.first_offset",
]


#: Bare names: kafka.request and kafka.response alone mean something else.
FILTERS = {name: Filter(name, FIELDS) for name in NAMES if name not in ("kafka.request", "kafka.response")}


def read(key: int, version: int, kind: str, data: bytes) -> Message:
    """The message as the exact reader leaves it, with the codes of what does not fit."""
    api = REGISTRY.api(key)
    assert api is not None
    records = make_reader(True, True)
    reading = interpret(
        api.request if kind == "request" else api.response, version, data, 0, len(data), records=records
    )
    records.fill()
    codes: Any = [fault.code for fault in reading.faults] or UNSET
    answer = kind == "response"
    return Message(
        7, UNSET, NOON_NS, 0, "a:1", "b:2", kind, key, api.name, version, 1, "c", 5 if answer else UNSET,
        1000 if answer else UNSET,  # type: ignore[arg-type]
        len(data), reading.body, codes,
    )  # fmt: skip


def printed(message: Message) -> None:
    """Every form of output; none of them may fail, or let control characters through."""
    for width in (None, 80):
        assert plain(MessageLines(REGISTRY, width).of(message)).isprintable()
    assert all(plain(line).isprintable() for line in Trees(REGISTRY).of(message))
    assert fields_lines([FIELDS.reader(name) for name in NAMES])([message]).count("\n") == 1
    json.loads(json_lines([message]))
    for name, wanted in FILTERS.items():
        there = any(value is not None and value is not UNSET for value in FIELDS.reader(name)(message))
        assert wanted.passes(message) is there, name


@settings(max_examples=as_many(60))
@given(st.sampled_from(KNOWN), st.binary(max_size=120))
def test_any_bytes_can_be_printed(known: tuple[int, int, str], data: bytes) -> None:
    printed(read(*known, data))


@settings(max_examples=as_many(60))
@given(st.sampled_from(KNOWN), st.data())
def test_whole_and_damaged_bodies_can_be_printed_and_counted(known: tuple[int, int, str], data: st.DataObject) -> None:
    key, version, kind = known
    api = REGISTRY.api(key)
    assert api is not None
    layout = api.request if kind == "request" else api.response
    whole = compile_writer(layout, version)(data.draw(values(shape_of(layout, version))))
    counted = Statistics(REGISTRY)
    for some in (whole, data.draw(damaged(whole))):
        message = read(key, version, kind, some)
        printed(message)
        asked = message if kind == "request" else read(key, version, "request", b"")
        counted.feed(Exchange(asked, message if kind == "response" else None, "answered", FLOW, message.packet))
    counted.summary()
