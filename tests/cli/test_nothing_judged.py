"""Exit code 3: there is nothing that could be judged, and one sentence says why and what to do."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kshark.capture import open_capture
from tests.capture.files import rows
from tests.cli.command import Run
from tests.packets import Packet, Tcp, Wire, pcap
from tests.shared import CAPTURES
from tests.weird_captures import Bench, hello_without_keys

EPOCHS = CAPTURES / "adv-epochs.pcap"
#: Ports of the brokers of EPOCHS.
PORTS = (20092, 20093)
CLEAN = CAPTURES / "share-java-explicit.pcap"


def http() -> bytes:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(b"GET / HTTP/1.1\r\n\r\n")
    tcp.broker(b"HTTP/1.1 200 OK\r\n\r\n")
    tcp.close()
    return pcap(wire.packets)


def one_direction(kind: str) -> bytes:
    """The packets of a capture that clients sent, or those that brokers sent."""
    kept = []
    for row in rows(open_capture(EPOCHS)):
        source, target = struct.unpack(">HH", row.data[34:38])
        if (source in PORTS) is (kind == "responses") and (source in PORTS or target in PORTS):
            kept.append(Packet(row.time_ns, row.data, row.wire_length))
    return pcap(kept)


def unanswered() -> bytes:
    """Six requests that the broker receives and does not answer."""
    wire = Wire()
    tcp = Tcp(wire).open()
    for number in range(6):
        tcp.client(struct.pack(">ihhih", 15, 3, 0, number, 1) + b"c" + bytes(4))
        tcp.acknowledge(1)
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
    for name in ("requests", "responses"):
        (tmp_path / f"{name}.pcap").write_bytes(one_direction(name))
    named = {name: tmp_path / f"{name}.pcap" for name in ("requests", "responses")}
    return {"TLS": tls, **named, **{name: tmp_path / f"{name}.pcap" for name in contents}}


WHY = {
    "TLS": "othing could be judged: 1 connection to 10.0.0.9:9092 is TLS, and no keys were "
    "given. Use --tls-keys FILE; how to get one: kshark explain tls-keys",
    "no packets": "othing could be judged: it has no TCP connection. Check the interface and the filter",
    "HTTP": "othing could be judged: none of its connections is Kafka: 1 connection to port 9092 (HTTP). If one is, "
    "name its port with -d tcp.port==9092,kafka",
    "destroyed": "othing could be judged: it is a capture that a terminal destroyed: it put CR before every LF; ",
    "requests": "othing could be judged: the capture has only requests. Record both directions",
    "responses": "othing could be judged: the capture has only responses. Record both directions",
}


@pytest.mark.parametrize("name", WHY)
@pytest.mark.parametrize("way", [("-T", "text"), ("-q",)], ids=" ".join)
def test_the_first_line_of_a_check_says_why_nothing_could_be_judged(
    kshark: Run, files: dict[str, Path], name: str, way: tuple[str, ...]
) -> None:
    done = kshark("check", files[name], *way)
    assert done.code == 3
    assert done.lines[0].startswith(f"N{WHY[name]}")
    assert "othing could be judged" not in done.err


@pytest.mark.parametrize("name", WHY)
def test_beside_json_it_stands_on_stderr(kshark: Run, files: dict[str, Path], name: str) -> None:
    done = kshark("check", files[name], "-T", "json")
    assert done.code == 3
    [line] = [line for line in done.err.splitlines() if "othing could be judged" in line]
    assert line.startswith(f"kshark: n{WHY[name]}")
    assert done.json[-1]["summary"]["violations"] == 0


def test_of_an_empty_file_too(kshark: Run, files: dict[str, Path]) -> None:
    done = kshark("check", files["no bytes"])
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("kshark: nothing could be judged: ")
    assert "an empty file" in done.err


@pytest.mark.parametrize("command", ["deliveries", "groups", "sessions", "stats", "read"])
@pytest.mark.parametrize("name", ["TLS", "HTTP", "no packets", "destroyed"])
def test_commands_without_a_verdict_say_it_on_stderr(
    kshark: Run, files: dict[str, Path], command: str, name: str
) -> None:
    done = kshark(command, files[name])
    assert done.code == 0
    why = WHY[name].removeprefix("othing could be judged: ")
    assert done.err.startswith(f"kshark: no message could be read: {why}")


def test_a_silent_broker_is_not_a_capture_of_one_direction(kshark: Run, tmp_path: Path) -> None:
    """The broker acknowledges every packet and answers nothing: this can be judged."""
    path = tmp_path / "silent.pcap"
    path.write_bytes(unanswered())
    assert kshark("check", path).code == 0


def test_how_to_get_keys_is_explained(kshark: Run) -> None:
    page = kshark("explain", "tls-keys").out
    for word in (
        "SSLKEYLOGFILE",
        "OpenSSL 3.5",
        "-javaagent",
        "jSSLKeyLog",
        "KeyLogWriter",
        "keylog_filename",
        "TLS 1.3",
    ):
        assert word in page


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
    assert code(files["text"], files["HTTP"], CLEAN) == 0
    assert code(files["text"], files["HTTP"]) == 3
    assert code(files["text"], files["text"]) == 2
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
