"""`kshark.testing`: what the author of a client writes in their own tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kshark.errors import UnreadableInput, UsageError
from kshark.testing import Capture, assert_conforms
from tests.cli.incident import written
from tests.shared import CAPTURES, ROOT, pythonpath

EPOCHS = CAPTURES / "adv-epochs.pcap"


def complaint(capture: Path, **options: object) -> str:
    with pytest.raises(AssertionError) as raised:
        assert_conforms(capture, **options)  # type: ignore[arg-type]
    return str(raised.value)


def test_a_client_that_keeps_the_rules_conforms() -> None:
    assert_conforms(CAPTURES / "share-java-explicit.pcap", client="sa", require=["EPOCH_REPLAY"], complete=True)
    assert_conforms(str(EPOCHS), client="admin")
    assert_conforms(Capture(CAPTURES / "share-librdkafka.pcap"), client="confluent-kafka-python")


def test_what_a_client_did_is_in_the_assertion() -> None:
    text = complaint(EPOCHS, client="A")
    assert text.splitlines()[0] == "A does not conform (adv-epochs.pcap):"
    assert "  Client A (raw-share-client 1.0) sent acknowledgements with the ShareFetch that opens a session" in text
    assert "    → When a session is lost, drop the acknowledgements that were not sent" in text
    assert "  EPOCH_REPLAY ×2: The last used epoch came again: the same request was sent twice." in text
    assert "NO_RECOVERY ×3" in text
    assert "NO_RECOVERY ×9" in complaint(EPOCHS, client="raw-share-client", complete=True)
    assert "raw-share-client 1.0 does not conform" in complaint(EPOCHS, client="raw-share-client 1.0")
    assert "a client does not conform" in complaint(EPOCHS)


def test_faults_of_brokers_are_not_the_clients() -> None:
    assert_conforms(CAPTURES / "aimed-4.1.2.pcap", client="A8")


def test_rules_that_must_have_been_tested() -> None:
    text = complaint(EPOCHS, client="admin", require=["NO_RECOVERY", "BATCH_CRC"])
    assert text.splitlines()[1:] == [
        "  never tested: NO_RECOVERY (kshark check FILE --coverage --recipes says how to test them)"
    ]
    assert "never tested: SASL_SEQUENCE, EPOCH_REPLAY, " in complaint(EPOCHS, client="admin", require="all")


def test_known_findings_are_left_out(tmp_path: Path) -> None:
    from kshark.cli import main

    known = tmp_path / "known.jsonl"
    main(["check", str(EPOCHS), "-q", "--write-baseline", str(known)])
    assert_conforms(EPOCHS, client="A", baseline=known)


def test_a_client_that_is_not_there_does_not_conform(tmp_path: Path) -> None:
    assert complaint(EPOCHS, client="Z") == "adv-epochs.pcap: no request of client Z; clients in it: A, admin"
    assert "empty.pcap: nothing could be judged: " in complaint(written(tmp_path, [], "empty.pcap"))


def test_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='no rule "NO_SUCH"'):
        assert_conforms(EPOCHS, require=["NO_SUCH"])
    with pytest.raises(UsageError, match="nowhere"):
        assert_conforms(EPOCHS, baseline="nowhere.jsonl")
    with pytest.raises(UnreadableInput):
        assert_conforms(tmp_path / "nowhere.pcap")


# -- the fixture, in a project of its own


#: The two files that the page about CI shows.
CONFTEST, SHOWN = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/ci.md").read_text(), re.M | re.S)


def project(folder: Path, test: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a project with one test file, and the conftest.py of the page about CI."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "my_client.py").write_text(_CLIENT)
    (folder / "test_client.py").write_text(test)
    return subprocess.run(
        [os.sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "--strict-markers", str(folder)],  # type: ignore[attr-defined]
        capture_output=True, text=True, cwd=folder, check=False,
        env={**os.environ, "PYTHONPATH": pythonpath(ROOT), **environment},
    )  # fmt: skip


def test_a_test_may_read_a_file(tmp_path: Path) -> None:
    done = project(
        tmp_path,
        f"""
import pytest
from kshark.testing import assert_conforms

@pytest.mark.kafka_capture(file={str(EPOCHS)!r})
@pytest.mark.parametrize("client", ["admin", "A"])
def test_client(kafka_capture, client):
    assert_conforms(kafka_capture, client=client)
""",
    )
    assert done.returncode == 1, done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "A does not conform (adv-epochs.pcap):" in done.stdout
    assert "kshark/testing.py" not in done.stdout.partition("short test summary")[0].partition("FAILURES")[2]


#: A broker of one answer, and a client that asks it.
_CLIENT = """
import socket, threading

def consume(client_id, port=9092):
    name = client_id.encode()
    head = bytes.fromhex("0012" "0000" "00000001") + len(name).to_bytes(2, "big") + name
    request = len(head).to_bytes(4, "big") + head
    answer = bytes.fromhex("00000010" "00000001" "0000" "00000001" "0012" "0000" "0003")
    with socket.create_server(("127.0.0.1", port)) as server:
        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)
                connection.recv(1)
        broker = threading.Thread(target=serve)
        broker.start()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(request)
            client.recv(1000)
        broker.join()
"""
_CONVERSATION = """
import pytest
from kshark.testing import assert_conforms
from my_client import consume

@pytest.mark.kafka_capture(interface="lo", port=29092)
def test_client(kafka_capture):
    consume("test", port=29092)
    assert_conforms(kafka_capture, client="test", require=["VERSION_NOT_ADVERTISED"], complete=True)
    assert kafka_capture.dropped == 0
    assert kafka_capture.stop() == kafka_capture.path
"""


def test_a_test_may_capture_its_traffic(tmp_path: Path) -> None:
    done = project(tmp_path, _CONVERSATION)
    assert done.returncode == 0, done.stdout + done.stderr
    if "1 skipped" in done.stdout:
        assert "kafka_capture needs " in done.stdout
        pytest.skip("it needs tcpdump and the right to capture")
    assert "1 passed" in done.stdout


def test_the_files_of_the_page_work_as_they_are(tmp_path: Path) -> None:
    done = project(tmp_path, SHOWN)
    assert done.returncode == 0, done.stdout + done.stderr
    if "1 skipped" in done.stdout:
        assert "kafka_capture needs " in done.stdout
        pytest.skip("it needs tcpdump and the right to capture")
    assert "1 passed" in done.stdout


def test_the_test_of_the_page_can_read_a_file(tmp_path: Path) -> None:
    """Where nothing can be captured: the same code, with the packets of a file."""
    reading = SHOWN.replace('interface="lo", port=9092', f'file="{EPOCHS}"').replace('client="billing"', 'client="A"')
    done = project(tmp_path, reading.replace('client_id="billing"', 'client_id="billing", port=29093'))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "A does not conform (adv-epochs.pcap):" in done.stdout


def test_without_tcpdump_the_test_is_skipped(tmp_path: Path) -> None:
    done = project(tmp_path, _CONVERSATION, PATH=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "kafka_capture needs tcpdump, which is not installed" in done.stdout


@pytest.mark.skipif(shutil.which("sh") is None, reason="it needs a shell")
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "tcpdump: lo: You don't have permission to perform this capture on that device",
            "the right to capture: run as",
        ),
        ("tcpdump: nolo: No such device exists", "kafka_capture: tcpdump: nolo: No such device exists"),
    ],
)
def test_without_rights_the_test_is_skipped(said: str, reason: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "tcpdump").write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    (tools / "tcpdump").chmod(0o755)
    done = project(tmp_path, _CONVERSATION, PATH=f"{tools}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
    assert reason in done.stdout
