"""Ranges and shares of a capture, joined again, are the capture: every event in its place, every row, every finding."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kshark import limits
from kshark.analysis import Analyzer
from kshark.api_keys import API_VERSIONS
from kshark.facts import Fact, Facts, Question
from kshark.model import Ends, Event, Exchange, Finding, Flow, Late, Opened, PacketBatch, Weird
from kshark.parallel import segments, sorting
from kshark.pipeline import Engine, Options
from kshark.tables import Rows
from tests.analysis.coordinators import Sender, leader
from tests.analysis.talks import handed, sent, sets, shows
from tests.conversation import SHARE_SESSION_NOT_FOUND, TOPIC, Connection, Conversation
from tests.copies import chosen, cut, merged, packets_of
from tests.packets import ACK, batch, batches
from tests.shared import CAPTURES, sample_of
from tests.shares import Told, as_one, capture_of, in_shares, mapped, reduced

BUNDLED = sorted(CAPTURES.glob("*.pcap*"))
OPTIONS = (Options(records="headers", embedded=True), Options(records=False))


def plainly(event: Event) -> tuple[str, ...]:
    names = getattr(event, "__struct_fields__", None) or event.__slots__
    return (
        type(event).__name__,
        *(f"{name}={_value(getattr(event, name))}" for name in names if name not in ("request", "response")),
    )


def _value(value: object) -> str:
    return str(getattr(value, "id", value))


def by_ports(keys: Any, shares: int) -> Any:
    return ((keys[4] & 0xFFFF) ^ (keys[4] >> 16 & 0xFFFF)).astype(np.int64) % shares


def in_order(told: Told) -> list[tuple[str, ...]]:
    """The events as plain values; what different connections come to with the capture's last packet, or only then, has
    no order."""
    packets = [event.packet for event in told.events]  # type: ignore[union-attr]
    highest, last = [*accumulate(packets, max)], max(packets)
    end = next((at for at in range(len(packets) - 1, -1, -1) if packets[at] == highest[at] < last), -1) + 1
    values = [plainly(event) for event in told.events]
    return values[:end] + sorted(values[end:])


def assert_same(one: Told, other: Told) -> None:
    assert sorted((one.rows - other.rows).elements())[:3] == sorted((other.rows - one.rows).elements())[:3] == []
    assert in_order(other) == in_order(one)
    assert sorted((one.told - other.told).elements())[:3] == sorted((other.told - one.told).elements())[:3] == []
    assert other.findings == one.findings
    assert [*other.outcomes.items()] == [*one.outcomes.items()]
    assert other.observed == one.observed


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", sample_of(BUNDLED, 10, seed=6), ids=lambda path: path.name)
def test_what_is_shared_out_comes_to_the_same(capture: Path) -> None:
    random = Random(capture.name)
    batches = capture_of(capture)
    last = sum(len(item.number) for item in batches if isinstance(item, PacketBatch))
    for options in OPTIONS:
        edges = sorted(random.sample(range(1, last), min(5, last - 1)))
        assert_same(
            as_one(batches, options), in_shares(batches, options, edges, random.choice([1, 2, 3, 5, 16]), random)
        )


DAMAGED = ("share-restart", "share-loss", "adv-epochs", "tcp-hostile", "seed-messy", "security-sasl")


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("seed", [*range(9), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(9, 36))])
def test_losses_copies_and_disorder_change_nothing_about_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_share", by_ports)
    monkeypatch.setattr(sorting, "_BATCH_BYTES", 1 << (seed % 4 * 5))
    random = Random(seed)
    whole = packets_of(CAPTURES / f"{DAMAGED[seed % len(DAMAGED)]}.pcap")
    begin = random.randrange(max(1, len(whole.number) - 3000))
    rows = np.arange(begin, min(len(whole.number), begin + 3000))
    chance = np.random.default_rng(seed)
    match seed % 3:
        case 0:
            damaged = chosen(whole, rows[chance.random(len(rows)) > random.choice([0.01, 0.1, 0.3])])
        case 1:
            damaged = chosen(
                whole, rows[np.argsort(np.arange(len(rows)) + chance.integers(0, random.choice([3, 40]), len(rows)))]
            )
        case _:
            damaged = merged(chosen(whole, rows), random.choice([1000, 5_000_000, -300_000_000]))
    damaged = replace(damaged, number=np.arange(1, len(damaged.number) + 1))
    edges = sorted(random.sample(range(1, len(damaged.number)), 5))
    batches = [*cut(damaged, random.choice([50, 1000]))]
    assert_same(as_one(batches, OPTIONS[seed % 2]), in_shares(batches, OPTIONS[seed % 2], edges, 5, random))


def test_a_share_is_decoded_again_when_another_one_taught_what_it_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP on a port that only another share's connections show to be a broker's."""
    monkeypatch.setattr(segments, "_share", by_ports)
    batches = capture_of(CAPTURES / "tcp-hostile.pcap")
    one = as_one(batches, OPTIONS[1])
    assert "FOREIGN_PROTOCOL" in [event.code for event in one.events if isinstance(event, Weird)]
    assert_same(one, in_shares(batches, OPTIONS[1], [500], 16, Random(1)))
    monkeypatch.setattr(Facts, "changed", lambda *_: False)
    assert in_order(in_shares(batches, OPTIONS[1], [500], 16, Random(1))) != in_order(one)


def wire(talk: Conversation) -> PacketBatch:
    return batch(packet for _, packet in talk.packets())


def goes_down(talk: Conversation, *connections: Connection) -> None:
    for connection in connections:
        connection.tcp.reset(1)
    talk.pause(10)


def test_a_broker_that_went_down_twice_did_so_in_every_bucket() -> None:
    """In between it said nothing that was new, but it answered."""
    talk = Conversation(release="4.1")
    a = talk.member("a")
    other = talk.connection(host="10.0.0.2")
    a.share_fetch(0).answered()
    goes_down(talk, a.connection, other)
    a, other = a.on(talk.connection()), talk.connection(host="10.0.0.2")
    a.share_fetch(0)
    goes_down(talk, a.connection, other)
    a.on(talk.connection()).share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    one = as_one([wire(talk)], OPTIONS[1])
    assert [finding.cause for finding in one.findings if finding.code == "SESSION_UNKNOWN"] == ["broker_restart"]
    assert_same(one, in_shares([wire(talk)], OPTIONS[1], [], 3, Random(1)))


@pytest.mark.parametrize("change", [None, "3000"])
def test_settings_are_known_in_every_bucket(change: str | None) -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    shows(talk.connection(), "share.partition.max.record.locks", 500, group="g")
    if change:
        sets(talk.connection(), "share.partition.max.record.locks", change, group="g")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 599)), acquisition_lock_timeout_ms=30_000)
    b.share_fetch(0, [0]).answered()
    whole = as_one([wire(talk)], OPTIONS[1])
    assert [it.code for it in whole.findings] == ["WINDOW_SATURATED"] * (change is None)
    for seed in range(3):
        assert_same(whole, in_shares([wire(talk)], OPTIONS[1], [], 3, Random(seed)))


def test_what_brokers_say_again_is_told_once() -> None:
    talk = Conversation()
    brokers = "10.0.0.8:9092", "10.0.0.9:9092"
    for at in range(40):
        talk.connection(brokers[at % 3 == 0])
    talk.release = "4.1"
    talk.connection(brokers[0])
    pieces, _, end = mapped(wire(talk), [], 3, Random(1))
    parts = [reduced(each, OPTIONS[1], end, [], 3, Random(1)) for each in pieces]
    common = sorting.numbered([pickle.loads(part.common) for part in parts], [])
    answers = [event.response for _, event in common if isinstance(event, Exchange)]
    said = [answer.broker for answer in answers if answer is not None and answer.api_key == API_VERSIONS]
    assert said == [brokers[1], brokers[0], brokers[0]]
    assert len(answers) == 41 + len(said), "each connection was answered"


def test_a_write_of_states_that_nobody_can_read_may_have_been_any_groups() -> None:
    """Which Writes were open when the broker's bytes ended is not known of any group, in no bucket."""
    talk = Conversation()
    one = talk.connection(introduced=False)
    for group in "abcdefgh":
        Sender(one, group=group).write(5)
    sent(one, 85, 1, b"\0no group")
    one.reset()
    whole = as_one([wire(talk)], OPTIONS[1])
    unreadable = (
        "WriteShareGroupState with correlation id 9 in packet 12 was open when the client closed the connection "
        "(packet 13)"
    )
    assert [finding.argument for finding in whole.findings if finding.code == "REQUEST_UNANSWERED"] == [unreadable]
    for seed in range(3):
        assert_same(whole, in_shares([wire(talk)], OPTIONS[1], [], 3, Random(seed)))


@pytest.mark.parametrize(("release", "verdict"), [("4.3", "violation"), ("4.4", "note")])
def test_which_release_a_coordinator_is_of_is_known_to_all(release: str, verdict: str) -> None:
    """By all that its answer to ApiVersions tells."""
    talk = Conversation(release=release)
    leaders = [leader(talk, group=group) for group in "abcdefgh"]
    for start in (100, 90):
        for one in leaders:
            one.write(start).accepted()
    whole = as_one([wire(talk)], OPTIONS[1])
    assert [(finding.code, finding.verdict) for finding in whole.findings] == [
        ("START_OFFSET_REGRESSION", verdict)
    ] * len(leaders)
    for seed in range(3):
        assert_same(whole, in_shares([wire(talk)], OPTIONS[1], [], 3, Random(seed)))


@pytest.mark.parametrize("holes", [4, 2 * limits.UNNAMED])
def test_which_end_is_the_client_a_row_tells_alike_however_packets_come(holes: int) -> None:
    talk = heard_for_minutes(holes)
    packets = [packet for _, packet in talk.packets()]
    whole = as_one([wire(talk)], OPTIONS[1])
    assert_same(whole, as_one(batches(packets, [1] * len(packets)), OPTIONS[1]))
    assert_same(whole, in_shares([wire(talk)], OPTIONS[1], [], 3, Random(1)))


def heard_for_minutes(holes: int) -> Conversation:
    """A broker, before anything told that it is one."""
    talk = Conversation()
    one = talk.connection(host="10.0.1.1", from_syn=False, introduced=False)
    for _ in range(holes):
        one.tcp.broker(b"of an answer")
        one.tcp._send(0, ACK)  # what it acknowledges is not waited for
        talk.pause(60)
        one.tcp.seq[1] += 10
    one.api_versions("4.2")
    return talk


def test_whose_holes_these_are_is_judged_alike_however_packets_come() -> None:
    """Another connection of the member's host is heard from the middle, the broker first: what the member asked may
    have been there."""
    talk = Conversation()
    member = talk.member("a", connection=talk.connection(host="10.0.1.1"))
    member.share_fetch(0).answered()
    one = talk.connection(host="10.0.1.1", from_syn=False, introduced=False)
    one.tcp.broker(b"of an answer")
    talk.pause(60)
    member.share_fetch(1).answered()
    one.api_versions("4.2")
    one.tcp.client(b"of a request")
    one.tcp.seq[0] += 10
    one.api_versions("4.2")
    talk.pause(2)
    member.share_fetch(5).answered()
    packets = [packet for _, packet in talk.packets()]
    judged = []
    for sizes in ([1] * len(packets), [len(packets)]):
        analyzer, found = Analyzer(), list[Finding]()
        for page in Engine(OPTIONS[1]).pages(batches(packets, sizes)):
            found += analyzer.page(page)
        judged.append(sorted(map(str, [*found, *analyzer.close()])))
    assert judged[0] == judged[1]


def test_what_was_known_late_has_the_names_that_others_taught_by_then() -> None:
    """An exchange of packet 6 that stands in the time line at packet 20; another connection told the topic's name in
    packet 10."""
    rows, flow = Rows("c", asking=True), Flow(0, Ends("10.0.0.1:50000", "10.0.0.9:9092"), 1, 0)
    rows.names.add_facts([Fact("topic", TOPIC, "r", 10)])
    assert [*rows.page([Opened(flow, 1, 0), Late(0, 5, 20)])] == []
    rows.names.reach(6)
    assert rows.names.topic(TOPIC) == "r"
    assert [*rows.names.asked] == [Question("topic", TOPIC, "r", 21, 21)]


@pytest.mark.parametrize("also_early", [False, True])
def test_a_name_that_is_told_late_is_not_known_before(monkeypatch: pytest.MonkeyPatch, also_early: bool) -> None:
    """Metadata of packet 19 stands at packet 24; in between records are handed out, and another connection may tell
    another name."""
    monkeypatch.setattr(segments, "_share", by_ports)
    talk = told_late(also_early=also_early)
    whole = as_one([wire(talk)], OPTIONS[1])
    assert [event.packet for event in whole.events if isinstance(event, Late)] == [24]
    assert_same(whole, in_shares([wire(talk)], OPTIONS[1], [], 16, Random(1)))


def told_late(*, also_early: bool) -> Conversation:
    talk = Conversation()
    holed, other = talk.connection(host="10.0.0.2"), talk.connection(host="10.0.0.3")
    member = talk.member("a", connection=talk.connection())
    asked = holed.ask(3, "Metadata", 12, {"topics": None})
    holed.tcp.seq[1] += 10
    asked.answered(None, topics=[{"name": "late", "topic_id": TOPIC}])
    talk.pause(1)
    member.share_fetch(0, [0]).answered(responses=handed((0, 1, 5)))
    if also_early:
        other.ask(3, "Metadata", 12, {"topics": None}).answered(None, topics=[{"name": "early", "topic_id": TOPIC}])
    else:
        other.api_versions("4.2")
    for _ in range(2):  # what it acknowledges is not waited for
        holed.tcp._send(0, ACK)
        talk.pause(1)
    member.share_fetch(1, [0], acks=[(7, 9, 1)]).answered(acks={0: 121}, responses=handed((0, 10, 12)))
    return talk
