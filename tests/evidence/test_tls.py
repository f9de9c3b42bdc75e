"""Copies of captures with TLS: they get the secrets of their connections that stand in the capture, and those of a key
log only on request.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Run
from tests.conversation import Conversation, Member
from tests.tls.files import Files, write_files
from tests.tls.speaking import Secrets, connection


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A capture of two members over TLS, one of which skips an epoch; its key log; a pcapng that holds both."""
    pytest.importorskip("cryptography")
    talk, secrets = Conversation(), Secrets()
    for name, epochs in (("a", ((0, 0), (1, 0), (3, 123))), ("b", ((0, 0), (1, 0), (2, 0)))):
        member = Member(connection(talk, secrets), "g", name.ljust(22, "A"))
        member.join()
        for epoch, error in epochs:
            member.share_fetch(epoch).answered(error)
        member.connection.close()
    return write_files(tmp_path_factory.mktemp("tls"), talk, secrets)


def lines(path: Path) -> int:
    """The lines of secrets in a file."""
    return path.read_bytes().count(b"_TRAFFIC_SECRET") + path.read_bytes().count(b"CLIENT_RANDOM")


SKIPPED = "kafka.error_code == INVALID_SHARE_SESSION_EPOCH"


def test_messages_inside_tls_can_be_read_again(kshark: Run, said: Files, tmp_path: Path) -> None:
    _, _, both = said
    out = tmp_path / "out.pcapng"
    kshark("read", both, "-Y", SKIPPED, "-w", out)
    assert [line["body"]["error_code"] for line in kshark("read", out, "-Y", SKIPPED, "-T", "json").json] == [123]
    assert 0 < lines(out) < lines(both)


def test_secrets_of_a_key_log_are_written_on_request_only(kshark: Run, said: Files, tmp_path: Path) -> None:
    capture, keys, _ = said
    plain, open_ = tmp_path / "plain.pcapng", tmp_path / "open.pcapng"
    kshark("read", capture, "--tls-keys", keys, "-Y", SKIPPED, "-w", plain)
    kshark("read", capture, "--tls-keys", keys, "-Y", SKIPPED, "-w", open_, "--secrets")
    assert lines(plain) == 0
    assert 0 < lines(open_) < lines(keys)
    assert kshark("read", open_, "-Y", SKIPPED, "-T", "json").json


def test_evidence_inside_tls_gives_the_same_finding(kshark: Run, said: Files, tmp_path: Path) -> None:
    capture, keys, both = said
    for words in ([both], [capture, "--tls-keys", keys], [capture, "--tls-keys", keys, "--secrets"]):
        folder = tmp_path / str(len(words))
        kshark("check", *words, "--evidence", folder, "--select", "EPOCH_SKIP_AHEAD", "-q")
        (case,) = folder.iterdir()
        needs_keys = len(words) == 3
        assert ("--tls-keys FILE" in (case / "finding.txt").read_text()) is needs_keys
        again = ["--tls-keys", keys] if needs_keys else []
        codes = [it["code"] for it in kshark("check", case / f"{case.name}.pcapng", *again, "-T", "json").findings]
        assert "EPOCH_SKIP_AHEAD" in codes
        assert (lines(case / f"{case.name}.pcapng") == 0) is needs_keys


def test_an_annotated_capture_keeps_its_secrets(kshark: Run, said: Files, tmp_path: Path) -> None:
    _, _, both = said
    kshark("annotate", both, "-o", tmp_path / "out.pcapng")
    assert lines(tmp_path / "out.pcapng") == lines(both)
    assert kshark("check", tmp_path / "out.pcapng", "-T", "json").out == kshark("check", both, "-T", "json").out
