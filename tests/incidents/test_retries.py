"""Requests that are sent again without what the error asks for, as conversations."""

from __future__ import annotations

import pickle
from typing import Any

from kshark.analysis import Observer
from kshark.incidents import Incidents
from kshark.incidents.remedies import REMEDIES
from kshark.incidents.watchers.retries import RETRY_WITHOUT_REMEDY
from kshark.model import Finding
from kshark.pipeline import JUDGED
from kshark.run import Run
from kshark_dissectors.enums import ErrorCode as E
from tests.analysis.talks import alone, metadata
from tests.conversation import BROKER, Asked, Connection, Conversation, Thinned, events, registry
from tests.incidents.talks import incidents

OTHER = "10.0.0.8:9092"


def loops(talk: Conversation | Thinned) -> list[Finding]:
    return [finding for finding in incidents(talk) if finding.code == "RETRY_WITHOUT_REMEDY"]


def told(talk: Conversation | Thinned) -> list[tuple[str | None, str, str | None]]:
    """Cause, verdict and reason of each loop."""
    return [(finding.cause, finding.verdict, finding.unknown_because) for finding in loops(talk)]


def client(talk: Conversation, client_id: str = "p1", broker: str = BROKER, host: str = "10.0.0.3") -> Connection:
    connection = talk.connection(broker, host, introduced=False)
    connection.client_id = client_id
    return connection


def alone_for(seconds: float = 10) -> Conversation:
    """A cluster of one broker; its metadata is not new."""
    talk = alone()
    talk.pause(seconds)
    return talk


def produce(
    connection: Connection, topic: str = "orders", partition: int = 0, version: int = 9, acks: int = -1
) -> Asked:
    rows = [{"name": topic, "partition_data": [{"index": partition, "records": None}]}]
    body = {"transactional_id": None, "acks": acks, "timeout_ms": 30_000, "topic_data": rows}
    return connection.ask(0, "Produce", version, body)


def refuse(asked: Asked, error: int, topic: str = "orders", partition: int = 0, **fields: Any) -> Asked:
    row = {"index": partition, "error_code": int(error), "base_offset": -1, **fields}
    return asked.answered(None, responses=[{"name": topic, "partition_responses": [row]}])


def retry(talk: Conversation, connection: Connection, error: int, times: int, pause: float = 0.1) -> list[Asked]:
    refused = []
    for _ in range(times):
        refused.append(refuse(produce(connection), error))
        talk.pause(pause)
    return refused


def ask_metadata(connection: Connection) -> None:
    metadata(connection, {1: BROKER})


def heartbeat(connection: Connection, error: int, group: str = "g") -> Asked:
    body = {"group_id": group, "generation_id": 1, "member_id": "m"}
    return connection.ask(12, "Heartbeat", 3, body).answered(error, throttle_time_ms=0)


def join(connection: Connection, member_id: str, given: str = "", error: int = 79, rebalance_ms: int = 60_000) -> Asked:
    body = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": rebalance_ms,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    asked = connection.ask(11, "JoinGroup", 4, body)
    return asked.answered(
        error, throttle_time_ms=0, generation_id=1, protocol_name="", leader="", member_id=given, members=[]
    )


def test_a_producer_asks_for_no_metadata() -> None:
    talk = alone_for()
    refused = retry(talk, client(talk), E.NOT_LEADER_OR_FOLLOWER, 6)
    # Its host was seen with the only broker of the cluster.
    (loop,) = loops(talk)
    assert (loop.cause, loop.verdict, loop.blame) == ("no_metadata_refresh", "violation", "client")
    assert (loop.packet, loop.until_packet) == (refused[0].packet, refused[-1].packet)
    assert (loop.client_id, loop.partition) == ("p1", 0)
    assert loop.argument is not None
    assert loop.argument.startswith(
        f"client p1 (10.0.0.3) sent 6 Produce requests in 0.51 s for orders[0] to broker {BROKER}, "
    )
    assert "sent no Metadata request in between" in loop.argument


def test_four_refusals_are_no_loop() -> None:
    talk = alone_for()
    retry(talk, client(talk), E.NOT_LEADER_OR_FOLLOWER, 4)
    assert not loops(talk)


def test_it_asks_for_metadata_each_time() -> None:
    talk = alone_for()
    a = client(talk)
    for _ in range(8):
        refuse(produce(a), E.NOT_LEADER_OR_FOLLOWER)
        ask_metadata(a)
        talk.pause(0.1)
    assert not loops(talk)


def test_it_asks_for_metadata_on_another_connection_and_broker() -> None:
    talk = alone_for()
    a, b = client(talk), client(talk, broker=OTHER)
    for _ in range(8):
        refuse(produce(a), E.NOT_LEADER_OR_FOLLOWER)
        ask_metadata(b)
        talk.pause(0.1)
    assert not loops(talk)


def test_another_process_asks_for_metadata() -> None:
    talk = alone_for()
    a, b = client(talk), client(talk, "p2")
    for _ in range(8):
        refuse(produce(a), E.NOT_LEADER_OR_FOLLOWER)
        ask_metadata(b)
        talk.pause(0.1)
    assert told(talk) == [("no_metadata_refresh", "violation", None)]


def test_it_waits_with_the_next_metadata_request() -> None:
    talk = alone_for()
    a = client(talk)
    for _ in range(3):
        ask_metadata(a)
        retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 10)
    assert not loops(talk)
    retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 20)
    assert told(talk) == [("no_metadata_refresh", "violation", None)]


def test_an_answer_names_the_leader() -> None:
    talk = alone_for()
    a = client(talk)
    for _ in range(8):
        refuse(produce(a, version=10), E.NOT_LEADER_OR_FOLLOWER, current_leader={"leader_id": 2, "leader_epoch": 3})
        talk.pause(0.1)
    assert not loops(talk)


def test_five_in_flight_are_ordinary() -> None:
    talk = alone_for()
    a = client(talk)
    sent = [produce(a) for _ in range(20)]
    for asked in sent:
        refuse(asked, E.NOT_LEADER_OR_FOLLOWER)
        talk.pause(0.1)
    assert not loops(talk)


def test_the_client_had_not_received_the_refusals() -> None:
    talk = alone_for()
    a = client(talk)
    with a.pipelined():
        retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 10)
    assert not loops(talk)


def test_a_success_in_between() -> None:
    talk = alone_for()
    a = client(talk)
    for _ in range(3):
        retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 4)
        refuse(produce(a), 0)
    assert not loops(talk)


def test_successes_of_another_partition_change_nothing() -> None:
    talk = alone_for()
    a = client(talk)
    for _ in range(6):
        refuse(produce(a), E.NOT_LEADER_OR_FOLLOWER)
        refuse(produce(a, partition=1), 0, partition=1)
        talk.pause(0.1)
    assert told(talk) == [("no_metadata_refresh", "violation", None)]


def test_each_refusal_is_about_another_topic() -> None:
    talk = alone_for()
    a = client(talk)
    for number in range(12):
        refuse(produce(a, f"t{number}"), E.UNKNOWN_TOPIC_OR_PARTITION, f"t{number}")
        talk.pause(0.1)
    assert not loops(talk)


def test_a_topic_was_just_created() -> None:
    talk = alone_for()
    admin, a = client(talk, "admin"), client(talk)
    admin.ask(19, "CreateTopics", 2, {"topics": [], "timeout_ms": 1000, "validate_only": False})
    retry(talk, a, E.UNKNOWN_TOPIC_OR_PARTITION, 10)
    assert not loops(talk)


def test_not_all_brokers_are_captured() -> None:
    talk = Conversation()
    metadata(talk.connection(), {1: BROKER, 2: OTHER})
    talk.pause(10)
    retry(talk, client(talk), E.NOT_LEADER_OR_FOLLOWER, 6)
    assert told(talk) == [("no_metadata_refresh", "unknown", "hidden_traffic")]


def test_no_metadata_at_all_is_captured() -> None:
    talk = Conversation()
    retry(talk, client(talk), E.NOT_LEADER_OR_FOLLOWER, 6)
    assert told(talk) == [("no_metadata_refresh", "unknown", "hidden_traffic")]


def test_a_gap_may_hide_the_metadata_request() -> None:
    talk = alone_for()
    a = client(talk)
    retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 3)
    lost = metadata_packets(talk, a)
    retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 3)
    assert not loops(talk)
    assert all(verdict == "unknown" for _, verdict, _ in told(talk.without_packets(lost)))


def metadata_packets(talk: Conversation, a: Connection) -> list[int]:
    before = len(talk.packets())
    ask_metadata(a)
    return [*range(before + 1, len(talk.packets()) + 1)]


def test_a_producer_does_not_pause() -> None:
    talk = alone_for(0)
    a = client(talk)
    ask_metadata(a)
    retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 60, pause=0)
    (loop,) = loops(talk)
    assert (loop.cause, loop.verdict) == ("no_pause", "note")
    assert "each was sent less than 10 ms" in (loop.argument or "")


def test_a_short_burst_of_queued_batches() -> None:
    talk = alone_for(0)
    a = client(talk)
    ask_metadata(a)
    retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 24, pause=0)
    assert not loops(talk)


def test_a_pause_of_20_ms() -> None:
    talk = alone_for(0)
    a = client(talk)
    ask_metadata(a)
    retry(talk, a, E.CONCURRENT_TRANSACTIONS, 60, pause=0.02)
    assert not loops(talk)


def test_the_next_batch_is_no_retry() -> None:
    talk = alone_for()
    retry(talk, client(talk), E.MESSAGE_TOO_LARGE, 60, pause=0)
    assert not loops(talk)


def test_nobody_looks_up_the_coordinator() -> None:
    talk = alone_for()
    a = client(talk, "c1")
    for _ in range(6):
        heartbeat(a, E.NOT_COORDINATOR)
        talk.pause(0.1)
    (loop,) = loops(talk)
    assert (loop.cause, loop.verdict, loop.group_id) == ("no_coordinator_lookup", "violation", "g")


def test_it_looks_up_the_coordinator() -> None:
    talk = alone_for()
    a, b = client(talk, "c1"), client(talk, "c1")
    for _ in range(6):
        heartbeat(a, E.NOT_COORDINATOR)
        b.ask(10, "FindCoordinator", 2, {"key": "g", "key_type": 0})
        talk.pause(0.1)
    assert not loops(talk)


def test_a_member_does_not_adopt_its_id() -> None:
    talk = Conversation()
    a = client(talk, "c1")
    for number in range(5):
        join(a, "", f"m{number}")
    assert told(talk) == [("member_id_not_adopted", "violation", None)]


def test_members_adopt_their_ids() -> None:
    talk = Conversation()
    a = client(talk, "c1")
    for number in range(8):
        join(a, "", f"m{number}")
        join(a, f"m{number}", f"m{number}", 0)
    assert not loops(talk)


def test_many_members_on_one_connection() -> None:
    talk = Conversation()
    a = client(talk, "c1")
    for number in range(6):
        join(a, "", f"m{number}")
    for number in range(2, 6):
        join(a, f"m{number}", f"m{number}", 0)
    assert not loops(talk)


def test_a_member_does_not_join_again() -> None:
    talk = Conversation()
    a = client(talk, "c1")
    join(a, "m", "m", 0, rebalance_ms=5_000)
    for _ in range(8):
        heartbeat(a, E.REBALANCE_IN_PROGRESS)
        talk.pause(1)
    assert told(talk) == [("no_rejoin", "violation", None)]


def test_a_member_processes_its_records_before_it_joins_again() -> None:
    talk = Conversation()
    a = client(talk, "c1")
    join(a, "m", "m", 0, rebalance_ms=60_000)
    for _ in range(30):
        heartbeat(a, E.REBALANCE_IN_PROGRESS)
        talk.pause(1)
    join(a, "m", "m", 0)
    assert not loops(talk)


def test_a_rebalance_timeout_is_unknown() -> None:
    talk = Conversation()
    a = client(talk, "c1")
    for _ in range(30):
        heartbeat(a, E.REBALANCE_IN_PROGRESS)
        talk.pause(1)
    assert not loops(talk)


def test_rights_are_missing() -> None:
    talk = Conversation()
    retry(talk, client(talk), E.TOPIC_AUTHORIZATION_FAILED, 5, pause=1)
    (loop,) = loops(talk)
    assert (loop.cause, loop.verdict, loop.blame) == ("not_authorized", "note", "client")


def authenticate(connection: Connection, error: int) -> None:
    connection.ask(36, "SaslAuthenticate", 1, {"auth_bytes": b"x"}).answered(
        error, error_message=None, auth_bytes=b"", session_lifetime_ms=0
    )
    connection.close()


def test_a_wrong_password_on_connections_one_after_the_other() -> None:
    talk = Conversation()
    for number in range(6):
        authenticate(client(talk, broker=OTHER if number % 2 else BROKER), E.SASL_AUTHENTICATION_FAILED)
        talk.pause(1)
    (loop,) = loops(talk)
    assert loop.cause == "not_authorized"
    assert "sent 6 SaslAuthenticate requests" in (loop.argument or "")


def test_the_right_password_in_between() -> None:
    talk = Conversation()
    for number in range(12):
        authenticate(client(talk), 0 if number % 4 == 3 else E.SASL_AUTHENTICATION_FAILED)
        talk.pause(1)
    assert not loops(talk)


def test_codes_of_other_rules() -> None:
    talk = Conversation()
    a = talk.member("a")
    for _ in range(60):
        a.share_fetch(5).answered(E.INVALID_SHARE_SESSION_EPOCH)
    assert not loops(talk)


def test_a_replica_fetches() -> None:
    talk = alone_for()
    a = client(talk, "broker-2-fetcher-0")
    rows = [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]}]
    for _ in range(8):
        body = {"replica_id": 2, "max_wait_ms": 500, "min_bytes": 1, "topics": rows}
        partition = {"partition_index": 0, "error_code": 6, "high_watermark": -1, "records": b""}
        responses = [{"topic": "orders", "partitions": [partition]}]
        a.ask(1, "Fetch", 2, body).answered(None, throttle_time_ms=0, responses=responses)
        talk.pause(0.1)
    assert not loops(talk)


def test_the_errors_of_a_loop_are_explained_and_expected_ones_are_not() -> None:
    talk = alone_for()
    a = client(talk)
    retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 6)
    run = Run(registry())
    run.page(events(talk))
    run.close()
    assert not run.observed.ordinary()
    assert run.observed.is_explained
    retry(talk, client(talk, "p2"), E.NOT_LEADER_OR_FOLLOWER, 1)
    run = Run(registry())
    run.page(events(talk))
    run.close()
    assert [(row["count"], row["clients"]) for row in run.observed.ordinary()] == [(1, ["p2"])]
    assert not run.observed.is_explained


def test_each_remedy_has_its_cause() -> None:
    assert {remedy.cause for remedy in REMEDIES} | {"no_pause"} == {*RETRY_WITHOUT_REMEDY.causes}


def test_the_clock_was_stepped_during_the_loop() -> None:
    talk = alone_for()
    a = client(talk)
    talk.wire.stamped = False
    retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 3, pause=0)
    talk.pause(30)
    retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 3, pause=0)
    assert told(talk) == [("no_metadata_refresh", "unknown", "clock")]


def test_a_file_without_times() -> None:
    talk = alone_for()
    retry(talk, client(talk), E.NOT_LEADER_OR_FOLLOWER, 60, pause=0)
    rows = [(number, packet.at(0)) for number, packet in talk.packets()]
    assert not loops(Thinned(rows))


def test_the_requests_are_not_captured() -> None:
    talk = alone_for()
    refused = retry(talk, client(talk), E.NOT_LEADER_OR_FOLLOWER, 8)
    assert not loops(talk.without_packets([packet for asked in refused for packet in asked.packets]))


def test_the_answers_are_not_captured() -> None:
    talk = alone_for()
    refused = retry(talk, client(talk), E.NOT_LEADER_OR_FOLLOWER, 8)
    assert not loops(talk.without_packets([packet for asked in refused for packet in asked.answer_packets]))


def test_a_saved_and_restored_state() -> None:
    talk = alone_for()
    a, b = client(talk), client(talk, "c1")
    for number in range(6):
        refuse(produce(a), E.NOT_LEADER_OR_FOLLOWER)
        join(b, "", f"m{number}")
        authenticate(client(talk, "sasl"), E.SASL_AUTHENTICATION_FAILED)
        talk.pause(0.2)
    pages = [[event] for event in events(talk, JUDGED)]
    observer, stage = Observer(registry()), Incidents(registry())
    found = []
    for number, page in enumerate(pages):
        if number % 40 == 0:
            stage = pickle.loads(pickle.dumps(stage))
        found += stage.page(page, observer.page(page))
    found += stage.close()
    assert sorted(found, key=lambda finding: (finding.packet, finding.code)) == incidents(talk)
    causes = {finding.cause for finding in found if finding.code == "RETRY_WITHOUT_REMEDY"}
    assert causes == {"no_metadata_refresh", "member_id_not_adopted", "not_authorized"}


def test_a_loop_that_is_over_is_reported_after_a_minute() -> None:
    talk = alone_for()
    a, b = client(talk), client(talk, "p2")
    retry(talk, a, E.NOT_LEADER_OR_FOLLOWER, 6)
    talk.pause(61)
    refuse(produce(b), 0)
    stage, observer = Incidents(registry()), Observer(registry())
    found = [finding for event in events(talk, JUDGED) for finding in stage.page([event], observer.page([event]))]
    assert [finding.code for finding in found] == ["RETRY_WITHOUT_REMEDY"]
    assert not [finding for finding in stage.close() if finding.code == "RETRY_WITHOUT_REMEDY"]
