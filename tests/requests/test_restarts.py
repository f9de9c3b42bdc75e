"""A request log shows a restart of its broker: the numbers of connections begin anew after a silence."""

from __future__ import annotations

from kshark.capture import read_bytes
from kshark.model import Closed
from tests.requests.test_request_log import accused, at, events, judged, line, log_of


def connection(client: int, numbers: str) -> bytes:
    return b"127.0.0.1:9092-10.0.0.1:%d-%b" % (client, numbers.encode())


def request(second: int, number: int, client: int, numbers: str) -> bytes:
    return at(second, line(number, connection=connection(client, numbers)))


def ends(data: bytes) -> list[tuple[str, str, int]]:
    """Return how connections ended, their client's port, and the second."""
    return [
        (it.how, it.flow.client.rpartition(":")[2], it.time_ns // 1_000_000_000 % 60)
        for it in events(data)
        if type(it) is Closed
    ]


def test_reused_numbers_show_a_restart_in_the_longest_silence() -> None:
    before = request(1, 1, 50001, "0-0") + request(1, 2, 50002, "1-0") + request(3, 3, 50001, "0-0")
    after = request(20, 4, 50003, "1-0") + request(22, 5, 50004, "0-0") + request(23, 6, 50003, "1-0")
    assert ends(before + after) == [
        ("restart", "50002", 3),
        ("restart", "50001", 3),
        ("capture", "50004", 22),
        ("capture", "50003", 23),
    ]


def test_a_connection_that_lasts_over_the_silence_shows_that_there_was_no_restart() -> None:
    """Another listener with the same address, or lines of two brokers in one file."""
    lines = request(1, 1, 50001, "0-0") + request(1, 2, 50002, "1-0")
    lines += request(20, 3, 50001, "0-0") + request(20, 4, 50003, "1-0") + request(30, 5, 50001, "0-0")
    assert "restart" not in {how for how, *_ in ends(lines)}


def test_numbers_without_their_processor_show_nothing() -> None:
    """Before 4.0, connections of several processors have the same numbers."""
    lines = request(1, 1, 50001, "0") + request(20, 2, 50002, "0") + request(21, 3, 50003, "0")
    assert "restart" not in {how for how, *_ in ends(lines)}


def test_silence_alone_is_no_restart() -> None:
    lines = request(1, 1, 50001, "0-0") + request(20, 2, 50002, "0-1") + request(50, 3, 50001, "0-0")
    assert {how for how, *_ in ends(lines)} == {"capture"}


def test_check_names_the_restart_and_what_it_explains() -> None:
    findings = judged(read_bytes(log_of("share-restart")))
    downs = [it for it in findings if it.code == "BROKER_DOWN" and it.broker == "127.0.0.1:20092"]
    assert [str(it.argument).split(" (")[0] for it in downs] == [
        "Broker 127.0.0.1:20092 was down for at most 12.9 s",
        "Broker 127.0.0.1:20092 was down for at most 17.8 s",
    ]
    assert {it.cause for it in findings if it.code == "SESSION_UNKNOWN"} == {"broker_restart"}
    assert not accused(findings)
    assert "HEARTBEAT_LATE" not in {it.code for it in findings}
