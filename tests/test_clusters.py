"""Two clusters in one capture, with groups, topics and members of the same names: what is of one is not of the
other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from kshark import limits
from kshark.analysis import Analyzer, DeliveryLog
from kshark.clusters import Clusters
from kshark.model import Message
from tests.analysis.talks import handed, metadata
from tests.conversation import TOPIC, Conversation, Member, events, findings
from tests.groups.talks import groups
from tests.metrics.talks import told as told_of
from tests.packets import Packet, batch
from tests.property.mangled import LINK_BYTES, packets_of, tcp_at
from tests.shared import CAPTURES
from tests.thinning import findings_in

ONE, OTHER = "10.0.0.9:9092", "10.0.1.9:9092"
ACCEPT, RELEASE = 1, 2
OTHER_TOPIC = "BBBBBBBBBBBBBBBBBBBBBw"


def told(talk: Conversation, name: str, at: str, cluster: str, *, group: str = "g") -> Member:
    """A member that asked the broker of a cluster for its nodes before it joined."""
    connection = talk.connection(at)
    metadata(connection, {1: at}, cluster)
    return talk.member(name, group, connection)


def fetches(member: Member, epoch: int, *ranges: tuple[int, ...], topic: str = TOPIC, **how: Any) -> None:
    responses = [{**row, "topic_id": topic} for row in handed(*((0, *one) for one in ranges))] if ranges else []
    partitions = [0] if epoch == 0 or "acks" in how else []
    member.share_fetch(epoch, partitions, topic=topic, **how).answered(
        responses=responses, acquisition_lock_timeout_ms=30_000
    )


def test_addresses_belong_to_the_cluster_that_was_told_last() -> None:
    talk = Conversation()
    for at, cluster in ((ONE, "c"), (OTHER, "d"), (ONE, "d")):
        metadata(talk.connection(at), {1: "10.0.0.77:9092", 2: at}, cluster)
    clusters = Clusters()
    assert (clusters.of(ONE), clusters.number(ONE)) == (None, 0)
    answers = [event for event in events(talk) if isinstance(event, Message) and event.kind == "response"]
    for answer in answers[:2]:
        clusters.learn(answer)
    assert (clusters.of("10.0.0.1:1"), clusters.number("10.0.0.1:1")) == ("c", 0)
    for answer in answers[2:]:
        clusters.learn(answer)
    assert (len(clusters), clusters.of(ONE), clusters.of(OTHER), clusters.of("10.0.0.1:1")) == (2, "d", "d", None)
    assert (clusters.number(ONE), clusters.id(0), clusters.id(1), clusters.id(2)) == (1, "c", "d", None)


def test_groups_of_the_same_name_are_two() -> None:
    talk = Conversation()
    told(talk, "a", ONE, "c")
    told(talk, "b", OTHER, "d").heartbeat(-1).given(-1)
    found = [
        (one.cluster_id, one.group_id, one.state, [member.member_id[0] for member in one.members])
        for one in groups(talk)
    ]
    assert found == [("c", "g", "Stable", ["a"]), ("d", "g", "Empty", ["b"])]


def test_where_no_cluster_is_told_a_group_is_one() -> None:
    talk = Conversation()
    talk.member("a", connection=talk.connection(ONE))
    talk.member("b", connection=talk.connection(OTHER))
    assert [(one.cluster_id, len(one.members)) for one in groups(talk)] == [(None, 2)]


def test_what_was_heard_before_the_only_cluster_was_told_is_of_that() -> None:
    talk = Conversation()
    talk.member("b", connection=talk.connection("10.0.0.8:9092"))
    told(talk, "a", ONE, "c")
    assert [(one.cluster_id, len(one.members)) for one in groups(talk)] == [("c", 2)]


def shadowed(talk: Conversation) -> tuple[Member, Member]:
    """One member id in two clusters, as where a proxy copies all that a client says; the clusters count epochs for
    themselves."""
    a, b = told(talk, "a", ONE, "c"), told(talk, "a", OTHER, "d")
    a.heartbeat(1).given(5)
    b.heartbeat(1).given(1)
    a.heartbeat(5).given(5)
    return a, b


def test_a_member_of_both_is_two() -> None:
    talk = Conversation()
    a, b = shadowed(talk)
    b.heartbeat(1).given(1)
    a.heartbeat(-1).given(-1)
    b.heartbeat(1).given(1)
    assert findings(talk) == []


def test_sessions_and_records_of_each_are_its_own() -> None:
    talk = Conversation()
    a, b = shadowed(talk)
    for member, topic in ((a, TOPIC), (b, OTHER_TOPIC)):  # ids of topics are of one cluster, whatever their names
        fetches(member, 0, (0, 9), topic=topic)
        fetches(member, 1, (10, 19), topic=topic, acks=[(0, 9, ACCEPT)])
    assert findings(talk) == []


def test_ids_of_topics_may_be_the_same_in_both() -> None:
    """Each hands out, and takes back, records at the same offsets."""
    talk = Conversation()
    a, b = shadowed(talk)
    for epoch in range(3):
        for member in (a, b):
            acks = [(10 * epoch - 10, 10 * epoch - 1, ACCEPT)] if epoch else []
            fetches(member, epoch, (10 * epoch, 10 * epoch + 9), **({"acks": acks} if acks else {}))
    assert findings(talk) == []


def test_of_too_many_clusters_some_are_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLUSTERS", 1)
    talk = Conversation()
    a, b = shadowed(talk)
    for member in (a, b):
        fetches(member, 0, (0, 9))
        fetches(member, 1, acks=[(0, 9, ACCEPT)])
    assert [it.code for it in findings(talk) if it.verdict == "violation"] == []


def restored(packet: Packet) -> Packet | None:
    """A packet as a cluster that was restored elsewhere has it a little later: other addresses, another cluster id, all
    else the same."""
    if tcp_at(packet) is None:
        return None
    data, at = bytearray(packet.data), LINK_BYTES[packet.link_type]
    data[at + 15], data[at + 19] = 2, 2
    moved = (
        bytes(data).replace(b"127.0.0.1", b"127.0.0.2").replace(b"c2hhcmVDYXB0dXJlc0tpdA", b"cmVzdG9yZWRDbHVzdGVyMQ")
    )
    return replace(packet, data=moved, time_ns=packet.time_ns + 37_000_000)


@pytest.mark.parametrize("name", ["share-restart", "share-java-explicit"])
def test_a_cluster_beside_the_one_that_it_was_restored_from(name: str) -> None:
    packets = packets_of(CAPTURES / f"{name}.pcap")
    both = sorted([*packets, *filter(None, map(restored, packets))], key=lambda packet: packet.time_ns)
    assert Counter(one.code for one in findings_in([batch(both)])) == Counter(
        one.code for one in findings_in([batch(packets)]) * 2
    )


def test_figures_are_those_of_one_cluster() -> None:
    talk = Conversation()
    a, b = shadowed(talk)
    fetches(a, 0, (0, 9))
    fetches(a, 1, acks=[(0, 4, ACCEPT)])
    fetches(b, 0, (0, 1), topic=OTHER_TOPIC)
    found = [
        (
            one.cluster_id,
            len(one.members),
            one.members_metrics["records-fetched-total"],
            [row.held for row in one.partitions],
        )
        for one in told_of(talk).groups
    ]
    assert found == [("c", 1, 10, [{a.member_id: 5}]), ("d", 1, 2, [{b.member_id: 2}])]


def held(talk: Conversation) -> list[tuple[str | None, str | None]]:
    analyzer = Analyzer()
    analyzer.page(events(talk))
    return [(holder.cluster_id, holder.member_id) for holder in analyzer.holders(talk.wire.time_ns)]


def test_two_clusters_may_have_the_same_topic_id() -> None:
    """Where a topic is mirrored with its id: each cluster has its own records in flight."""
    talk = Conversation()
    a, b = told(talk, "a", ONE, "c"), told(talk, "b", OTHER, "d")
    fetches(a, 0, (0, 4))
    fetches(b, 0, (0, 9))
    assert held(talk) == [("c", a.member_id), ("d", b.member_id)]
    log = DeliveryLog()
    Analyzer(on_change=log.change).page(events(talk))
    assert [(change.cluster_id, change.end_offset) for change in log.since()] == [("c", 5), ("d", 10)]
    metrics = told_of(talk)
    assert [[row.metrics["records-held"] for row in group.partitions] for group in metrics.groups] == [[5], [10]]


def test_a_cluster_may_turn_out_late() -> None:
    """Records of the other cluster's broker are forgotten: they may be mixed with those of the first cluster."""
    talk = Conversation()
    a = told(talk, "a", ONE, "c")
    there = talk.connection(OTHER)
    b = talk.member("b", connection=there)
    fetches(b, 0, (0, 9))
    assert held(talk) == [("c", b.member_id)]
    metadata(there, {1: OTHER}, "d")
    fetches(a, 0, (0, 4))
    assert held(talk) == [("c", a.member_id)]
    fetches(b, 1, (10, 19))
    assert held(talk) == [("c", a.member_id), ("d", b.member_id)]
