"""`--tls-keys`: every command that reads captures reads what is inside TLS, with the secrets beside a capture or inside
it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kshark.capture.keys import KeyFile
from tests.cli.command import Run
from tests.conversation import Conversation, Member
from tests.tls.files import write_files
from tests.tls.speaking import BROKER_NAME, Secrets, connection


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A capture of a member that counts an epoch twice, its key log, and a pcapng that holds both."""
    talk, secrets = Conversation(), Secrets()
    member = Member(connection(talk, secrets), "g", "a".ljust(22, "A"))
    member.join()
    for epoch, error in ((0, 0), (1, 0), (3, 123)):
        member.share_fetch(epoch).answered(error)
    member.connection.close()
    return write_files(tmp_path_factory.mktemp("tls"), talk, secrets)


COMMANDS = (
    *("read -T json", "check -T json"),
    *("sessions -T json", "stats -T json", "groups -T json", "deliveries -T json"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_read_what_is_inside_tls(kshark: Run, said: tuple[Path, Path, Path], command: str) -> None:
    capture, keys, both = said
    name, *words = command.split()
    beside, inside = kshark(name, *words, "--tls-keys", keys, capture), kshark(name, *words, both)
    assert beside.out == inside.out
    assert beside.code == inside.code == (1 if name == "check" else 0)
    assert "TLS" not in beside.err
    assert "TLS_UNREAD" in kshark(name, *words, capture).err


def test_a_violation_is_found_under_tls(kshark: Run, said: tuple[Path, Path, Path]) -> None:
    capture, keys, _ = said
    done = kshark("check", "-T", "json", "--tls-keys", keys, capture)
    found, summary = done.findings, done.json[-1]
    assert ("EPOCH_SKIP_AHEAD", "violation", "client") in [
        (each["code"], each["verdict"], each["blame"]) for each in found
    ]
    assert summary["summary"]["covered"]["tls_connections"] == 0


def test_exports_with_other_keys_are_other_exports(kshark: Run, said: tuple[Path, Path, Path], tmp_path: Path) -> None:
    capture, keys, _ = said
    export = ("export", "-q", "-o", tmp_path / "t", "--resume")
    assert kshark(*export, capture).code == 0
    assert kshark(*export, "--tls-keys", keys, capture).code == 0
    assert pq.read_table(tmp_path / "t" / "exchanges").num_rows == 5
    assert keys.read_text().split()[-1] not in (tmp_path / "t" / "manifest.json").read_text()


def test_connections_without_keys_are_told_once(kshark: Run, said: tuple[Path, Path, Path]) -> None:
    err = kshark("read", said[0]).err
    assert err.count(f"no keys for it: 10.0.0.9:9092 ({BROKER_NAME}), TLS 1.3") == 1


def test_the_environment_is_not_looked_at(
    kshark: Run, said: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(said[1]))
    assert kshark("read", said[0]).out == ""


def test_what_is_no_key_log_is_bad_usage(
    kshark: Run, said: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, keys, _ = said
    assert kshark("read", "--tls-keys", capture, capture).code == 2
    done = kshark("read", "--tls-keys", keys.with_name("none"), capture)
    assert (done.code, done.err.strip()) == (2, f"kshark: {keys.with_name('none')}: no such file or directory")
    monkeypatch.setattr("kshark.capture.keys.is_installed", lambda: False)
    done = kshark("read", "--tls-keys", keys, capture)
    assert (done.code, done.out) == (2, "")
    assert "pip install 'kshark[tls]'" in done.err


def test_secrets_inside_a_capture_are_no_bad_usage(
    kshark: Run, said: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshark.tls.connection.is_installed", lambda: False)
    done = kshark("read", said[2])
    assert (done.code, done.out) == (0, "")
    assert "pip install 'kshark[tls]'" in done.err


def test_a_key_log_that_grows_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"")
    file = KeyFile(path)
    assert file.more() == b""
    path.write_bytes(b"CLIENT_RANDOM a b\nCLIENT_R")
    assert file.more() == b"CLIENT_RANDOM a b\n"
    assert file.more() == b""
    path.write_bytes(b"CLIENT_RANDOM a b\nCLIENT_RANDOM c d\n")
    assert (file.more(), file.more()) == (b"CLIENT_RANDOM c d\n", b"")


def test_a_key_log_stays_open_and_its_successor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"CLIENT_RANDOM a b\n")
    file = KeyFile(path)
    path.rename(tmp_path / "old")
    assert file.more() == b"CLIENT_RANDOM a b\n"
    path.write_bytes(b"CLIENT_RANDOM c d\n")
    assert (file.more(), file.more()) == (b"CLIENT_RANDOM c d\n", b"")
    file.close()
