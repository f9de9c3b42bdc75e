"""Brokers: their releases, their addresses, and when they go down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kshark import limits
from kshark.analysis.facts.brokers import Broker, Brokers, Restart
from kshark.analysis.facts.holes import Hole
from kshark.analysis.facts.releases import ANY_RELEASE, Release
from kshark.model import Message
from tests.analysis.plain import BROKER, end
from tests.analysis.talks import broker_closes, caused, metadata, opened
from tests.conversation import (
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_NOT_FOUND,
    Conversation,
    note,
    unknown,
    violation,
)


def test_two_addresses_of_one_node_are_one_broker() -> None:
    talk = Conversation()
    inside, outside = talk.connection(broker="10.0.0.9:9092"), talk.connection(broker="10.0.0.9:9093")
    metadata(inside, {1: "10.0.0.9:9092"})
    metadata(outside, {1: "10.0.0.9:9093"})
    a = opened(talk, 2, connection=inside)
    late = a.on(outside).share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    a.on(outside).heartbeat(1).given(1)
    assert caused(talk) == [violation("EPOCH_SKIP_AHEAD", late, cause="skip_ahead")]


def test_two_nodes_are_two_brokers() -> None:
    talk = Conversation()
    one, two = talk.connection(broker="10.0.0.9:9092"), talk.connection(broker="10.0.0.8:9092")
    metadata(one, {1: "10.0.0.9:9092", 2: "10.0.0.8:9092"})
    a = talk.member("a", connection=one)
    a.on(two).share_fetch(0).answered()
    wrong = a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [note("SESSION_UNKNOWN", wrong, cause="never_opened")]


def test_nodes_of_two_clusters_are_not_one_broker() -> None:
    talk = Conversation()
    one, two = talk.connection(broker="10.0.0.9:9092"), talk.connection(broker="10.0.0.8:9092")
    metadata(one, {1: "10.0.0.9:9092"}, cluster="c")
    metadata(two, {1: "10.0.0.8:9092"}, cluster="d")
    a = talk.member("a", connection=one)
    a.on(two).share_fetch(0).answered()
    wrong = a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [note("SESSION_UNKNOWN", wrong, cause="never_opened")]


def test_two_sessions_that_turn_out_to_be_one_are_known_of_neither() -> None:
    talk = Conversation()
    inside, outside = talk.connection(broker="10.0.0.9:9092"), talk.connection(broker="10.0.0.9:9093")
    a = opened(talk, 2, connection=inside)
    a.on(outside).share_fetch(3).answered()
    metadata(inside, {1: "10.0.0.9:9092"})
    metadata(outside, {1: "10.0.0.9:9093"})
    wrong = a.share_fetch(3).answered(INVALID_SHARE_SESSION_EPOCH)
    assert caused(talk) == [unknown("EPOCH_REFUSED", wrong, because="hidden_traffic")]


# -- going down


def broker(*open_flows: int) -> Broker:
    return Broker([BROKER], open=set(open_flows))


def test_connections_that_a_broker_closes_together_show_that_it_went_down() -> None:
    one = broker(0, 1, 2)
    for ended in (end(8, "client", 0), end(10, "broker", 1), end(12, "broker", 2)):
        one.ended(ended)
    assert one.restarts == [Restart(10, "all its connections closed together", end(12, "broker", 2))]
    assert (one.restarts[0].packet, one.restarts[0].time_ns) == (12, 12_000_000)
    assert one.down == {one}


def test_one_connection_that_a_broker_closes_is_no_restart() -> None:
    talk = Conversation(release="4.0")
    a = opened(talk, 1)
    broker_closes(a.connection)
    lost = a.on(talk.connection()).share_fetch(2).answered(SHARE_SESSION_NOT_FOUND)
    assert caused(talk) == [unknown("SESSION_UNKNOWN", lost, because="hidden_traffic")]


@pytest.mark.parametrize(
    ("open_flows", "ends"),
    [
        ((0, 1, 2), [(10, "broker", 0), (12, "broker", 1)]),
        ((0, 1), [(10, "client", 0), (12, "broker", 1)]),
        ((0, 1), [(10, "broker", 0), (12, "client", 1)]),
        ((0, 1), [(10, "broker", 0), (12, "unknown", 1)]),
        ((0, 1), [(10, "broker", 0), (2011, "broker", 1)]),
    ],
    ids=["one stays", "the client began", "the client was last", "nobody knows who", "two seconds apart"],
)
def test_what_is_no_restart(open_flows: tuple[int, ...], ends: list[tuple[int, Any, int]]) -> None:
    one = broker(*open_flows)
    for ended in ends:
        one.ended(end(*ended))
    assert (one.restarts, one.down) == ([], set())


def test_within_two_seconds_is_together() -> None:
    one = broker(0, 1)
    one.ended(end(10, "broker", 0))
    one.ended(end(2010, "broker", 1))
    assert [restart.since for restart in one.restarts] == [10]


def test_a_refused_connection_shows_that_a_broker_is_down() -> None:
    one = broker(0)
    one.ended(end(10, "broker", 0))
    one.refused(end(12, "broker", 1))
    one.refused(end(14, "broker", 2))
    one.ended(end(15, "broker", 3))
    assert one.restarts == [Restart(10, "it refused a new connection", end(12, "broker", 1))]


def test_what_closed_long_before_is_no_part_of_a_restart() -> None:
    one = broker(0)
    one.ended(end(10, "broker", 0))
    one.refused(end(2011, "broker", 1))
    assert [restart.since for restart in one.restarts] == [2011]


def test_the_last_restarts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESTARTS_PER_BROKER", 2)
    one = broker()
    for packet in (10, 3010, 6010):
        one.refused(end(packet, "broker"))
        one.down.clear()
    assert [restart.packet for restart in one.restarts] == [3010, 6010]


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [(1, 9, False), (1, 10, True), (11, 11, True), (11, 50, True), (12, 50, False), (50, 60, False)],
)
def test_a_restart_takes_from_its_first_closed_connection_to_the_last(first: int, last: int, found: bool) -> None:
    one = broker(0, 1)
    one.ended(end(10, "broker", 0))
    one.ended(end(12, "broker", 1))
    assert (one.restarted_between(first, last) is not None) is found


# -- what is missing, and what is known


def test_holes_count_for_the_host_that_lost_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOSSY_HOSTS", 2)
    one = broker()
    assert one.missing_between(("a",), 1, 99) is None
    one.lose("a", Hole(10, 20, "cut"))
    one.lose("b", Hole(30, 40, "gap"))
    assert [one.missing_between(hosts, 1, 99) for hosts in (("a",), ("b",), ("c",), ("c", "a"))] == [
        "cut",
        "gap",
        None,
        "cut",
    ]
    assert one.missing_between(("a",), 20, 99) is None
    one.lose("c", Hole(50, 60, "cut"))
    assert [one.missing_between((host,), 45, 99) for host in "ad"] == ["cut", "cut"]
    one.lose("a", Hole(70, 80, "gap"))
    assert one.missing_between(("d",), 65, 99) is None


def offered(*versions: tuple[int, int], error: int | None = 0, at: str = "a") -> Any:
    return SimpleNamespace(
        broker=at,
        body=SimpleNamespace(
            error_code=error, api_keys=[SimpleNamespace(api_key=key, max_version=top) for key, top in versions]
        ),
    )


def test_a_broker_says_what_it_offers() -> None:
    one = broker()
    for answer in (
        offered((78, 0), error=35),
        offered((1, 17)),
        SimpleNamespace(body=SimpleNamespace(error_code=0, api_keys=None)),
        SimpleNamespace(body=None),
    ):
        one.offers(answer)
        assert one.releases == ANY_RELEASE
    one.offers(offered((78, 1), (1, 17)))
    assert one.releases == {Release.V4_1}
    one.offers(offered((1, 17)))
    assert one.releases == {Release.V4_1}
    one.offers(offered((78, 2), (18, 4)))
    assert one.releases == {Release.V4_2}


def test_a_broker_that_says_something_else_at_another_address_is_of_any_release() -> None:
    one = broker()
    one.offers(offered((78, 1)))
    one.offers(offered((78, 2), (18, 4), at="b"))
    assert one.releases == ANY_RELEASE
    one.offers(offered((78, 2), (18, 4)))
    assert one.releases == {Release.V4_2}


def test_only_nodes_with_names_are_known_to_differ() -> None:
    one, two, nameless = Broker(["a"], node=("c", 1)), Broker(["b"], node=("c", 2)), Broker(["d"])
    same = Broker(["e"], node=("c", 1))
    assert one.is_not(two)
    assert not one.is_not(one)
    assert not one.is_not(same)
    assert not one.is_not(nameless)
    assert not nameless.is_not(one)


def test_two_that_are_one_know_what_either_knew() -> None:
    one, two = Broker(["a"], open={1}), Broker(["b"], open={2}, node=("c", 1))
    two.offers(offered((78, 1), at="b"))
    one.refused(end(30, "broker"))
    two.refused(end(10, "broker"))
    two.lose("host", Hole(10, 20, "cut"))
    one.absorb(two)
    assert (one.addresses, one.open, one.node, one.releases) == (["a", "b"], {1, 2}, ("c", 1), {Release.V4_1})
    assert [restart.packet for restart in one.restarts] == [10, 30]
    assert one.missing_between(("host",), 1, 99) == "cut"


def test_two_that_contradict_each_other_are_of_any_release() -> None:
    one, two = Broker(["a"]), Broker(["b"])
    one.offers(offered((78, 0)))
    two.offers(offered((78, 1), at="b"))
    one.absorb(two)
    assert one.releases == ANY_RELEASE


def answer(*nodes: tuple[int, str | None, int], cluster: object = "c") -> Any:
    brokers = [SimpleNamespace(node_id=node, host=host, port=port) for node, host, port in nodes]
    return answering(SimpleNamespace(cluster_id=cluster, brokers=brokers))


def answering(body: Any) -> Any:
    return SimpleNamespace(broker="10.0.0.99:9092", body=body)


def test_metadata_names_brokers() -> None:
    brokers = Brokers()
    one, two = brokers.at("10.0.0.9:9092"), brokers.at("[fe80::1]:9092")
    assert brokers.metadata(answer((1, "10.0.0.9", 9092), (2, None, 9092))) == []
    assert brokers.metadata(answer((1, "fe80::1", 9092))) == [(one, two)]
    assert brokers.at("[fe80::1]:9092") is one
    assert one.addresses == ["10.0.0.9:9092", "[fe80::1]:9092"]
    assert brokers.at_address("10.0.0.8:9092") is None


@pytest.mark.parametrize("told", [answer((1, "10.0.0.9", 9092), cluster=None), answering(None)])
def test_metadata_without_a_cluster_names_none(told: Message) -> None:
    brokers = Brokers()
    one = brokers.at("10.0.0.9:9092")
    assert brokers.metadata(told) == []
    assert one.node is None


def test_an_address_that_had_another_node_stays_what_it_was() -> None:
    brokers = Brokers()
    one, two = brokers.at("10.0.0.9:9092"), brokers.at("10.0.0.8:9092")
    assert brokers.metadata(answer((1, "10.0.0.9", 9092), (2, "10.0.0.8", 9092))) == []
    assert brokers.metadata(answer((1, "10.0.0.8", 9092))) == []
    assert (one.node, two.node) == (("c", 1), ("c", 2))


def test_each_cluster_has_its_number() -> None:
    brokers = Brokers()
    brokers.metadata(answer((1, "10.0.0.9", 9092)))
    brokers.metadata(answer((1, "10.0.0.8", 9092), cluster="d"))
    assert [brokers.at(f"10.0.0.{host}:9092").cluster for host in (9, 8, 7)] == [0, 1, 0]


def test_more_brokers_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BROKERS", 1)
    brokers = Brokers()
    one, two = brokers.at("10.0.0.9:9092"), brokers.at("10.0.0.8:9092")
    assert brokers.at("10.0.0.9:9092") is one
    assert brokers.at("10.0.0.8:9092") is not two
    assert brokers.metadata(answer((1, "10.0.0.9", 9092), (2, "10.0.0.7", 9092), (2, "10.0.0.9", 9092))) == []
