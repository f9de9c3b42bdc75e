"""What users see of a client behind a proxy: lines, JSON, fields, filters, connections; and a snapshot in a header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kshark
from kshark.analysis import Analyzer
from kshark.cli import main
from kshark.pipeline import Engine
from kshark.snapshot import load, save
from tests.conversation import Conversation
from tests.packets import batch, pcap
from tests.proxy.making import ALL, AWS, CLIENT, ipv4, ipv6
from tests.proxy.test_stage import messages, read

PROXY = "10.0.0.5:50001"
REAL = f"{CLIENT}:41000"


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """A client behind a proxy, and a direct one."""
    talk = Conversation()
    talk.connection(host="10.0.0.5", header=ipv4(41_000, AWS)).close()
    talk.connection().close()
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(talk.wire.packets))
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main([*arguments])
    return capsys.readouterr().out


def test_lines(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "read", capture).splitlines()
    assert f" {REAL} via proxy {PROXY} → 10.0.0.9:9092 ApiVersions" in lines[0]
    assert f" {REAL} via proxy {PROXY} ← 10.0.0.9:9092 ApiVersions" in lines[1]
    assert " 10.0.0.1:50002 → 10.0.0.9:9092 ApiVersions" in lines[2]
    assert f"{REAL} via proxy {PROXY} → 10.0.0.9:9092" in printed(capsys, "read", "-V", capture)


def test_json(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = [json.loads(line) for line in printed(capsys, "read", "-T", "json", capture).splitlines()]
    assert [(message["client"], message.get("proxy")) for message in found] == [
        (REAL, PROXY), (REAL, PROXY), ("10.0.0.1:50002", None), ("10.0.0.1:50002", None),
    ]  # fmt: skip
    assert ["proxy" in message for message in found] == [True, True, False, False]
    assert [message.proxy for message in kshark.read(capture)][:2] == [PROXY, PROXY]


def test_fields(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("kafka.client", "kafka.proxy", "ip.src", "ip.dst", "tcp.port")
    options = [option for name in names for option in ("-e", name)]
    lines = printed(capsys, "read", "-T", "fields", *options, capture).splitlines()
    assert lines[0].split("\t") == [REAL, PROXY, f"{CLIENT},10.0.0.5", "10.0.0.9", "41000,50001,9092"]
    assert lines[1].split("\t") == [REAL, PROXY, "10.0.0.9", f"{CLIENT},10.0.0.5", "9092,41000,50001"]
    assert lines[2].split("\t") == ["10.0.0.1:50002", "", "10.0.0.1", "10.0.0.9", "50002,9092"]


@pytest.mark.parametrize(
    ("condition", "number"),
    [
        (f'kafka.client == "{REAL}"', 2),
        (f'kafka.proxy == "{PROXY}"', 2),
        ("kafka.proxy", 2),
        ("!kafka.proxy", 2),
        (f"ip.addr == {CLIENT}", 2),
        ("ip.addr == 10.0.0.5", 2),
        ("ip.src == 10.0.0.5", 1),
        ("ip.dst == 203.0.113.0/24", 1),
        ("tcp.port == 41000", 2),
        ("tcp.srcport == 50001", 1),
        ("ip.addr == 10.0.0.1", 2),
        ("ip.addr != 10.0.0.5", 2),
    ],
)
def test_filters(condition: str, number: int, capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(printed(capsys, "read", "-Y", condition, capture).splitlines()) == number


def test_connections(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "stats", "--flows", "-T", "json", capture)
    found: list[Any] = [flow for line in text.splitlines() if "flow" in (flow := json.loads(line))]
    (flow,) = (flow for flow in found if flow["client"] == REAL)
    assert flow["proxy"] == PROXY
    (header,) = flow["proxy_headers"]
    assert header["tlvs"] == [{"type": 234, "name": "aws_vpc_endpoint_id", "value": "vpce-08d2bf15fac5001c9"}]
    assert flow["from_client"]["proxy_bytes"] == len(ipv4(41_000, AWS))
    assert f"{REAL} via proxy {PROXY}" in printed(capsys, "stats", "--flows", capture)


def test_a_refused_header_alone_on_a_port_that_is_kafka(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = Conversation()
    closed = talk.connection(host="10.0.0.5", header=ipv4(41_000), introduced=False).tcp
    closed.fin(1)
    closed.fin(0)
    talk.connection(host="10.0.0.5", header=ipv4(41_000), introduced=False).tcp.reset(1)
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(talk.wire.packets))
    assert "PROXY_HEADER_REFUSED" not in printed(capsys, "check", str(path))
    text = printed(capsys, "check", "-T", "json", "-d", "tcp.port==9092,kafka", str(path))
    found = [json.loads(line) for line in text.splitlines()]
    codes = [(finding["code"], finding["verdict"], finding["proxy"]) for finding in found if "code" in finding]
    assert codes == [
        ("PROXY_HEADER_REFUSED", "unknown", "10.0.0.5:50001"),
        ("PROXY_HEADER_REFUSED", "unknown", "10.0.0.5:50002"),
    ]


def test_a_snapshot_inside_a_header() -> None:
    talk = Conversation()
    connection = talk.connection(host="10.0.0.5", introduced=False)
    connection.tcp.client(ipv6(41_000, ALL), mss=10)
    connection.api_versions("4.3")
    connection.close()
    packets = talk.wire.packets
    expected = [event for page in Engine().pages([batch(packets)]) for event in page]
    assert messages(expected) == read("[2001:db8::7]:41000", PROXY)
    for cut in range(3, len(packets), 2):
        engine = Engine()
        before = [event for page in engine.feed(batch(packets[:cut])) for event in page]
        engine, _, _ = load(save(engine, Analyzer(), None))
        after = [event for page in engine.pages([batch(packets[cut:], cut + 1)]) for event in page]
        assert messages([*before, *after]) == messages(expected)
