"""Key log files as people have them: comments, other labels, line ends of Windows, damaged lines."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.tls import KeyLog

RANDOM = "0123456789abcdef" * 4
MASTER = "fe" * 48


def test_secrets_are_found_by_the_client_random() -> None:
    log = KeyLog(
        f"# a comment\nCLIENT_RANDOM {RANDOM} {MASTER}\r\nSERVER_TRAFFIC_SECRET_0 {RANDOM.upper()} "
        f"{'AB' * 32}\n".encode()
    )
    assert log.of(bytes.fromhex(RANDOM)) == {
        "CLIENT_RANDOM": bytes.fromhex(MASTER),
        "SERVER_TRAFFIC_SECRET_0": b"\xab" * 32,
    }
    assert log.of(bytes(32)) == {}
    assert len(log) == 1


@pytest.mark.parametrize(
    "line",
    [
        "",
        "CLIENT_RANDOM",
        f"CLIENT_RANDOM {RANDOM}",
        f"CLIENT_RANDOM {RANDOM[:-1]} {MASTER}",
        f"CLIENT_RANDOM {RANDOM} {MASTER[:-1]}",
        f"CLIENT_RANDOM {RANDOM} {MASTER}{MASTER}",
        f"EXPORTER_SECRET {RANDOM} {MASTER}",
        f"RSA {RANDOM[:16]} {MASTER}",
        f"XCLIENT_RANDOM {RANDOM} {MASTER}",
        f"CLIENT_RANDOM {RANDOM} {MASTER}z",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert len(KeyLog(f"{line}\n".encode())) == 0


def test_the_first_connections_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TLS_KEYS", 3)
    log = KeyLog()
    for number in range(5):
        log.add(f"CLIENT_RANDOM {number:064x} {MASTER}\n".encode())
    assert [bool(log.of(number.to_bytes(32, "big"))) for number in range(5)] == [False, False, True, True, True]
