"""Fetch sessions, as conversations: rules 150 to 152."""

from __future__ import annotations

from typing import Any

import pytest

from kshark.model import Finding
from kshark_dissectors.enums import ErrorCode as E
from tests.analysis.talks import batch_of
from tests.conversation import Asked, Connection, Conversation, Thinned, note, unheard, unknown, violation
from tests.incidents.talks import incidents

LAST = (1 << 31) - 1


def of_sessions(talk: Conversation | Thinned) -> list[Finding]:
    return [it for it in incidents(talk) if it.code.startswith("FETCH_SESSION")]


def consumer(talk: Conversation, client_id: str = "c1", host: str = "10.0.0.1") -> Connection:
    connection = talk.connection(host=host)
    connection.client_id = client_id
    return connection


def fetch(connection: Connection, session: int, epoch: int, version: int = 12, **orders: list[int]) -> Asked:
    """A Fetch; `lists`, `forgets`: partitions of the topic orders."""
    listed = [{"partition": it, "fetch_offset": 5, "partition_max_bytes": 1000} for it in orders.get("lists", ())]
    body: dict[str, Any] = {
        "replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "session_id": session, "session_epoch": epoch,
        "topics": [{"topic": "orders", "partitions": listed}] if listed else [], "rack_id": "",
        "forgotten_topics_data": [{"topic": "orders", "partitions": it} for it in [orders.get("forgets")] if it],
    }  # fmt: skip
    return connection.ask(1, "Fetch", version, body)


def given(asked: Asked, session: int = 7, error: int = 0) -> Asked:
    return asked.answered(int(error), session_id=session, responses=[])


def refused(asked: Asked, error: int = E.INVALID_FETCH_SESSION_EPOCH) -> Asked:
    return given(asked, 0, error)


def opened(talk: Conversation, session: int = 7) -> Connection:
    connection = consumer(talk)
    given(fetch(connection, 0, 0), session)
    return connection


# -- epochs


def test_a_session_whose_epochs_follow_each_other_is_silent() -> None:
    talk = Conversation()
    a = opened(talk)
    for epoch in (1, 2, 3):
        given(fetch(a, 7, epoch))
    given(fetch(a, 7, 0), 8)
    given(fetch(a, 8, 1), 8)
    given(fetch(a, 8, -1), 0)
    assert of_sessions(talk) == []


def test_an_epoch_is_sent_twice() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    wrong = refused(fetch(a, 7, 1))
    assert of_sessions(talk) == [violation("FETCH_SESSION_EPOCH", wrong, "client", "replay")]


def test_an_old_epoch_is_sent_again() -> None:
    talk = Conversation()
    a = opened(talk)
    for epoch in (1, 2, 3):
        given(fetch(a, 7, epoch))
    wrong = refused(fetch(a, 7, 1))
    assert of_sessions(talk) == [violation("FETCH_SESSION_EPOCH", wrong, "client", "stale")]


def test_a_client_that_may_not_have_had_the_answer_is_not_accused() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    wrong = refused(fetch(a, 7, 1))
    assert of_sessions(unheard(talk)) == [unknown("FETCH_SESSION_EPOCH", wrong, "in_flight", "replay")]


def test_an_epoch_is_sent_again_on_another_connection() -> None:
    """The answer may have been lost with the first connection."""
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    a.reset()
    wrong = refused(fetch(consumer(talk), 7, 1))
    assert of_sessions(talk) == [unknown("FETCH_SESSION_EPOCH", wrong, "in_flight", "replay")]


def test_a_request_without_an_answer_is_counted_by_the_client_alone() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    fetch(a, 7, 2)
    a.reset()
    wrong = refused(fetch(consumer(talk), 7, 3))
    assert of_sessions(talk) == [violation("FETCH_SESSION_EPOCH", wrong, "client", "skip_after_timeout")]


def test_a_request_that_is_still_open_may_be_counted_later() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    fetch(a, 7, 2)
    wrong = refused(fetch(consumer(talk), 7, 3))
    assert of_sessions(talk) == [unknown("FETCH_SESSION_EPOCH", wrong, "unanswered", "skip_after_timeout")]


def test_the_answer_to_a_counted_request_is_lost() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    fetch(a, 7, 2)
    a.reset()
    again = refused(fetch(consumer(talk), 7, 2))
    assert of_sessions(talk) == [note("FETCH_SESSION_EPOCH", again, "lost_answer")]


def test_an_answer_that_the_capture_lacks_accuses_nobody() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    missed = given(fetch(a, 7, 2))
    a.close()
    refused(fetch(consumer(talk), 7, 3))
    found = of_sessions(talk.without_packets(missed.answer_packets))
    assert [it.verdict for it in found] == ["unknown"]


def test_an_epoch_is_skipped_for_no_reason_that_is_shown() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    wrong = refused(fetch(a, 7, 4))
    assert of_sessions(talk) == [note("FETCH_SESSION_EPOCH", wrong, "skip_ahead")]


def test_the_epoch_that_is_due_is_refused() -> None:
    """Another connection, which the capture does not have, may have advanced the session."""
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    again = refused(fetch(a, 7, 2))
    assert of_sessions(talk) == [unknown("FETCH_SESSION_EPOCH", again, "hidden_traffic", "unknown")]


def test_a_session_from_before_the_capture_is_unknown() -> None:
    talk = Conversation()
    late = refused(fetch(consumer(talk), 7, 5))
    assert of_sessions(talk) == [unknown("FETCH_SESSION_EPOCH", late, "beginning_not_seen", "unknown")]


def test_the_highest_epoch_is_followed_by_1() -> None:
    talk = Conversation()
    a = consumer(talk)
    given(fetch(a, 7, LAST))
    given(fetch(a, 7, 1))
    given(fetch(a, 7, 2))
    assert of_sessions(talk) == []


def test_an_epoch_below_minus_1_is_no_epoch() -> None:
    talk = Conversation()
    wrong = refused(fetch(opened(talk), 7, -2))
    assert of_sessions(talk) == [note("FETCH_SESSION_EPOCH", wrong, "negative")]


def test_equal_refusals_are_one_finding() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    first, *_, last = [refused(fetch(a, 7, 1)) for _ in range(4)]
    (found,) = of_sessions(talk)
    assert (found.packet, found.until_packet) == (first.packet, last.packet)
    assert "4 times" in found.argument


# -- records that come again


def fetched(asked: Asked, offset: int, session: int = 7) -> Asked:
    """An answer with one record of orders[3]."""
    data = batch_of(offset, offset)
    row = {"partition_index": 3, "error_code": 0, "high_watermark": 100, "records": data, "aborted_transactions": None}
    return asked.answered(session_id=session, responses=[{"topic": "orders", "partitions": [row]}])


def progress(talk: Conversation) -> list[Finding]:
    return [it for it in incidents(talk) if it.code == "FETCH_NO_PROGRESS"]


def test_the_same_records_come_ten_times() -> None:
    talk = Conversation()
    a = opened(talk)
    answers = [fetched(fetch(a, 7, epoch), 5) for epoch in range(1, 13)]
    (found,) = progress(talk)
    assert found == note("FETCH_NO_PROGRESS", answers[9])
    assert (found.partition, found.until_packet) == (3, answers[-1].packet)
    assert "orders[3] from offset 5 on" in found.argument


@pytest.mark.parametrize("other", ["goes on", "lists", "forgets"])
def test_a_consumer_that_goes_on_or_asks_for_them_is_left_alone(other: str) -> None:
    talk = Conversation()
    a = opened(talk)
    for epoch in range(1, 13):
        again = epoch % 9 == 0
        asked = fetch(a, 7, epoch, **({other: [3]} if again and other != "goes on" else {}))
        fetched(asked, 6 if again and other == "goes on" else 5)
    assert progress(talk) == []


# -- sessions that the broker does not know


def gone(asked: Asked) -> Asked:
    return refused(asked, E.FETCH_SESSION_ID_NOT_FOUND)


def test_no_session_has_no_epoch() -> None:
    talk = Conversation()
    wrong = gone(fetch(consumer(talk), 0, 1))
    assert of_sessions(talk) == [violation("FETCH_SESSION_NOT_FOUND", wrong, "client", "never_opened")]


def test_a_session_that_nobody_is_seen_to_open_is_unknown() -> None:
    talk = Conversation()
    late = gone(fetch(consumer(talk), 7, 5))
    assert of_sessions(talk) == [unknown("FETCH_SESSION_NOT_FOUND", late, "beginning_not_seen", "unknown")]


def test_a_session_is_evicted() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1))
    late = gone(fetch(a, 7, 2))
    assert of_sessions(talk) == [note("FETCH_SESSION_NOT_FOUND", late, "evicted")]


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_closed_session_is_used(epoch: int) -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, epoch), 0)
    late = gone(fetch(a, 7, 1))
    assert of_sessions(talk) == [note("FETCH_SESSION_NOT_FOUND", late, "final_epoch")]


def test_a_session_without_partitions_ends() -> None:
    talk = Conversation()
    a = opened(talk)
    given(fetch(a, 7, 1), 0)
    late = gone(fetch(a, 7, 2))
    assert of_sessions(talk) == [note("FETCH_SESSION_NOT_FOUND", late, "emptied")]


def test_a_broker_that_ended_all_its_connections_has_lost_its_sessions() -> None:
    talk = Conversation()
    a, b = opened(talk), consumer(talk, "c2", "10.0.0.2")
    given(fetch(b, 0, 0), 8)
    for connection in (a, b):
        connection.tcp.fin(1)
        connection.tcp.fin(0)
    late = gone(fetch(consumer(talk), 7, 1))
    assert of_sessions(talk) == [note("FETCH_SESSION_NOT_FOUND", late, "broker_restart")]


def test_a_client_that_opens_a_session_with_each_fetch_costs_others_theirs() -> None:
    talk = Conversation()
    a, b = opened(talk), consumer(talk, "thrash", "10.0.0.2")
    for number in range(8):
        given(fetch(b, 0, 0), 100 + number)
    late = gone(fetch(a, 7, 1))
    given(fetch(b, 0, 0), 200)
    found = of_sessions(talk)
    assert found == [
        note("FETCH_SESSION_NOT_FOUND", late, "evicted"),
        violation("FETCH_SESSION_NOT_FOUND", late, "client", "opened_each_time"),
    ]
    victim, opener = found
    assert (victim.client_id, opener.client_id) == ("c1", "thrash")
    assert "client thrash (10.0.0.2), which opens one with each Fetch" in victim.argument
    assert opener.client.startswith("10.0.0.2:")


@pytest.mark.parametrize("how", ["uses", "closes", "has none"])
def test_a_client_that_opens_many_sessions_for_a_reason_is_not_accused(how: str) -> None:
    talk = Conversation()
    a, b = opened(talk), consumer(talk, "other", "10.0.0.2")
    last = 0
    for number in range(8):
        given(fetch(b, last, 0), 0 if how == "has none" else 100 + number)
        if how == "uses":
            given(fetch(b, 100 + number, 1), 100 + number)
        last = 100 + number if how == "closes" else 0
    late = gone(fetch(a, 7, 1))
    assert of_sessions(talk) == [note("FETCH_SESSION_NOT_FOUND", late, "evicted")]


def test_uses_that_the_capture_lacks_accuse_nobody() -> None:
    """Whatever packets are missing: no capture with fewer of them accuses more."""
    talk = Conversation()
    a, b = opened(talk), consumer(talk, "other", "10.0.0.2")
    uses = []
    for number in range(8):
        given(fetch(b, 0, 0), 100 + number)
        uses.append(given(fetch(b, 100 + number, 1), 100 + number))
    gone(fetch(a, 7, 1))
    thinned = talk.without_packets([packet for use in uses for packet in use.all_packets])
    assert not [it for it in of_sessions(thinned) if it.verdict == "violation"]


def test_versions_without_sessions_are_left_alone() -> None:
    talk = Conversation()
    a = consumer(talk)
    body = {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "topics": []}
    a.ask(1, "Fetch", 4, body).answered(None, responses=[])
    assert of_sessions(talk) == []
