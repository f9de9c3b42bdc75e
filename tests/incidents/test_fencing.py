"""Fenced producers, as conversations: rule 155."""

from __future__ import annotations

from kshark.model import Finding
from kshark_dissectors.enums import ErrorCode as E
from tests.conversation import Asked, Connection, Conversation, Thinned, note, unknown, violation
from tests.incidents.talks import incidents
from tests.incidents.test_retries import client


def fenced(talk: Conversation | Thinned) -> list[Finding]:
    return [it for it in incidents(talk) if it.code == "PRODUCER_FENCED"]


def init(connection: Connection, epoch: int, timeout_ms: int = 60_000) -> Asked:
    body = {"transactional_id": "tx", "transaction_timeout_ms": timeout_ms, "producer_id": -1, "producer_epoch": -1}
    return connection.ask(22, "InitProducerId", 4, body).answered(producer_id=9, producer_epoch=epoch)


def end(connection: Connection, epoch: int, error: int = 0) -> Asked:
    body = {"transactional_id": "tx", "producer_id": 9, "producer_epoch": epoch, "committed": True}
    return connection.ask(26, "EndTxn", 3, body).answered(int(error))


def two(talk: Conversation) -> tuple[Connection, Connection]:
    return client(talk, "a", host="10.0.0.3"), client(talk, "b", host="10.0.0.4")


def test_another_client_takes_the_id_over() -> None:
    talk = Conversation()
    a, b = two(talk)
    init(a, 0)
    init(b, 1)
    end(b, 1)
    late = end(a, 0, E.PRODUCER_FENCED)
    (found,) = fenced(talk)
    assert found == note("PRODUCER_FENCED", late, "taken_over")
    assert "client b (10.0.0.4) has taken it over" in found.argument


def test_a_client_that_starts_anew_fences_its_old_connection() -> None:
    talk = Conversation()
    old = client(talk, "a")
    init(old, 0)
    init(client(talk, "a"), 1)
    late = end(old, 0, E.INVALID_PRODUCER_EPOCH)
    assert fenced(talk) == [note("PRODUCER_FENCED", late, "restarted")]


def test_two_processes_take_the_id_from_each_other() -> None:
    talk = Conversation()
    a, b = two(talk)
    init(a, 0)
    init(b, 1)
    first = end(a, 0, E.PRODUCER_FENCED)
    init(a, 2)
    second = end(b, 1, E.PRODUCER_FENCED)
    assert fenced(talk) == [
        note("PRODUCER_FENCED", first, "taken_over"),
        violation("PRODUCER_FENCED", second, "client", "two_processes"),
    ]
    missing = talk.without_packets(first.all_packets)
    assert not [it for it in fenced(missing) if it.verdict == "violation"]


def test_a_client_that_moves_back_after_a_while_is_not_accused() -> None:
    talk = Conversation()
    a, b = two(talk)
    init(a, 0)
    init(b, 1)
    end(a, 0, E.PRODUCER_FENCED)
    talk.pause(600)
    init(a, 2)
    end(b, 1, E.PRODUCER_FENCED)
    assert [it.cause for it in fenced(talk)] == ["taken_over", "taken_over"]


def test_a_client_that_restarts_elsewhere_and_returns_is_not_accused() -> None:
    """Nobody sends with the id of the other one: the old process was gone each time."""
    talk = Conversation()
    a, b = two(talk)
    init(a, 0)
    init(b, 1)
    init(a, 2)
    end(a, 2)
    assert fenced(talk) == []


def test_a_transaction_is_open_for_too_long() -> None:
    talk = Conversation()
    a = client(talk, "a")
    init(a, 0, 5_000)
    talk.pause(10)
    late = end(a, 0, E.INVALID_PRODUCER_EPOCH)
    assert fenced(talk) == [note("PRODUCER_FENCED", late, "timed_out")]


def test_who_did_it_before_the_capture_is_unknown() -> None:
    talk = Conversation()
    late = end(client(talk, "a"), 0, E.PRODUCER_FENCED)
    assert fenced(talk) == [unknown("PRODUCER_FENCED", late, "beginning_not_seen", "unknown")]


def test_its_own_id_is_the_last_one_that_is_shown() -> None:
    talk = Conversation()
    a = client(talk, "a")
    init(a, 0)
    late = end(a, 0, E.PRODUCER_FENCED)
    assert fenced(talk) == [unknown("PRODUCER_FENCED", late, "hidden_traffic", "unknown")]
