"""`kshark stats --flows`: whether it is the network, and the connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshark.flows import ListedFlow, ListedSide
from kshark.output.flows import flow_lines
from kshark.output.spans import plain
from tests.cli.command import Run
from tests.flows.talk import Talk
from tests.packets import pcap
from tests.shared import CAPTURES, shared

LOSS, RESTART, HOSTILE = (CAPTURES / f"{name}.pcap" for name in ("share-loss", "share-restart", "tcp-hostile"))
PARTS = ("message_bytes", "gap_bytes", "skipped_bytes", "unfinished_bytes", "foreign_bytes", "tls_bytes")


def test_lost_packets_are_told_first_with_the_connections_that_lost_most(kshark: Run) -> None:
    head, times, probes, spurious, _, title, columns, worst, *_ = kshark("stats", "--flows", LOSS).lines
    assert head.startswith(
        "is it the network? packets are lost, in the network or at a host · 32 of 832 packets with data retransmitted "
        "(3.8 %)"
    )
    assert times.startswith(
        "  a round trip takes 15.0 µs to 27.0 µs, median 19.0 µs · brokers respond in median 2.47 ms"
    )
    assert probes.startswith("  2 tail loss probes: a last packet was sent again because its acknowledgement was")
    assert spurious.startswith("  4 packets retransmitted although already acknowledged")
    assert title.startswith("connections  the worst first")
    assert columns.split()[:3] == ["flow", "client", "broker"]
    assert worst.split()[:3] == ["15", "127.0.0.1:47302", "127.0.0.1:20092"]


def test_a_broker_that_is_not_there_is_not_the_network(kshark: Run) -> None:
    head, *others = kshark("stats", "--flows", RESTART, "-q").lines
    assert head == "is it the network? no sign of it · 0 of 884 packets with data retransmitted, 214 connections"
    assert "  172 connections refused: the host responds, but has no listener; this is not the network" in others


def test_a_host_that_does_not_read_is_not_the_network(kshark: Run) -> None:
    stalled = "  3 zero windows on 1 connection, 2.51 s in all: a host did not read its data; this is not the network"
    assert stalled in kshark("stats", "--flows", HOSTILE).lines


def test_overtaken_and_doubled_packets_accuse_nobody(kshark: Run) -> None:
    """25 % of the packets were put out of order and 8 % doubled; none was lost."""
    head, *_ = kshark("stats", "--flows", shared("captures", "kafka-4", "tcp-reorder-broker.pcap")).lines
    assert head.startswith("is it the network? the capture cannot show it")


@pytest.mark.parametrize(
    "capture", [LOSS, RESTART, HOSTILE, CAPTURES / "tcp-var-missed.pcap"], ids=lambda path: path.stem
)
def test_the_parts_of_every_direction_add_up(kshark: Run, capture: Path) -> None:
    *flows, last = kshark("stats", "--flows", capture, "-T", "json").json
    assert [*flows[0]] == [*ListedFlow.__struct_fields__]
    assert [*flows[0]["from_client"]] == [*ListedSide.__struct_fields__]
    for side in (flow[name] for flow in flows for name in ("from_client", "from_broker")):
        assert side["bytes"] == sum(side[part] for part in PARTS)
    assert last["summary"]["connections"] == len(flows)


def test_every_direction_on_request(kshark: Run) -> None:
    lines = kshark("stats", "--flows", "-V", RESTART).lines
    rows = lines[lines.index("") + 3 :]
    assert len(rows) == 2 * 214
    assert rows[0].split()[1:3] == rows[1].split()[2:0:-1]


def test_only_the_worst_unless_all_are_asked_for(kshark: Run) -> None:
    lines = kshark("stats", "--flows", RESTART).lines
    assert lines[-1] == "  174 connections more: -V, with a row for each direction, or -T json"
    assert len(lines) < 50


def test_with_a_filter_only_connections_with_an_exchange_that_passes(kshark: Run) -> None:
    *flows, last = kshark("stats", "--flows", RESTART, "-Y", "kafka.api == ShareAcknowledge", "-T", "json").json
    assert 0 < len(flows) == last["summary"]["connections"] < 10


def test_since_leaves_out_connections_that_had_ended(kshark: Run) -> None:
    every = {flow["flow"]: flow for flow in kshark("stats", "--flows", RESTART, "-T", "json").json[:-1]}
    late = {
        flow["flow"]: flow for flow in kshark("stats", "--flows", RESTART, "-T", "json", "--since", "+40s").json[:-1]
    }
    begin_ns = min(flow["time_ns"] for flow in every.values()) + 40_000_000_000
    assert late == {number: flow for number, flow in every.items() if flow["time_ns"] + flow["duration_ns"] >= begin_ns}
    until = kshark("stats", "--flows", RESTART, "-T", "json", "--until", "+2s").json[:-1]
    assert 0 < len(until) < len(every)


def test_each_file_by_itself(kshark: Run) -> None:
    rows = kshark("stats", "--flows", "--each", "-q", "-T", "json", LOSS, HOSTILE).json
    assert [[*row] for row in rows] == [["file", "summary"]] * 2


def test_under_tls_with_and_without_keys(kshark: Run) -> None:
    capture = shared("captures", "kafka-4", "security-tls.pcap")
    *sealed, _ = kshark("stats", "--flows", capture, "-T", "json").json
    *opened, _ = kshark("stats", "--flows", capture, "-T", "json", "--tls-keys", capture.with_suffix(".keys")).json
    lengths = [{flow["flow"]: flow["from_broker"]["bytes"] for flow in flows} for flows in (sealed, opened)]
    assert lengths[0] == lengths[1]
    assert {flow["service"] for flow in sealed if flow["tls"]} == {"tls"}
    assert any(flow["service"] == "kafka" and flow["tls"] and flow["from_broker"]["tls_bytes"] for flow in opened)


def test_nothing_to_list(kshark: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(pcap([]))
    assert kshark("stats", "--flows", empty).lines == [
        "is it the network? the capture cannot show it · 0 of 0 packets with data retransmitted, 0 connections"
    ]


def test_flows_and_share_are_two_questions(kshark: Run) -> None:
    done = kshark("stats", "--flows", "--share", LOSS)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    done = kshark("stats", "-V", LOSS)
    assert (done.code, done.err) == (2, "kshark: -V shows both directions of connections; write stats --flows -V\n")


def test_a_narrow_terminal_keeps_whom_and_how_often() -> None:
    talk = Talk().opened().request(2, 0).request(300, 0).acked(301, 100)
    lines = [plain(line) for line in flow_lines(*talk.counted, 80, every_side=False)]
    assert max(map(len, lines)) <= 80
    assert any(line.split()[1:3] == ["10.0.0.1:50000", "10.0.0.9:9092"] for line in lines)
