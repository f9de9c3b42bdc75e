"""What few captures show in the tables: answers of requests unseen, limits, several captures, blocks, signs of what was
not given."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from kshark import limits
from kshark.model import Closed, Exchange, Finding, HalfClosed, Message, Opened, Weird
from kshark.tables import TABLES, Rows, exchanges, pending
from kshark.tables.bodies import Bodies
from kshark.tables.events import (
    course_of,
    flow_of,
    messages_of,
    of_exchange,
    of_flow,
    sign_before_orphan,
    signs_of_flow,
)
from kshark.tables.names import Names
from tests.embedding import exchange, messages
from tests.packets import Tcp, Wire
from tests.tables import connection
from tests.tables.story import BROKER, TOPIC, Story
from tests.tables.test_tables import only, tables

FINDING = Finding("EPOCH_REPLAY", 18, "error", "violation", "client", 0, 9, 0, "b:1", "c:2", *[None] * 5, [], "", None)  # type: ignore[arg-type]


def of_story(story: Story) -> dict[str, list[dict[str, Any]]]:
    return tables(story.events())


# -- connections


def test_an_answer_whose_request_nobody_saw_is_not_the_first_one() -> None:
    story = Story(missed=(4,))
    story.ask(3, 1, topics=None)
    story.answer(3, 1)
    for _ in range(3):
        story.ask(3, 1, topics=None)
        story.answer(3, 1)
    (flow,) = of_story(story)["flows"]
    assert (flow["first_request_packet"], flow["last_request_packet"], flow["first_response_packet"]) == (6, 10, 7)


def test_a_frame_that_nobody_can_tell_counts_as_a_request() -> None:
    """It shows the connection alive; what it is stands in `weirds`."""
    story = Story()
    story.ask(17, 0, mechanism="PLAIN")
    story.answer(17, 0, mechanisms=["PLAIN"])
    story.tcp.client(b"\0\0\0\4user")
    story.tcp.broker(b"\0\0\0\0")
    found = of_story(story)
    assert only(found["flows"], "first_request_packet", "last_request_packet", "first_response_packet") == [(4, 6, 5)]
    assert only(found["weirds"], "packet", "code", "direction", "kind", "position") == [
        (6, "RAW_TOKEN", "client", "message", None),
        (7, "RAW_TOKEN", "broker", "message", None),
    ]


def test_the_request_that_made_them_too_many_tells_that_the_first_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what comes next on the connection, which is a hole two packets later."""
    monkeypatch.setattr(limits, "OPEN_BYTES", 1)
    story = Story(missed=(6,))
    for mss in (99, 99, 99, 10, 99, 99):
        story.ask(3, 1, mss=mss, topics=None)
    found = of_story(story)
    assert [row["packet"] for row in found["weirds"] if row["kind"] == "gap"] == [7]
    assert found["exchanges"][0]["given_up_packet"] == found["exchanges"][1]["request_packet"] == 5


# -- several captures


def test_connections_of_the_capture_before_are_not_those_of_the_next() -> None:
    rows = Rows("a.pcap")
    for event in connection.told().events():
        list(rows.feed(event))
    rows.begin("b.pcap")
    for event, flow_id in ((FINDING, None), (Weird("NOT_KAFKA", "framing", 1, 0, flow=0), None)):
        ((_, row),) = rows.feed(event)
        assert row[:2] == ("b.pcap", flow_id)


@pytest.mark.parametrize(("flow", "flow_id"), [(0, "talk:1"), (1, None), (-1, None), (99, None)])
def test_findings_and_oddities_of_connections_that_are_over_still_name_them(flow: int, flow_id: str | None) -> None:
    rows = Rows("talk")
    for event in connection.told().events():
        list(rows.feed(event))
    FINDING.flow = flow
    ((_, found),) = rows.feed(FINDING)
    ((_, odd),) = rows.feed(Weird("NOT_KAFKA", "framing", 99, 0, "late", flow))
    assert (found[1], odd[1]) == (flow_id, flow_id)
    columns = [column.name for column in TABLES["weirds"].columns]
    told = dict(zip(columns, odd, strict=True))
    assert (told["broker"], told["direction"], told["position"]) == (None, None, None)


# -- names


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.9", "10.0.0.9:9092"),
        ("localhost", "127.0.0.1:9092"),
        ("fd00::9", "[fd00::9]:9092"),
        ("b.example", "b.example:9092"),
    ],
)
def test_a_broker_is_known_by_the_address_that_metadata_names(host: str, address: str) -> None:
    names = told_by_metadata(brokers=[{"node_id": 7, "host": host, "port": 9092}])
    assert names.node(address) == (7, f"{host}:9092")
    assert names.node("10.0.0.8:9092") is None


def test_brokers_beyond_the_limit_stay_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BROKERS", 2)
    names = told_by_metadata(brokers=[{"node_id": port, "host": "h", "port": port} for port in (1, 2, 3)])
    assert [names.node(f"h:{port}") is not None for port in (1, 2, 3)] == [True, True, False]


def test_a_topic_has_no_name_before_it_is_told() -> None:
    names = told_by_metadata(topics=[{"name": "orders", "topic_id": TOPIC, "partitions": []}])
    assert [names.topic(topic_id) for topic_id in (TOPIC, "AAAAAAAAAAAAAAAAAAAACA", "", None)] == [
        "orders",
        None,
        None,
        None,
    ]
    assert Names().topic(TOPIC) is None


def test_only_bodies_that_can_tell_are_looked_into() -> None:
    names = told_by_metadata(topics=[])
    assert {kind.__name__ for kind in names.silent} >= {"NoneType"}
    assert not any("Metadata" in kind.__qualname__ and "response" in kind.__qualname__.lower() for kind in names.silent)


def told_by_metadata(**fields: Any) -> Names:
    wire = Wire()
    exchange(Tcp(wire).open(), 3, 12, {"topics": None}, fields)
    names = Names()
    for message in messages(wire, embedded=False):
        names.learn(message)
    return names


# -- blocks


def many(count: int) -> Story:
    story = Story()
    for _ in range(count):
        story.ask(3, 1, topics=None)
        story.answer(3, 1)
    return story


def blocks(story: Story) -> list[list[int]]:
    """Request packets of each block of `exchanges`."""
    rows = Rows("talk")
    out = [block for event in story.events() for block in rows.page((event,))] + list(rows.rest())
    at = [column.name for column in TABLES["exchanges"].columns].index("request_packet")
    return [[row[at] for row in block.rows()] for name, block in out if name == "exchanges"]


def test_long_messages_fill_a_block_and_each_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request and its answer have 16 bytes each, without their lengths: the fourth exchange makes it more than a
    hundred."""
    monkeypatch.setattr(pending, "BYTES", 100)
    assert [event.size for event in many(1).events() if isinstance(event, Message)] == [16, 16]
    assert [len(packets) for packets in blocks(many(9))] == [4, 4, 1]


def test_many_exchanges_fill_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "ROWS", 3)
    assert [len(packets) for packets in blocks(many(7))] == [3, 3, 1]


def test_exchanges_too_long_for_one_block_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "BYTES", 70)
    assert blocks(many(9)) == [[4, 6], [8, 10], [12, 14], [16], [18, 20]]


# -- signs


def test_of_a_connection_without_its_exchanges_the_signs_of_life_remain() -> None:
    """The orphan is given, the others are not: first and last request, first answer, and the last request before the
    orphan."""
    found = of_story(connection.told())
    bodies = Bodies()
    (row,) = found["flows"]
    flow, course = flow_of(0, row), course_of(row)
    placed = [*of_flow(row, flow, course), *signs_of_flow(row, flow)]
    for row in found["exchanges"]:
        if row["outcome"] == "orphan":
            placed += sign_before_orphan(row, flow, course)
            placed += of_exchange(row, messages_of(row, flow, bodies), flow, course)
    told = [event for _, event in sorted(placed, key=lambda one: one[0])]

    def shown(event: Any) -> tuple[Any, ...]:
        match event:
            case Message():
                return event.kind, event.packet, event.api, event.broker
            case Exchange():
                return event.outcome, event.request and event.request.packet, event.response and event.response.packet
            case _:
                return type(event), event.packet

    assert [shown(event) for event in told] == [
        (Opened, 1),
        ("request", 4, UNSET, BROKER),
        ("answered", 5, 5),
        ("request", 9, UNSET, BROKER),
        ("response", 13, UNSET, BROKER),
        ("orphan", None, 13),
        ("request", 15, UNSET, BROKER),
        (HalfClosed, 16),
        (Closed, 17),
    ]
