"""Members of share groups that stop fetching: incident 132."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kshark.model import Finding
from tests.conversation import TOPIC, Connection, Conversation, Thinned
from tests.incidents.talks import incidents

CODE = "MEMBER_STOPPED_FETCHING"
ASSIGNED = {"topic_partitions": [{"topic_id": TOPIC, "partitions": [0, 1]}]}


class Talk:
    """A member that joined, and fetched both its partitions from one broker."""

    def __init__(self, *, fetches: tuple[int, ...] = (0, 1)) -> None:
        self.talk = Conversation()
        self.fetching = self.talk.connection()
        self.member = self.talk.member("a", connection=self.fetching, joined=False)
        self.beating = self.member.on(self.talk.connection())
        self.beating.heartbeat(0, ["t"]).given(1, assignment=ASSIGNED)
        self.fetched = self.member.share_fetch(0, fetches).answered()
        self.epoch = 1

    def beats(self, count: int, *, every_s: float = 4.0) -> None:
        for _ in range(count):
            self.talk.pause(every_s)
            self.beating.heartbeat(1).given(1)

    def fetch(self) -> int:
        """Fetch once more; return the packet of the request."""
        asked = self.member.share_fetch(self.epoch).answered()
        self.epoch += 1
        return asked.sent


def stopped(talk: Conversation | Thinned) -> list[Finding]:
    return [finding for finding in incidents(talk) if finding.code == CODE]


def test_a_member_that_sends_heartbeats_only_has_stopped_until_it_fetches_again() -> None:
    talk = Talk()
    talk.beats(12)
    again = talk.fetch()
    (found,) = stopped(talk.talk)
    assert (found.packet, found.until_packet, found.verdict, found.blame) == (
        talk.fetched.packet,
        again,
        "note",
        "client",
    )
    assert (found.group_id, found.member_id, found.client_id) == ("g", talk.member.member_id, "c1")
    assert "did not fetch for 48.0 s" in found.argument
    assert "12 heartbeats" in found.argument


def test_it_lasts_to_the_end_of_the_capture() -> None:
    talk = Talk()
    talk.beats(10)
    (found,) = stopped(talk.talk)
    assert found.until_packet is None


def test_an_acknowledgement_is_a_sign_of_life() -> None:
    talk = Talk()
    talk.beats(8)
    talk.member.share_acknowledge(1, [(0, 4, 1)]).answered()
    talk.beats(8)
    assert stopped(talk.talk) == []


@pytest.mark.parametrize(("count", "every_s"), [(9, 5.0), (12, 2.0), (1, 60.0)])
def test_fewer_heartbeats_or_less_time_are_not_enough(count: int, every_s: float) -> None:
    talk = Talk()
    talk.beats(count, every_s=every_s)
    assert stopped(talk.talk) == []


def test_ten_heartbeats_and_a_silence_of_30_s_are_enough() -> None:
    talk = Talk()
    talk.beats(10, every_s=2.9)
    assert stopped(talk.talk) == []
    talk.talk.pause(2)
    talk.fetch()
    assert len(stopped(talk.talk)) == 1


def fetch_is_open(talk: Talk) -> None:
    talk.member.share_fetch(1)


def fetch_is_refused(talk: Talk) -> None:
    talk.member.share_fetch(1).answered(122)


def is_throttled(talk: Talk) -> None:
    talk.member.share_fetch(1).answered(throttle_time_ms=20_000)


def partition_is_elsewhere(talk: Talk) -> None:
    row = {"partition_index": 1, "error_code": 6, "current_leader": {"leader_id": 2, "leader_epoch": 1}, "records": b""}
    talk.member.share_fetch(1).answered(responses=[{"topic_id": TOPIC, "partitions": [row]}])


def assignment_is_empty(talk: Talk) -> None:
    talk.beating.heartbeat(1).given(2, assignment={"topic_partitions": []})


def connection_is_closed(talk: Talk) -> None:
    talk.fetching.close()


def session_is_closed(talk: Talk) -> None:
    talk.member.share_fetch(-1).answered()


def leader_has_moved(talk: Talk) -> None:
    metadata(talk.fetching, {0: 1, 1: 2})


@pytest.mark.parametrize(
    "happens",
    [
        fetch_is_open,
        fetch_is_refused,
        is_throttled,
        partition_is_elsewhere,
        assignment_is_empty,
        connection_is_closed,
        session_is_closed,
        leader_has_moved,
    ],
)
def test_something_else_explains_it(happens: Callable[[Talk], None]) -> None:
    talk = Talk()
    happens(talk)
    talk.beats(12)
    assert stopped(talk.talk) == []


def test_a_new_assignment_begins_the_time_anew() -> None:
    talk = Talk()
    talk.beats(6)
    talk.beating.heartbeat(1).given(2, assignment=ASSIGNED)
    talk.beats(6)
    assert stopped(talk.talk) == []
    talk.beats(5)
    assert len(stopped(talk.talk)) == 1


def test_a_partition_that_it_never_fetched_may_be_led_by_a_broker_that_is_not_captured() -> None:
    talk = Talk(fetches=(0,))
    talk.beats(12)
    assert stopped(talk.talk) == []


def test_a_member_that_never_fetched_may_fetch_elsewhere() -> None:
    talk = Talk()
    talk.beats(12)
    assert stopped(talk.talk.without_packets(talk.fetched.all_packets)) == []


def test_a_member_that_leaves_has_stopped_until_then() -> None:
    talk = Talk()
    talk.beats(12)
    left = talk.beating.heartbeat(-1).given(-1)
    (found,) = stopped(talk.talk)
    assert found.until_packet == left.packet


def test_a_fetch_that_the_capture_lacks_makes_it_unknown() -> None:
    talk = Talk()
    talk.beats(6)
    missing = talk.member.share_fetch(1).answered()
    talk.beats(6)
    talk.member.share_fetch(2).answered()
    assert stopped(talk.talk) == []
    (found,) = stopped(talk.talk.without_packets(missing.all_packets))
    assert (found.verdict, found.unknown_because) == ("unknown", "gap")


def test_a_step_of_the_clock_makes_it_unknown() -> None:
    talk = Talk()
    talk.talk.wire.stamped = False
    talk.beats(10, every_s=0.1)
    talk.beats(1, every_s=40)
    assert [found.unknown_because for found in stopped(talk.talk)] == ["clock"]


def metadata(connection: Connection, leaders: dict[int, int]) -> None:
    """A Metadata answer of a cluster with two brokers, of which the first is captured."""
    partitions = [
        {
            "error_code": 0,
            "partition_index": partition,
            "leader_id": leader,
            "leader_epoch": 1,
            "replica_nodes": [1, 2],
            "isr_nodes": [1, 2],
            "offline_replicas": [],
        }
        for partition, leader in leaders.items()
    ]
    topic = {"error_code": 0, "name": "t", "topic_id": TOPIC, "is_internal": False, "partitions": partitions}
    asked = connection.ask(
        3,
        "Metadata",
        12,
        {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
    )
    asked.answered(
        None,
        throttle_time_ms=0,
        brokers=[
            {"node_id": 1, "host": "10.0.0.9", "port": 9092, "rack": None},
            {"node_id": 2, "host": "10.0.0.8", "port": 9092, "rack": None},
        ],
        cluster_id="c",
        controller_id=1,
        topics=[topic],
    )


def test_metadata_with_the_same_leaders_changes_nothing() -> None:
    talk = Talk()
    metadata(talk.fetching, {0: 1, 1: 1})
    talk.beats(12)
    assert len(stopped(talk.talk)) == 1
