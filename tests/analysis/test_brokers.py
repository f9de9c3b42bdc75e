"""Brokers: their releases, their addresses, and when they go down."""

from __future__ import annotations

import struct

import pytest

import kshark
from kshark.analysis.releases import ANY_RELEASE, BEHAVIOUR, Release, all_say, releases_offering
from tests.analysis.talks import caused, opened
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_NOT_FOUND, Connection, Conversation, note, unknown, violation


@pytest.mark.parametrize(
    ("offered", "releases"),
    [(0, {Release.V4_0}), (1, {Release.V4_1}), (2, {Release.V4_2}), (7, {Release.V4_2}), (None, set(Release))],
)
def test_a_release_is_told_by_what_it_offers(offered: int | None, releases: set[Release]) -> None:
    assert releases_offering(offered) == releases


def test_only_what_all_possible_releases_agree_on_is_said() -> None:
    assert all_say(frozenset({Release.V4_1, Release.V4_2}), "dies_with_connection") is True
    assert all_say(frozenset({Release.V4_0}), "dies_with_connection") is False
    assert all_say(ANY_RELEASE, "dies_with_connection") is None
    assert set(BEHAVIOUR) == set(Release)


def metadata(connection: Connection, nodes: dict[int, str], cluster: str = "c") -> None:
    """A Metadata v5 exchange in which the broker names its cluster's nodes."""
    asked = connection.ask(3, "Metadata", 5, {"topics": None, "allow_auto_topic_creation": True})
    brokers = [
        {"node_id": node, "host": at.rpartition(":")[0], "port": int(at.rpartition(":")[2]), "rack": None} for node, at in nodes.items()
    ]
    body = {"throttle_time_ms": 0, "brokers": brokers, "cluster_id": cluster, "controller_id": 1, "topics": []}
    data = struct.pack(">i", asked.correlation_id) + kshark.encode(3, 5, "response", body)
    asked.answer_packets = connection.tcp.broker(struct.pack(">i", len(data)) + data)


def test_two_addresses_of_one_node_are_one_broker() -> None:
    talk = Conversation()
    inside, outside = talk.connection(broker="10.0.0.9:9092"), talk.connection(broker="10.0.0.9:9093")
    metadata(inside, {1: "10.0.0.9:9092"})
    metadata(outside, {1: "10.0.0.9:9093"})
    a = opened(talk, 2, connection=inside)
    late = a.on(outside).share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
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
