"""Exit code 3: there is nothing that could be judged, and one sentence says why and what to do."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.cli.command import Run
from tests.packets import Tcp, Wire, pcap
from tests.shared import CAPTURES
from tests.weird_captures import Bench, hello_without_keys

EPOCHS = CAPTURES / "adv-epochs.pcap"
CLEAN = CAPTURES / "share-java-explicit.pcap"


def http() -> bytes:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(b"GET / HTTP/1.1\r\n\r\n")
    tcp.broker(b"HTTP/1.1 200 OK\r\n\r\n")
    tcp.close()
    return pcap(wire.packets)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    (tmp_path / "tls").mkdir()
    [tls] = hello_without_keys(Bench(tmp_path / "tls", monkeypatch))
    contents = {
        "no packets": pcap([]),
        "HTTP": http(),
        "no bytes": b"",
        "destroyed": EPOCHS.read_bytes().replace(b"\n", b"\r\n"),
        "text": b"hello",
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.pcap").write_bytes(content)
    return {"TLS": tls, **{name: tmp_path / f"{name}.pcap" for name in contents}}


WHY = {
    "TLS": "kshark: nothing could be judged: TLS hides the messages: give a key log with --tls-keys FILE",
    "no packets": "kshark: nothing could be judged: no TCP connection was read",
    "HTTP": "kshark: nothing could be judged: no connection was recognised as Kafka: if one is, name its port with -d",
    "no bytes": "but an empty file",
    "destroyed": "kshark: nothing could be judged: the file was destroyed: record again",
}


@pytest.mark.parametrize("name", WHY)
@pytest.mark.parametrize("way", [("-T", "text"), ("-T", "json"), ("-q",)], ids=" ".join)
def test_check_says_why_nothing_could_be_judged(
    kshark: Run, files: dict[str, Path], name: str, way: tuple[str, ...]
) -> None:
    done = kshark("check", files[name], *way)
    assert done.code == 3
    [line] = [line for line in done.err.splitlines() if WHY[name] in line]
    assert line.startswith("kshark: ")


def test_a_report_has_the_same_exit_code(kshark: Run, files: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert kshark("report", files["HTTP"], "-o", tmp_path / "report").code == 3


def test_what_is_no_capture_stays_2(kshark: Run, files: dict[str, Path]) -> None:
    assert kshark("check", files["text"]).code == 2
    assert [kshark(command, files["no bytes"]).code for command in ("read", "stats", "sessions")] == [2] * 3


def test_fail_on_nothing_checked_comes_first(kshark: Run, files: dict[str, Path]) -> None:
    assert kshark("check", files["HTTP"], "--fail-on", "nothing-checked").code == 1


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_of_several_captures_one_that_was_judged_decides(kshark: Run, files: dict[str, Path], jobs: str) -> None:
    def code(*named: Path) -> int:
        return kshark("check", "--each", "--jobs", jobs, "-q", *named).code

    assert code(files["HTTP"], files["no packets"]) == 3
    assert code(files["HTTP"], CLEAN) == 0
    assert code(EPOCHS, files["HTTP"]) == 1


def test_a_few_messages_beside_tls_are_no_verdict(kshark: Run, files: dict[str, Path], tmp_path: Path) -> None:
    """A client without TLS on a TLS listener: only its ApiVersions is read."""
    wire = Wire()
    tcp = Tcp(wire, source="10.0.0.7:1").open()
    tcp.client(struct.pack(">ihhih", 11, 18, 0, 1, 1) + b"c")
    tcp.close()
    plain = tmp_path / "plain.pcap"
    plain.write_bytes(pcap(wire.packets))
    assert kshark("check", plain).code == 0
    assert kshark("check", plain, files["TLS"]).code == 3
