"""Holes, damage, any batches and hostile bytes under TLS: what is read was said, what is not read is counted, nothing
is made up."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import asdict

from kshark import limits
from kshark.analysis import Analyzer
from kshark.model import Closed, Event, Gap, HalfClosed, Message, Opened, Weird
from kshark.pipeline import Engine, Options
from kshark.snapshot import load, save
from tests.conversation import TOPIC, Conversation, Member, Thinned, registry
from tests.packets import Packet, Tcp, batch
from tests.tls.speaking import TLS_12, TLS_13, Secrets, connection
from tests.tls.test_handshakes import flows, messages, session, told, weirds

WAYS: dict[str, dict[str, Any]] = {
    "1.3": {},
    "1.2": {"version": TLS_12},
    "1.2 CBC": {"version": TLS_12, "ciphers": "ECDHE-ECDSA-AES256-SHA"},
}


def plain(found: list[Event]) -> list[Any]:
    """Events as values that can be compared."""
    return [
        (
            type(event).__name__,
            repr(asdict(event)) if isinstance(event, Message | Weird) else None,
            (event.packet, event.flow.id, event.flow.tls)
            if isinstance(event, Gap | Opened | HalfClosed | Closed)
            else None,
        )
        for event in found
    ]


def said(found: list[Event]) -> Counter[tuple[Any, ...]]:
    """Messages by what they are; where they were found may be later behind a hole."""
    return Counter((it.kind, it.correlation_id, it.size) for it in messages(found))


def keyed(secrets: Secrets) -> Options:
    return Options(records=False, tls_keys=secrets.text)


@pytest.fixture(scope="module", params=WAYS)
def talked(request: pytest.FixtureRequest) -> tuple[Conversation, Secrets]:
    talk, secrets = Conversation(), Secrets()
    session(talk, secrets, **WAYS[request.param])
    return talk, secrets


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_batches_make_no_difference(talked: tuple[Conversation, Secrets], size: int) -> None:
    talk, secrets = talked
    assert plain(told(talk, secrets, size)) == plain(told(talk, secrets))
    assert plain(told(talk, secrets, exact=True)) == plain(told(talk, secrets))


def small_segments(mss: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("client", "broker"):
        whole = getattr(Tcp, name)
        monkeypatch.setattr(Tcp, name, lambda self, data, whole=whole: whole(self, data, mss=mss))


@pytest.mark.parametrize("mss", [2, 17])
def test_segments_make_no_difference(mss: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_segments(mss, monkeypatch)
    talk, secrets = Conversation(), Secrets()
    connection(talk, secrets).close()
    for size in (1, 5, 1_000_000):
        found = told(talk, secrets, size)
        assert [it.packet for it in messages(found)] == [
            talk.exchanges[0].packets[-1],
            talk.exchanges[0].answer_packets[-1],
        ]
        assert weirds(found) == []


@pytest.mark.sweep(quick=1)
def test_any_packet_may_be_missing(talked: tuple[Conversation, Secrets]) -> None:
    """What is read is a part of what was said; behind the handshake it is all but what the hole hit, and nobody is
    accused."""
    talk, secrets = talked
    whole, behind = said(told(talk, secrets)), talk.exchanges[0].packets[0]
    for number, _ in talk.packets():
        thinned = talk.without_packets([number])
        found = told(thinned, secrets)
        assert not said(found) - whole
        if number > behind:
            assert (whole - said(found)).total() <= 3, number
        accounted(found)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("mss", [200, 1460])
@pytest.mark.parametrize("way", WAYS)
def test_batches_make_no_difference_to_holes_in_what_is_not_read(
    way: str, mss: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments(mss, monkeypatch)
    talk, secrets = Conversation(), Secrets()
    made = connection(talk, secrets, **WAYS[way])
    for _ in range(3):
        talk.pause(1)
        made.api_versions(talk.release)
    made.close()
    for number, _ in talk.packets():
        thinned = talk.without_packets([number])
        for size in (1, 9):
            assert plain(told(thinned, None, size)) == plain(told(thinned, None)), number


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_hole_counts_before_what_the_other_side_said_behind_it(way: str, has_keys: bool) -> None:
    """It is known late: bytes that end the reading meanwhile, since they are no TLS, stand behind it all the same."""
    talk, secrets = Conversation(), Secrets()
    made = connection(talk, secrets, **WAYS[way])
    made.api_versions(talk.release)
    tcp: Tcp = made.tcp.tcp  # type: ignore[attr-defined]
    (lost,) = tcp.broker(b"\x17\x03\x03\x01\x00" + bytes(256))
    tcp.broker(b"\x17\x03\x03\x00\x80" + bytes(128))
    (garbage,) = tcp.client(b"GET / HTTP/1.1")
    talk.pause(1)
    tcp.broker(b"\x17\x03\x03\x00\x80" + bytes(128))
    left, keys = talk.without_packets([lost]), secrets if has_keys else None
    whole = plain(told(left, keys))
    for size in range(1, garbage + 1):
        assert plain(told(left, keys, size)) == whole, size


@pytest.mark.sweep(quick=1)
def test_any_run_of_packets_may_be_missing(talked: tuple[Conversation, Secrets]) -> None:
    talk, secrets = talked
    whole, random, count = said(told(talk, secrets)), Random(3), len(talk.packets())
    for _ in range(20):
        first = random.randrange(1, count)
        thinned = talk.without_packets(range(first, first + random.randrange(2, 60)))
        found = told(thinned, secrets)
        assert not said(found) - whole
        assert plain(told(thinned, secrets, random.randrange(1, 9))) == plain(found)
        accounted(found)


def accounted(found: list[Event]) -> None:
    """What was inside and what was not decrypted are no more than what was sent."""
    for flow in flows(found):
        assert flow.tls is None or all(
            a + b <= c for a, b, c in zip(flow.tls.content, flow.tls.unread, flow.stream_bytes, strict=True)
        )


def test_a_hole_of_many_records_is_passed_by_their_numbers() -> None:
    for version in (TLS_12, TLS_13):
        talk, secrets = Conversation(), Secrets()
        a = Member(connection(talk, secrets, version), "g", "a".ljust(22, "A"))
        asked = [a.share_fetch(epoch).answered() for epoch in range(300)]
        lost = talk.without_packets([number for each in asked[20:280] for number in each.all_packets])
        found = told(lost, secrets)
        assert len(messages(found)) >= 2 * 39
        assert {code for code, _ in weirds(found)} <= {"BYTES_SKIPPED", "TLS_UNREAD", "SILENCE_UNPROVED"}


def test_more_records_than_are_tried_end_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TLS_LOST_RECORDS", 4)
    monkeypatch.setattr(limits, "TLS_TRIES", 100)
    talk, secrets = Conversation(), Secrets()
    a = Member(connection(talk, secrets), "g", "a".ljust(22, "A"))
    asked = [a.share_fetch(epoch).answered() for epoch in range(60)]
    a.connection.close()
    found = told(talk.without_packets([number for each in asked[5:20] for number in each.all_packets]), secrets)
    assert len(messages(found)) == 12
    assert [detail.partition(":")[0] for code, detail in weirds(found) if code == "TLS_UNREAD"] == [
        "no record was found again after a gap"
    ]
    (flow,) = flows(found)
    assert flow.tls is not None
    assert min(flow.tls.unread) > 1000


def test_a_damaged_record_costs_what_was_in_it(talked: tuple[Conversation, Secrets]) -> None:
    talk, secrets = talked
    whole = told(talk, secrets)
    rows = talk.packets()
    for asked in talk.exchanges[1:]:
        ((number, packet),) = [(n, p) for n, p in rows if n == asked.packets[0]]
        data = packet.data[:-1] + bytes((packet.data[-1] ^ 1,))
        found = told(
            Thinned([(n, Packet(p.time_ns, data, p.wire_length) if n == number else p) for n, p in rows]), secrets
        )
        missing = said(whole) - said(found)
        assert 1 <= missing.total() <= 3
        assert any(isinstance(event, Gap) and event.reason == "undecrypted" for event in found)
        (detail,) = [detail for code, detail in weirds(found) if code == "TLS_UNREAD"]
        assert detail.startswith("records of which a part is missing")


@pytest.mark.parametrize("late", [5, 9, 20, 60])
def test_secrets_may_come_behind_what_they_open(talked: tuple[Conversation, Secrets], late: int) -> None:
    """Who catches secrets while a capture is written is a moment late; what waited counts as complete when they
    came."""
    talk, secrets = talked
    rows = talk.packets()
    parts = [batch([p for _, p in rows[:late]]), batch([p for _, p in rows[late:]], late + 1)]
    parts[1].secrets = secrets.text
    found = [event for page in Engine(Options(records=False), registry()).pages(parts) for event in page]
    assert said(found) == said(told(talk, secrets))
    assert all(
        it.packet > late or it.packet == one.packet
        for it, one in zip(messages(found), messages(told(talk, secrets)), strict=True)
    )
    assert weirds(found) == []


@pytest.mark.sweep
def test_hostile_bytes_end_in_no_traceback() -> None:
    talk, secrets = Conversation(), Secrets()
    session(talk, secrets)
    rows, random = talk.packets(), Random(7)
    whole = said(told(talk, secrets))
    for _ in range(150):
        changed = dict(rows)
        for _ in range(random.randrange(1, 6)):
            number = random.choice(rows)[0]
            data = bytearray(changed[number].data)
            if len(data) > 54:
                at = (
                    random.randrange(54, len(data))
                    if random.random() < 0.5
                    else min(54 + random.randrange(60), len(data) - 1)
                )
                data[at] = random.randrange(256)
                changed[number] = Packet(changed[number].time_ns, bytes(data), len(data))
        found = told(Thinned([*changed.items()]), secrets)
        assert not said(found) - whole
        accounted(found)


def test_nobody_is_accused_of_what_was_not_decrypted(talked: tuple[Conversation, Secrets]) -> None:
    talk, secrets = talked
    for number, _ in talk.packets()[::5]:
        analyzer = Analyzer()
        judged = [it for event in told(talk.without_packets([number]), secrets) for it in analyzer.feed(event)]
        assert [finding for finding in (*judged, *analyzer.close()) if finding.verdict == "violation"] == []


def test_bytes_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that announce records and never end them."""
    monkeypatch.setattr(limits, "TLS_HELD_BYTES", 100_000)
    talk = Conversation()
    for _ in range(40):
        tcp = talk.connection(introduced=False).tcp
        tcp.client(b"\x16\x03\x01\x40\x00\x01\x00\xff\xf0" + bytes(9_000))
    engine = Engine(registry=registry())
    for _, packet in talk.packets():
        for _ in engine.feed(batch([packet])):
            pass
    stage: Any = engine.front.tls
    assert stage._held == sum(each.memory for each in stage._connections.values()) <= 100_000


def test_the_state_is_put_away_and_taken_up_again(talked: tuple[Conversation, Secrets]) -> None:
    talk, secrets = talked
    rows = talk.packets()
    for cut in range(1, len(rows), 9):
        engine = Engine(keyed(secrets), registry())
        found = [event for page in engine.feed(batch([p for _, p in rows[:cut]])) for event in page]
        (engine,) = load(save(engine), registry())
        found += [event for page in engine.feed(batch([p for _, p in rows[cut:]], cut + 1)) for event in page]
        found += [event for page in engine.close() for event in page]
        assert said(found) == said(told(talk, secrets))


def test_an_answer_below_a_hole_in_one_long_record_is_all_that_is_lost() -> None:
    """The record's length is known, so the next one's place and number are."""
    talk, secrets = Conversation(), Secrets()
    a = Member(connection(talk, secrets), "g", "a".ljust(22, "A"))
    answer = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "records": bytes(14_000)}]}]
    long = a.share_fetch(0, [0]).answered(responses=answer)
    after = [a.share_fetch(epoch).answered() for epoch in range(1, 9)]
    found = told(talk.without_packets(long.answer_packets[3:5]), secrets)
    read = {it.packet for it in messages(found) if it.kind == "response"}
    assert long.answer_packets[-1] not in read
    assert {each.answer_packets[-1] for each in after} <= read
