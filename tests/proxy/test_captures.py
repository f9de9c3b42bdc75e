"""Real captures as load balancers would have made them: every connection begins with a PROXY header.

Messages and findings are the same as without the header, but for the client, and for findings that rest on what a
client had received: a load balancer acknowledges for it. tshark reads the same headers.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from kshark.analysis import Analyzer
from kshark.analysis.facts.bases import Awareness
from kshark.analysis.results.findings import in_packet_order
from kshark.analysis.rules import RULES
from kshark.model import Closed, Event, Finding, Flow, Message, ProxyHeader
from kshark.pipeline import Engine, Options
from tests.packets import Packet, batch, batches, pcap
from tests.proxy.making import AWS, AZURE, HEADERS, LAYOUTS, SSL, Maker, ipv4, ipv6, line, of_capture, tlv
from tests.shared import CAPTURES

#: With findings of sessions, with missing packets, with other protocols.
SOURCES = ("adv-epochs.pcap", "share-locks.pcap", "seed-messy.pcap")
_JSON = msgspec.json.Encoder()


#: Rules that rest on what a client had received, and the one that explains the same refusal without it.
REACTIONS = {rule.code for rule in RULES if any(isinstance(basis, Awareness) for basis in rule.rests_on)}
INSTEAD = "EPOCH_SKIP_AHEAD"


def others(lines: list[str]) -> list[str]:
    """All but the findings of these rules."""
    return [line for line in lines if msgspec.json.decode(line).get("code") not in {*REACTIONS, INSTEAD}]


class Result:
    """What is said of packets: messages and findings as JSON lines, and the connections."""

    def __init__(self, packets: list[Packet], sizes: Iterable[int] = (), *, plain: bool = False) -> None:
        engine, analyzer = Engine(Options(records="checked")), Analyzer()
        items = batches(packets, sizes) if sizes else [batch(packets)]
        self.flows: dict[int, Flow] = {}
        events: list[Event] = []
        findings: list[Finding] = []
        for page in engine.pages(items):
            events += page
            findings += analyzer.page(page)
        findings += analyzer.close()
        self.flows = {event.flow.id: event.flow for event in events if isinstance(event, Closed)}
        said: list[Any] = [event for event in events if isinstance(event, Message)]
        said += in_packet_order(findings)
        self.lines = [self._unnamed(each) if plain else _JSON.encode(each).decode() for each in said]

    def _unnamed(self, said: Message | Finding) -> str:
        """With the end of the TCP connection in place of the client."""
        flow = self.flows[said.flow]
        assert (said.client, said.proxy or UNSET) == (flow.client, flow.proxy or UNSET)
        said.proxy = UNSET if isinstance(said, Message) else None  # type: ignore[assignment]
        said.client = flow.ends[flow.calling_side]
        text = _JSON.encode(said).decode()
        for other in self.flows.values():
            end = other.ends[other.calling_side]
            text = text.replace(f"{other.client} via proxy {end}", end).replace(other.client, end)
        return text


@cache
def without(name: str, layout: str) -> list[str]:
    return Result(of_capture(CAPTURES / name, None, layout)).lines


@pytest.mark.parametrize(
    ("header", "name"), [(header, SOURCES[number % len(SOURCES)]) for number, header in enumerate(HEADERS)]
)
@pytest.mark.parametrize("layout", ["together", "alone"])
def test_the_same_as_without_a_header(header: str, name: str, layout: str) -> None:
    make, host = HEADERS[header]
    packets = of_capture(CAPTURES / name, make, layout)
    result = Result(packets, plain=True)
    assert others(result.lines) == others(without(name, layout))
    accused = [said for text in result.lines if (said := msgspec.json.decode(text)).get("verdict") == "violation"]
    assert not {"NO_RECOVERY", "ADVANCED_AFTER_ERROR", "DOUBLE_ACK"} & {said["code"] for said in accused}
    kafka = [flow for flow in result.flows.values() if flow.service == "kafka" and flow.opened_by is not None]
    assert kafka
    for flow in kafka:
        end = flow.ends[flow.calling_side]
        assert flow.proxy == end
        assert flow.client == (f"{host}:{end.rpartition(':')[2]}" if host else end)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.endswith(("byte", "bytes"))])
def test_batches_of_any_size_give_the_same(layout: str) -> None:
    packets = of_capture(CAPTURES / "adv-epochs.pcap", HEADERS["two proxies"][0], layout)
    dice = Random(layout)
    whole = Result(packets).lines
    assert Result(packets, [dice.randint(1, 40) for _ in packets]).lines == whole
    assert '"proxy"' in whole[0]


@pytest.mark.tshark
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_the_same_headers(tmp_path: Path) -> None:
    makers: list[Maker] = [
        lambda port: line(f"TCP4 203.0.113.7 10.0.0.9 {port} 9092"),
        lambda port: line(f"TCP6 2001:db8::7 2001:db8::9 {port} 9092"),
        ipv4,
        lambda port: ipv4(port, AWS + AZURE),
        lambda port: ipv6(port, tlv(2, b"broker-1.kafka.example") + SSL),
    ]
    for number, make in enumerate(makers):
        packets = of_capture(CAPTURES / "adv-epochs.pcap", make, "alone")
        path = tmp_path / f"{number}.pcap"
        path.write_bytes(pcap(packets))
        ours = {
            (header.source, header.destination, *_ssl_of(header))
            for flow in Result(packets).flows.values()
            if flow.proxied is not None
            for header in flow.proxied.headers
        }
        assert by_tshark(path) == ours


def _ssl_of(header: ProxyHeader) -> tuple[str, str]:
    ssl: Any = next((each.value for each in header.tlvs if each.name == "ssl"), {"cn": "", "cipher": ""})
    return ssl["cn"], ssl["cipher"]


def by_tshark(path: Path) -> set[tuple[str, ...]]:
    """Source and destination of each header, and two facts of the client's TLS connection."""
    ends = [f"proxy.{end}" for end in ("src.ipv4", "src.ipv6", "srcport", "dst.ipv4", "dst.ipv6", "dstport")]
    fields = (*ends, "proxy.v2.tlv.ssl.cn", "proxy.v2.tlv.ssl.cipher")
    command = ["tshark", "-r", str(path), "-Y", "proxy", "-T", "fields", *(f"-e{field}" for field in fields)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = set()
    for row in text.splitlines():
        source_4, source_6, source_port, target_4, target_6, target_port, *ssl = row.split("\t")
        source = f"{source_4 or f'[{source_6}]'}:{source_port}"
        found.add((source, f"{target_4 or f'[{target_6}]'}:{target_port}", *ssl))
    return found
