"""What of a share group was not captured is said once, and what is not known for that."""

from __future__ import annotations

from tests.analysis.talks import handed, metadata
from tests.conversation import BROKER, Conversation, findings, unknown
from tests.groups.talks import group

OTHERS = "10.0.0.8:9092", "10.0.0.7:9092"
ACCEPT, INVALID_RECORD_STATE = 1, 121


def test_nothing_is_missing_of_a_group_whose_coordinator_and_brokers_were_captured() -> None:
    talk = Conversation()
    metadata(talk.connection(), {1: BROKER})
    talk.member("a").share_fetch(0).answered()
    assert group(talk).not_captured == []


def test_the_coordinator_is_on_another_listener() -> None:
    """Whoever is not seen to join has what it was not seen to acquire: nobody is accused."""
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    asked = a.share_acknowledge(1, [(20, 29, ACCEPT)]).answered(acks={0: INVALID_RECORD_STATE})
    assert group(talk).not_captured == [
        "heartbeats: its coordinator was not captured, so the members of the group are unknown"
    ]
    assert findings(talk) == [unknown("ACK_REFUSED", asked, "beginning_not_seen")]


def test_the_coordinator_is_told_where_the_capture_tells_it() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    found = a.connection.ask(10, "FindCoordinator", 2, {"key": "g", "key_type": 0})
    found.answered(0, node_id=3, host="10.0.0.7", port=9092)
    a.share_fetch(0).answered()
    (said,) = group(talk).not_captured
    assert said.startswith("heartbeats: its coordinator, 10.0.0.7:9092, was not captured")


def test_heartbeats_alone_are_missing() -> None:
    """Its coordinator is in the capture, and no heartbeat, or none with an answer."""
    talk = Conversation()
    a = talk.member("a", joined=False)
    host, _, port = BROKER.rpartition(":")
    found = a.connection.ask(10, "FindCoordinator", 2, {"key": "g", "key_type": 0})
    found.answered(0, node_id=1, host=host, port=int(port))
    a.share_fetch(0).answered()
    said = f"heartbeats: none to its coordinator, {BROKER}, was answered, so the members of the group are unknown"
    assert group(talk).not_captured == [said]
    asked = a.heartbeat(0, ["t"])
    assert group(talk).not_captured == [said]
    asked.answered(30, member_id="", member_epoch=0, heartbeat_interval_ms=0, assignment=None)
    assert group(talk).not_captured == []


def test_one_broker_of_three_was_captured() -> None:
    """Their names would not tell: hosts have others where they are resolved."""
    talk = Conversation()
    metadata(talk.connection(), {1: BROKER, 2: OTHERS[0], 3: OTHERS[1], 4: "broker-4:9092"})
    talk.member("a").share_fetch(0).answered()
    (said,) = group(talk).not_captured
    assert said == f"brokers {OTHERS[0]}, {OTHERS[1]}: requests for partitions that are led there are unknown"


def test_the_capture_begins_in_the_middle() -> None:
    talk = Conversation()
    a, b = talk.member("a", joined=False), talk.member("b")
    a.heartbeat(3).given(3)
    a.share_fetch(7).answered()
    b.share_fetch(0).answered()
    assert group(talk).not_captured == [
        "the beginning of 1 of 2 members: their earlier acquisitions and assignments are unknown"
    ]
