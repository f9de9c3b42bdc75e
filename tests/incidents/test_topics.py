"""Topics that are deleted while clients use them: incident 133."""

from __future__ import annotations

import pytest

from kshark.analysis import Analyzer, Observer
from kshark.incidents import Incidents
from kshark.model import Finding
from kshark.pipeline import JUDGED
from kshark_dissectors.enums import ErrorCode
from tests.analysis.coordinators import leader
from tests.conversation import TOPIC, Asked, Connection, Conversation, Thinned, events, registry
from tests.incidents.talks import incidents

#: An id that stands for no topic.
NO_ID = "A" * 22
OTHER = "AAAAAAAAAAAAAAAAAAAACA"
ASSIGNED = {"topic_partitions": [{"topic_id": TOPIC, "partitions": [0]}]}
GONE = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "error_code": 3, "records": b""}]}]


def deleted(talk: Conversation | Thinned) -> list[Finding]:
    return [finding for finding in incidents(talk) if finding.code == "TOPIC_DELETED_IN_USE"]


def admin(talk: Conversation) -> Connection:
    connection = talk.connection(host="10.0.0.5")
    connection.client_id = "admin"
    return connection


def delete(connection: Connection, topic_id: str = TOPIC, name: str | None = "t", *, by_id: bool = False) -> Asked:
    """Ask to delete a topic, by name or by id."""
    asked = {"name": None if by_id else name, "topic_id": topic_id if by_id else NO_ID}
    return connection.ask(20, "DeleteTopics", 6, {"topics": [asked], "timeout_ms": 30_000})


def done(asked: Asked, topic_id: str = TOPIC, name: str | None = "t", error: int = 0) -> Asked:
    row = {"name": name, "topic_id": topic_id, "error_code": error, "error_message": None}
    return asked.answered(None, responses=[row], throttle_time_ms=0)


def produce(connection: Connection, *errors: int, name: str = "t") -> Asked:
    """A Produce to a topic, by name; `errors`: of its partition."""
    data = [{"name": name, "partition_data": [{"index": 0, "records": None}]}]
    asked = connection.ask(
        0, "Produce", 9, {"transactional_id": None, "acks": -1, "timeout_ms": 1500, "topic_data": data}
    )
    row = {
        "index": 0,
        "error_code": errors[0] if errors else 0,
        "base_offset": 0,
        "log_append_time_ms": -1,
        "log_start_offset": 0,
        "record_errors": [],
        "error_message": None,
    }
    return asked.answered(None, responses=[{"name": name, "partition_responses": [row]}], throttle_time_ms=0)


def test_a_topic_is_deleted_while_a_member_fetches_it() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    asked = done(delete(admin(talk)))
    last = a.share_fetch(1).answered(responses=GONE)
    (found,) = deleted(talk)
    assert (found.packet, found.until_packet, found.verdict) == (asked.sent, last.packet, "note")
    assert (found.topic_id, found.client_id) == (TOPIC, "admin")
    assert found.argument == (
        f"topic t was deleted by admin at 03:19:32.014 (packet {asked.sent}) while c1 consumed it: "
        f"one fetch failed (packet {last.packet})"
    )


def test_a_deletion_by_id_is_the_same() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(0, [0]).answered()
    done(delete(admin(talk), by_id=True), name=None)
    (found,) = deleted(talk)
    assert "no request about it failed" in found.argument


def test_a_deletion_that_is_refused_deletes_nothing() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(0, [0]).answered()
    done(delete(admin(talk)), error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert deleted(talk) == []


@pytest.mark.parametrize("acknowledges", [False, True])
def test_the_whole_fetch_of_a_session_that_holds_the_topic_fails(acknowledges: bool) -> None:
    """Brokers before 4.4 answer -1 without a topic. So may they in a session that does not hold it."""
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b", connection=talk.connection(host="10.0.0.2"))
    a.share_fetch(0, [0]).answered()
    b.share_fetch(0, [0], topic=OTHER).answered()
    asked = done(delete(admin(talk)))
    b.share_fetch(1).answered(-1)
    last = (a.share_acknowledge(1, [(0, 0, 1)]) if acknowledges else a.share_fetch(1)).answered(-1)
    (found,) = deleted(talk)
    assert (found.packet, found.until_packet) == (asked.sent, last.packet)
    what = "acknowledgement was refused" if acknowledges else "fetch failed"
    assert found.argument.endswith(f"while c1 consumed it: one {what} (packet {last.packet})")


def test_another_topic_is_deleted() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(0, [0]).answered()
    done(delete(admin(talk), OTHER, "u"), OTHER, "u")
    assert deleted(talk) == []


@pytest.mark.parametrize("how", ["forgotten", "closed", "session", "idle"])
def test_a_client_that_has_stopped_before_uses_it_no_more(how: str) -> None:
    talk = Conversation()
    fetching = talk.connection()
    a = talk.member("a", connection=fetching)
    a.share_fetch(0, [0]).answered()
    if how == "forgotten":
        a.share_fetch(1, forget=[0]).answered()
    elif how == "session":
        a.share_fetch(-1).answered()
    elif how == "closed":
        fetching.close()
    else:
        talk.pause(100)
    done(delete(admin(talk)))
    assert deleted(talk) == []


def test_a_member_that_was_assigned_the_topic_uses_it() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.heartbeat(0, ["t"]).given(1, assignment=ASSIGNED)
    done(delete(admin(talk)))
    assert len(deleted(talk)) == 1


def test_a_member_that_left_does_not() -> None:
    talk = Conversation()
    a = talk.member("a", joined=False)
    a.heartbeat(0, ["t"]).given(1, assignment=ASSIGNED)
    a.heartbeat(-1).given(-1)
    done(delete(admin(talk)))
    assert deleted(talk) == []


def test_a_producer_that_goes_on_uses_it() -> None:
    talk = Conversation()
    a = talk.connection()
    produce(a)
    done(delete(admin(talk)))
    last = produce(a, 3)
    (found,) = deleted(talk)
    assert found.until_packet == last.packet
    assert "while c1 produced to it: one Produce was refused" in found.argument


def test_a_producer_that_is_done_does_not() -> None:
    talk = Conversation()
    a = talk.connection()
    produce(a)
    done(delete(admin(talk)))
    produce(a, name="u")
    assert deleted(talk) == []


def test_replicas_use_no_topic() -> None:
    talk = Conversation()
    follower = talk.connection()
    body = {
        "replica_id": 2,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": 0,
        "topics": [
            {
                "topic": "t",
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": -1,
                        "fetch_offset": 0,
                        "log_start_offset": -1,
                        "partition_max_bytes": 1,
                    }
                ],
            }
        ],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    answer = {"throttle_time_ms": 0, "session_id": 0, "responses": []}
    follower.ask(1, "Fetch", 11, body).answered(**answer)
    done(delete(admin(talk)))
    assert deleted(talk) == []
    follower.ask(1, "Fetch", 11, {**body, "replica_id": -1}).answered(**answer)
    done(delete(admin(talk)))
    assert len(deleted(talk)) == 1


def test_a_topic_of_the_same_name_is_another_topic() -> None:
    talk = Conversation()
    a, administrator = talk.connection(), admin(talk)
    produce(a)
    done(delete(administrator))
    row = {"name": "t", "topic_id": OTHER, "error_code": 0, "error_message": None, "num_partitions": 1}
    row |= {"replication_factor": 1, "configs": []}
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    administrator.ask(19, "CreateTopics", 7, {"topics": [topic], "timeout_ms": 1000, "validate_only": False}).answered(
        None, topics=[row], throttle_time_ms=0
    )
    produce(a, 3)
    assert deleted(talk) == []


def test_failures_far_apart_do_not_belong_to_it() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    asked = done(delete(admin(talk)))
    talk.pause(70)
    a.share_fetch(1).answered(responses=GONE)
    (found,) = deleted(talk)
    assert found.until_packet == asked.sent


def test_a_deletion_without_an_answer_is_unknown_if_something_fails() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    asked = done(delete(admin(talk), by_id=True))
    a.share_fetch(1).answered(responses=GONE)
    (found,) = deleted(talk.without_packets(asked.answer_packets))
    assert (found.verdict, found.unknown_because) == ("unknown", "unanswered")
    assert f"topic {TOPIC} was to be deleted" in found.argument
    assert deleted(talk.without_packets(asked.packets)) == []


def test_it_excuses_the_loss_of_its_state() -> None:
    """The share coordinator drops the state of a deleted topic itself (KIP-932)."""
    talk = Conversation()
    a = leader(talk)
    a.write(100, (100, 109, 2, 1)).accepted()
    done(delete(admin(talk)))
    lost = a.read(1).given(-1)
    (finding,) = [found for found in explained(talk) if found.code == "STATE_LOST"]
    assert (finding.packet, finding.verdict, finding.unknown_because) == (lost.packet, "note", "event")
    assert finding.event_code == "TOPIC_DELETED_IN_USE"


def test_the_state_of_another_topic_is_lost_without_an_excuse() -> None:
    talk = Conversation()
    a, b = leader(talk), leader(talk, topic=OTHER)
    a.write(100, (100, 109, 2, 1)).accepted()
    done(delete(admin(talk), OTHER, "u"), OTHER, "u")
    a.read(1).given(-1)
    b.write(100).refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    (finding,) = [found for found in explained(talk) if found.code == "STATE_LOST"]
    assert finding.verdict == "unknown"


def explained(talk: Conversation) -> list[Finding]:
    """Return the findings of all rules, with the incidents that explain them."""
    page = events(talk, JUDGED)
    analyzer, observer, stage = Analyzer(), Observer(registry()), Incidents(registry())
    stage.page(page, observer.page(page))
    stage.close()
    return [stage.explanations.explained(it) for it in (*analyzer.page(page), *analyzer.close())]


def test_a_client_that_deletes_its_own_topic_is_done_with_it() -> None:
    talk = Conversation()
    connection = talk.connection()
    talk.member("a", connection=connection).share_fetch(0, [0]).answered()
    done(delete(connection))
    assert deleted(talk) == []
