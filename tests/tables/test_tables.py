"""Tables: every event finds its row, and the rows alone give the events back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark import limits
from kshark.analysis.rules import RULES
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.face import analysed, pages
from kshark.link.disorder import disorder_ns
from kshark.model import Closed, Event, Exchange, Finding, Gap, HalfClosed, Message, Opened, Weird
from kshark.pipeline import Options
from kshark.tables import COMMON, TABLES, Rows
from kshark.tables.captures import capture_names
from kshark.tables.events import events_from_tables
from kshark.tables.fields import session_key
from kshark.tables.types import Array, Struct, parse_type
from tests.analysis.rules.promises.deliveries import acquired_offsets_lay_outside_the_records_of_an_earlier_answer
from tests.analysis.rules.promises.gaps import a_marker_is_accepted, a_record_is_acknowledged_as_a_gap
from tests.conversation import TOPIC, Conversation, events
from tests.copies import cut, doubled, packets_of
from tests.packets import ACK
from tests.shared import CAPTURES
from tests.tables import late, proxied
from tests.thinning import events_of

Tables = dict[str, list[dict[str, Any]]]


def heard_for_minutes(holes: int) -> Conversation:
    """A broker, before anything shows that it is one."""
    talk = Conversation()
    one = talk.connection(host="10.0.1.1", from_syn=False, introduced=False)
    for _ in range(holes):
        one.tcp.broker(b"of an answer")
        one.tcp._send(0, ACK)  # what it acknowledges is not waited for
        talk.pause(60)
        one.tcp.seq[1] += 10
    one.api_versions("4.2")
    return talk


def tables(happened: Iterable[Event | Finding], *, records: bool = False) -> Tables:
    """The rows of every table, by column name."""
    rows = Rows("talk", records=records)
    found: Tables = {name: [] for name in TABLES}
    for event in happened:
        for name, row in rows.feed(event):
            columns = [column.name for column in TABLES[name].columns]
            found[name].append(dict(zip(columns, row, strict=True)))
    return found


def from_capture(name: str, **options: Any) -> list[Event]:
    return [event for page in pages((CAPTURES / name,), Options(**options)) for event in page]


def consumed() -> Conversation:
    """A member joins, acquires, acknowledges, forgets, leaves."""
    talk = Conversation()
    a = talk.member("a")
    acquired = [{"first_offset": 100, "last_offset": 109, "delivery_count": 1}]
    partition = {
        "partition_index": 3,
        "error_code": 0,
        "error_message": None,
        "acknowledge_error_code": 0,
        "acknowledge_error_message": None,
        "current_leader": {"leader_id": -1, "leader_epoch": -1},
        "records": None,
        "acquired_records": acquired,
    }
    answer = {"acquisition_lock_timeout_ms": 30000, "responses": [{"topic_id": TOPIC, "partitions": [partition]}]}
    a.share_fetch(epoch=0, partitions=[3]).answered()
    a.share_fetch(epoch=1).answered(
        **{**answer, "responses": [{"topic_id": TOPIC, "partitions": [{**partition, "records": b""}]}]}
    )
    a.share_fetch(epoch=2, partitions=[3], acks=[(100, 104, 1), (105, 109, 2)], forget=[7]).answered()
    a.share_acknowledge(epoch=3, acks=[(110, 110, 3)], partition=3)
    a.connection.close()
    return talk


def only(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


# -- rows


def test_a_share_consumer_fills_the_tables() -> None:
    found = tables(events(consumed()))

    assert only(found["share_requests"], "api", "epoch", "error_code", "outcome") == [
        ("ShareFetch", 0, 0, "answered"),
        ("ShareFetch", 1, 0, "answered"),
        ("ShareFetch", 2, 0, "answered"),
        ("ShareAcknowledge", 3, None, "unanswered"),
    ]
    assert only(found["share_requests"], "partitions", "forgotten")[2] == ([(TOPIC, 3)], [(TOPIC, 7)])
    assert only(found["acquired"], "partition", "first_offset", "last_offset", "delivery_count", "lock_timeout_ms") == [
        (3, 100, 109, 1, 30000)
    ]
    assert only(found["acknowledgements"], "first_offset", "last_offset", "types", "piggybacked", "error_code") == [
        (100, 104, [1], True, 0),
        (105, 109, [2], True, 0),
        (110, 110, [3], False, None),
    ]
    assert only(found["heartbeats"], "group_type", "member_epoch", "response_member_epoch", "subscribed") == [
        ("share", 0, 1, ["t"])
    ]
    (flow,) = found["flows"]
    assert (flow["software_name"], flow["opened_by"], flow["half_closed_by"], flow["ended"]) == (
        "apache-kafka-java",
        "client",
        "client",
        "fin",
    )


def test_every_exchange_is_a_row_and_every_row_has_the_common_columns() -> None:
    happened = events(consumed())
    found = tables(happened)
    assert len(found["exchanges"]) == sum(isinstance(event, Exchange) for event in happened)
    for name, rows in found.items():
        for row in rows:
            assert list(row)[: len(COMMON)] == [column.name for column in COMMON], name
            assert row["capture"] == "talk"
            assert row["ts"] == row["ts_ns"] // 1000


def test_a_request_and_its_answer_stand_in_one_row() -> None:
    found = tables(events(consumed()))
    fetch = next(row for row in found["exchanges"] if row["api"] == "ShareFetch")
    assert fetch["request_packet"] < fetch["response_packet"]
    assert fetch["packet"] == fetch["request_packet"]
    assert fetch["latency_ns"] == fetch["response_ts_ns"] - fetch["request_ts_ns"]
    assert msgspec.json.decode(fetch["request_json"])["share_session_epoch"] == 0
    assert msgspec.json.decode(fetch["response_json"])["error_code"] == 0


def test_a_request_that_is_never_answered_has_its_row_when_the_connection_ends() -> None:
    found = tables(events(consumed()))
    lost = next(row for row in found["exchanges"] if row["outcome"] == "unanswered")
    assert lost["api"] == "ShareAcknowledge"
    assert lost["response_packet"] is None
    assert lost["given_up_packet"] == found["flows"][0]["closed_packet"]


def test_a_hole_is_a_row_with_its_direction_and_its_packets() -> None:
    talk = Conversation()
    a = talk.member("a")
    lost = a.share_fetch(epoch=0).answered()
    a.share_fetch(epoch=1).answered()
    found = tables(events(talk.without_packets(lost.packets)))
    (gap,) = [row for row in found["weirds"] if row["kind"] == "gap"]
    assert (gap["code"], gap["direction"]) == ("STREAM_GAP", "client")
    assert gap["first_packet"] < lost.packet < gap["last_packet"]
    assert gap["size_bytes"] > 0


def test_what_touches_a_message_is_a_row_beside_it() -> None:
    found = tables(from_capture("adv-frames.pcap"))
    trailing = [row for row in found["weirds"] if row["code"] == "TRAILING_BYTES"]
    assert {row["kind"] for row in trailing} == {"message"}
    beside = {row["correlation_id"] for row in found["exchanges"] if "TRAILING_BYTES" in (row["request_weird"] or ())}
    assert beside == {row["correlation_id"] for row in trailing}


def test_batches_have_rows_and_records_only_when_asked() -> None:
    happened = from_capture("produce-mix.pcap")
    found = tables(happened, records=True)
    assert {row["codec"] for row in found["record_batches"]} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert len(found["records"]) == sum(row["count"] for row in found["record_batches"] if row["magic"] == 2)
    assert any(row["headers"] for row in found["records"])
    assert all('"batches"' not in (row["response_json"] or "") for row in found["exchanges"])
    assert tables(happened)["records"] == []


def test_a_topic_has_its_name_once_the_capture_told_it() -> None:
    found = tables(from_capture("share-java-explicit.pcap", records=False))
    names = {"1vK3aJYjTuqkp-t8-s45jw": "orders", "c-kSVc6hT1-UGTcyE6BeQQ": "cmp"}
    for table in ("acquired", "acknowledgements"):
        assert {(row["topic_id"], row["topic"]) for row in found[table]} == set(names.items()), table


# -- the key


def judged(name: str) -> Tables:
    """The rows of a capture with its findings."""
    told = [
        event
        for page in analysed(pages((CAPTURES / name,), Options(records="headers")))
        for events in page
        for event in events
    ]
    return tables(told)


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["flow_id"], row["exchange"]


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize(
    "name", ["adv-epochs.pcap", "share-loss.pcap", "share-restart.pcap", "produce-mix.pcap", "share-java-renew.pcap"]
)
def test_one_key_joins_every_row_of_an_exchange_to_it(name: str) -> None:
    found = judged(name)
    exchanges = Counter(map(key, found["exchanges"]))
    assert set(exchanges.values()) == {1}
    for table, rows in found.items():
        of_exchanges = [row for row in rows if row["exchange"] is not None]
        assert {exchanges[key(row)] for row in of_exchanges} <= {1}
        assert len(of_exchanges) == len(rows) or table in ("flows", "weirds", "findings")


def test_requests_that_came_in_one_packet_are_told_apart_by_their_correlation_ids() -> None:
    found = judged("adv-frames.pcap")
    exchanges = Counter((*key(row), row["correlation_id"]) for row in found["exchanges"])
    assert set(exchanges.values()) == {1}
    assert len(set(map(key, found["exchanges"]))) < len(exchanges)
    assert {
        exchanges[*key(row), row["correlation_id"]]
        for row in found["weirds"]
        if row["kind"] == "message" and row["exchange"]
    } == {1}


@pytest.mark.parametrize(
    "name", ["adv-epochs.pcap", "adv-sessions-4.2.1.pcap", "adv-races-4.1.2.pcap", "share-restart.pcap"]
)
def test_a_finding_joins_the_share_request_that_it_is_about(name: str) -> None:
    found = judged(name)
    requests = Counter(map(key, found["share_requests"]))
    apis = {key(row): row["api_key"] for row in found["exchanges"]}
    joined = [requests[key(row)] for row in found["findings"] if apis.get(key(row)) in (SHARE_FETCH, SHARE_ACKNOWLEDGE)]
    assert set(joined) == {1}
    others = {"SESSION_NOT_CLOSED", *(rule.code for rule in RULES if rule.weird)}
    assert len(joined) >= sum(row["code"] not in others for row in found["findings"])
    causes = Counter(key(row) for row in found["findings"] if row["cause"] is not None)
    assert {causes[key(row)] for row in found["share_requests"] if row["error_code"] in (122, 123)} == {1}


# -- events


def plainly(happened: Iterable[Event]) -> Iterator[tuple[Any, ...]]:
    """What an analysis can see of events; raw tokens and frames that nobody can tell are no exchanges."""
    for event in happened:
        match event:
            case Message() if event.api_key is msgspec.UNSET and event.kind != "response":
                continue
            case Message() if event.correlation_id is msgspec.UNSET:
                continue
            case Message():
                fields = [
                    (name, getattr(event, name))
                    for name in event.__struct_fields__
                    if name not in ("body", "detail", "client_id")
                ]
                yield "message", fields, plain_body(event.body)
            case Exchange():
                yield (
                    "exchange",
                    event.outcome,
                    event.request and event.request.packet,
                    event.response and event.response.packet,
                )
            case Gap():
                yield (
                    "gap",
                    event.flow.id,
                    event.flow.ends[event.side],
                    event.packet,
                    event.first_packet,
                    event.last_packet,
                    event.reason,
                )
            case Weird():
                yield "weird", event.code, event.packet, event.flow, event.detail, event.times
            case Opened() | HalfClosed() | Closed():
                side = getattr(event, "side", None)
                end = None if side is None else event.flow.ends[side]
                yield (
                    type(event).__name__,
                    event.flow.id,
                    event.packet,
                    event.time_ns,
                    event.flow.client,
                    end,
                    getattr(event, "how", None),
                )


def plain_body(body: Any) -> Any:
    """A body as JSON has it, its records closed."""
    if body is None or body is msgspec.UNSET:
        return None
    told = msgspec.json.encode(body.__dict__ if hasattr(body, "__dict__") else body, enc_hook=vars)
    return without_batches(msgspec.json.decode(told))


def without_batches(value: Any) -> Any:
    match value:
        case {"size": _, "batches": _}:
            return {name: inner for name, inner in value.items() if name in ("size", "spans")}
        case dict():
            return {name: without_batches(inner) for name, inner in value.items()}
        case list():
            return [without_batches(inner) for inner in value]
        case _:
            return value


def assert_same_events(happened: list[Event]) -> None:
    found = tables(happened)
    back = events_from_tables(found["exchanges"], found["flows"], found["weirds"])
    for told, again in zip(plainly(happened), plainly(back), strict=True):
        assert told == again


def test_the_rows_alone_give_the_events_back() -> None:
    assert_same_events(events(consumed()))


@pytest.mark.parametrize("packet", range(3, 24))
def test_also_of_a_capture_with_holes(packet: int) -> None:
    assert_same_events(events(consumed().without_packets([packet, packet + 1])))


def test_also_where_it_was_known_late() -> None:
    assert_same_events(late.told().events())


def test_also_behind_a_proxy() -> None:
    assert_same_events(proxied.told().events())


def test_also_where_rows_name_the_ends_as_they_seemed_to_be() -> None:
    """More was odd than waits for a request, which tells that the broker is the other end."""
    talk = heard_for_minutes(2 * limits.UNNAMED)
    talk.pause(1)
    talk.exchanges[-1].connection.api_versions("4.2")
    happened = events(talk)
    assert len({row["client"] for row in tables(happened)["weirds"] if row["kind"] == "gap"}) == 2
    assert_same_events(happened)


@pytest.mark.parametrize(
    "name",
    [
        "adv-epochs.pcap",
        "adv-sessions-4.2.1.pcap",
        "adv-frames.pcap",
        "share-loss.pcap",
        "share-restart.pcap",
        "tcp-var-missed.pcap",
    ],
)
def test_also_of_real_captures(name: str) -> None:
    assert_same_events(from_capture(name, records=False))


def test_what_the_capture_says_of_itself_comes_back_in_its_place() -> None:
    """Times that run backwards, more and more, and packets captured twice."""
    whole = packets_of(CAPTURES / "adv-races-4.1.2.pcap")
    back_ns = np.zeros(len(whole.number), np.int64)
    back_ns[100::60] = 1_000_000 << np.arange(len(back_ns[100::60]))
    happened = [*events_of(cut(doubled(replace(whole, time_ns=whole.time_ns - back_ns), 10)))]
    assert_same_events(happened)
    found = tables(happened)
    back = [*events_from_tables(found["exchanges"], found["flows"], found["weirds"])]
    for events_told in (happened, back):
        told = [
            disorder_ns(event) for event in events_told if isinstance(event, Weird) and event.code == "TIME_DISORDER"
        ]
        assert len(told) > 3
        assert told == sorted(told)
    (copies,) = [row for row in found["weirds"] if row["code"] == "DUPLICATE_PACKETS"]
    assert (copies["times"], copies["size_bytes"]) == (352, 40_660)


@pytest.mark.sweep
def test_the_tables_alone_give_the_same_findings() -> None:
    from kshark.analysis import Analyzer, in_packet_order

    def findings(happened: Iterable[Event]) -> list[str]:
        analyzer = Analyzer()
        found = [finding for event in happened for finding in analyzer.feed(event)]
        return sorted(map(str, in_packet_order([*found, *analyzer.close()])))

    sessions = (
        "adv-epochs.pcap",
        "adv-sessions-4.2.1.pcap",
        "adv-races-4.1.2.pcap",
        "share-restart.pcap",
        "share-loss.pcap",
    )
    odd = (
        "adv-frames.pcap",
        "hostile-records.pcap",
        "nano-sll2.pcap",
        "security-sasl.pcap",
        "tcp-hostile.pcap",
        "tcp-var-missed.pcap",
    )
    for capture in (*sessions, *odd, "adv-acks.pcap"):
        happened = from_capture(capture, records="checked")
        rows = tables(happened)
        assert findings(happened) == findings(events_from_tables(rows["exchanges"], rows["flows"], rows["weirds"])), (
            capture
        )
    for promise in (
        a_record_is_acknowledged_as_a_gap,
        a_marker_is_accepted,
        acquired_offsets_lay_outside_the_records_of_an_earlier_answer,
    ):
        for opened in ("checked", "headers", True):
            happened = events(promise()[0], Options(records=opened))  # type: ignore[arg-type]
            rows = tables(happened)
            told = findings(events_from_tables(rows["exchanges"], rows["flows"], rows["weirds"]))
            assert told == findings(happened) != []


# -- names and types


def test_captures_are_told_apart_by_as_little_as_that_takes() -> None:
    assert capture_names([["/x/a.pcap"], ["/x/b.pcap"]]) == ["a.pcap", "b.pcap"]
    assert capture_names([["/x/a.pcap"], ["/y/a.pcap"]]) == ["x/a.pcap", "y/a.pcap"]
    assert capture_names([["a.pcap", "b.pcap", "c.pcap"]]) == ["a.pcap+2"]
    assert capture_names([["a.pcap"], ["a.pcap"]]) == ["a.pcap", "a.pcap#2"]
    assert capture_names([["/x/a.pcap"], ["/x/b.pcap"]], {"a.pcap"}) == ["x/a.pcap", "b.pcap"]
    assert capture_names([["a.pcap"], ["a.pcap"]], {"a.pcap", "a.pcap#3"}) == ["a.pcap#2", "a.pcap#4"]
    assert capture_names([["-"]]) == ["-"]


@given(st.lists(st.lists(st.text("ab/", min_size=1, max_size=6), min_size=1, max_size=3), min_size=1, max_size=5))
def test_no_two_captures_have_one_name(captures: list[list[str]]) -> None:
    names = capture_names(captures)
    assert len(set(names)) == len(captures)


def test_a_session_has_one_key_everywhere() -> None:
    assert session_key("10.0.0.9:9092", "g", "m") == session_key("10.0.0.9:9092", "g", "m")
    keys = {session_key(*place) for place in (("a", "b", "c"), ("ab", "", "c"), ("a", "", "bc"), ("a", "b", None))}
    assert len(keys) == 4
    assert all(-(1 << 63) <= key < 1 << 63 for key in keys)


def test_types_are_read_as_spark_writes_them() -> None:
    assert parse_type("bigint") == "bigint"
    assert parse_type("array<string>") == Array("string")
    assert parse_type("struct<a: int, b: array<struct<c: string>>>") == Struct(
        (("a", "int"), ("b", Array(Struct((("c", "string"),)))))
    )


def test_every_table_begins_with_the_common_columns_and_names_none_twice() -> None:
    for table in TABLES.values():
        names = [column.name for column in table.columns]
        assert table.columns[: len(COMMON)] == COMMON
        assert len(set(names)) == len(names), table.name


def test_every_column_says_what_it_is() -> None:
    assert [
        f"{table.name}.{column.name}" for table in TABLES.values() for column in table.columns if len(column.about) < 5
    ] == []


def test_records_are_read_without_their_exchanges() -> None:
    """As `format("kshark")` reads the table records alone."""
    options = Options(records=True, embedded=True)
    every, alone = (
        Rows("c", records=True, columns=columns)
        for columns in (None, {"records": [column.name for column in TABLES["records"].columns]})
    )
    found = []
    for rows in (every, alone):
        blocks = [*(block for page in pages([CAPTURES / "small-zstd.pcap"], options) for block in rows.page(page))]
        found.append([row for name, block in (*blocks, *rows.rest()) if name == "records" for row in block.rows()])
    assert found[0] == found[1] != []
