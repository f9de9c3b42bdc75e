"""`kshark stats --flows` as text: whether the network has a problem, then the connections, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kshark.endpoints import via
from kshark.flows import ListedFlow, ListedSide, Network
from kshark.output.spans import API, DIM, ERROR, GOOD, LABEL, PLAIN, VALUE, WARN, Line, folded
from kshark.output.text_table import Cell, Column, table
from kshark.units import counted, duration, milliseconds, number, safe, size

#: Most connections in the table without -V.
_SHOWN: Final = 40

_VERDICTS: Final = {
    "loss": ("packets are lost, in the network or at a host", ERROR),
    "little": ("hardly", WARN),
    "none": ("no sign of it", GOOD),
    "unknown": ("the capture cannot show it", WARN),
}

_FLOWS: Final = (
    Column("flow", right=True, drop=7),
    Column("client"),
    Column("broker", elastic=15),
    Column("is", elastic=5),
    Column("packets", right=True, drop=5),
    Column("bytes", right=True),
    Column("messages", right=True, drop=4),
    Column("gap", right=True),
    Column("skipped", right=True, drop=8),
    Column("unfinished", right=True, drop=9),
    Column("again", right=True),
    Column("probes", right=True, drop=1),
    Column("spurious", right=True, drop=2),
    Column("late", right=True, drop=10),
    Column("copies", right=True, drop=3),
    Column("0-win", right=True, drop=11),
    Column("dup ack", right=True, drop=1),
    Column("rtt ms", right=True),
    Column("lasted", right=True, drop=6),
    Column("ended", elastic=5),
)
_SIDES: Final = (
    Column("flow", right=True),
    Column("from", elastic=9),
    Column("to", elastic=9),
    Column("packets", right=True),
    Column("data", right=True),
    Column("bytes", right=True),
    Column("messages", right=True),
    Column("framed", right=True),
    Column("gap", right=True),
    Column("skipped", right=True),
    Column("unfinished", right=True),
    Column("foreign", right=True),
    Column("TLS", right=True),
    Column("PROXY", right=True),
    Column("again", right=True),
    Column("SYN again", right=True),
    Column("probes", right=True),
    Column("spurious", right=True),
    Column("late", right=True),
    Column("copies", right=True),
    Column("dup ack", right=True),
    Column("keep-alive", right=True),
    Column("0-win", right=True),
    Column("for", right=True),
    Column("ack ms", right=True),
)


def flow_lines(flows: Sequence[ListedFlow], network: Network, width: int | None, *, every_side: bool) -> Iterator[Line]:
    """Return the verdict, then the table.

    `every_side`: all connections, with a row for each direction.
    """
    yield from folded(_head(network), width, 2)
    for line in _evidence(network):
        yield from folded([("  ", PLAIN), *line], width, 4)
    if not flows:
        return
    yield []
    if every_side:
        note = (
            "bytes: framed + gap + skipped + unfinished + foreign + TLS · ack ms: from data to its acknowledgement, "
            "least/median/most"
        )
        yield from folded([("directions", API), (f"  the worst first · {note}", DIM)], width, 2)
        yield from table(_SIDES, [row for flow in flows for row in _directions(flow)], width, indent=2)
        return
    note = "the worst first · again: retransmitted · late: out of order · rtt: of the handshake"
    yield from folded([("connections", API), (f"  {note}", DIM)], width, 2)
    yield from table(_FLOWS, [_row(flow) for flow in flows[:_SHOWN]], width, indent=2)
    if len(flows) > _SHOWN:
        yield [
            (
                f"  {counted(len(flows) - _SHOWN, 'connection')} more: -V, with a row for each direction, or -T json",
                DIM,
            )
        ]


def _head(network: Network) -> Line:
    verdict, style = _VERDICTS[network.verdict]
    share = (
        f" ({100 * network.retransmissions / network.data_packets:.2g} %)"
        if network.retransmissions and network.data_packets
        else ""
    )
    text = (
        f"{number(network.retransmissions)} of {counted(network.data_packets, 'packet')} with data retransmitted{share}"
    )
    if network.retransmissions:
        text += f", on {number(network.retransmitting)} of {counted(network.connections, 'connection')}"
        if network.retransmitted_after_ns:
            text += f", up to {duration(network.retransmitted_after_ns)} later"
        if network.worst is not None and network.worst.retransmissions < network.retransmissions:
            worst = network.worst
            text += f"; most between {worst.client} and {worst.broker}: {number(worst.retransmissions)}"
    else:
        text += f", {counted(network.connections, 'connection')}"
    return [("is it the network? ", LABEL), (verdict, style), (f" · {text}", PLAIN)]


def _evidence(network: Network) -> Iterator[Line]:
    """Return further evidence for or against a network problem."""
    if network.handshake_median_ns is not None:
        assert network.handshake_min_ns is not None
        assert network.handshake_max_ns is not None
        least, median, most = map(
            duration, (network.handshake_min_ns, network.handshake_median_ns, network.handshake_max_ns)
        )
        times = median if least == most else f"{least} to {most}, median {median}"
        yield [("a round trip takes ", PLAIN), (times, VALUE), *_answers(network)]
    stalled = f"{counted(network.zero_windows, 'zero window')} on {counted(network.stalled, 'connection')}"
    rows = (
        (
            network.zero_windows,
            (stalled, WARN),
            f", {duration(network.zero_window_ns)} in all: a host did not read its data; this is not the network",
        ),
        (
            network.unanswered,
            (f"{counted(network.unanswered, 'connection')} without a response to the SYN", WARN),
            ": no route, a firewall, or no host",
        ),
        (
            network.refused,
            (f"{counted(network.refused, 'connection')} refused", WARN),
            ": the host responds, but has no listener; this is not the network",
        ),
        (
            network.tail_probes,
            (counted(network.tail_probes, "tail loss probe"), VALUE),
            ": a last packet was sent again because its acknowledgement was late, or missing",
        ),
        (
            network.spurious,
            (f"{counted(network.spurious, 'packet')} retransmitted although already acknowledged", WARN),
            ": the acknowledgement was lost or late, or the packet was duplicated",
        ),
        (network.out_of_order, (counted(network.out_of_order, "packet"), VALUE), " out of order"),
    )
    yield from ([span, (meaning, PLAIN)] for count, span, meaning in rows if count)
    if network.gapped:
        text = f"{size(network.gap_bytes)} are not in the capture, on {counted(network.gapped, 'connection')}"
        yield [(text, WARN), (": the capture lost them; this says nothing about the network", PLAIN)]
    if network.captured_twice:
        text = (
            f"{counted(network.captured_twice, 'connection')} with packets repeated sooner than they can be "
            f"retransmitted"
        )
        yield [
            (text, WARN),
            (": captured twice, or duplicated in the network; retransmissions there look like copies", PLAIN),
        ]
    if network.not_listed:
        yield [(f"{counted(network.not_listed, 'connection')} more, not measured and not listed", WARN)]


def _answers(network: Network) -> Line:
    if network.answers_median_ns is None or network.answers_p99_ns is None or not network.handshake_median_ns:
        return []
    times = f"median {duration(network.answers_median_ns)}, 99 % within {duration(network.answers_p99_ns)}"
    line: Line = [(" · brokers respond in ", PLAIN), (times, VALUE)]
    if 2 * network.handshake_median_ns >= network.answers_median_ns:
        line.append((": most of it is the round trip", WARN))
    return line


def _row(flow: ListedFlow) -> list[Cell]:
    sides = flow.sides
    again = [("?", WARN)] if flow.captured_twice else _unless_zero(flow.again, ERROR)
    return [
        str(flow.flow),
        via(flow.client, flow.proxy),
        flow.broker,
        safe(flow.server_name)
        if flow.server_name and flow.service == "tls"
        else flow.service + (" in TLS" if _is_opened(flow) else ""),
        number(sum(side.packets for side in sides)),
        size(sum(side.bytes for side in sides)),
        _unless_zero(sum(side.messages for side in sides), VALUE),
        _sized(sum(side.gap_bytes for side in sides)) or ([("?", WARN)] if flow.gaps else []),
        _sized(sum(side.skipped_bytes for side in sides)),
        _sized(sum(side.unfinished_bytes for side in sides)),
        again,
        _unless_zero(sum(side.tail_probes for side in sides), VALUE),
        _unless_zero(sum(side.spurious_retransmissions for side in sides), WARN),
        _unless_zero(sum(side.out_of_order for side in sides), WARN),
        _unless_zero(sum(side.copies for side in sides), WARN),
        _unless_zero(sum(side.zero_windows for side in sides), WARN),
        _unless_zero(sum(side.duplicate_acks for side in sides), VALUE),
        "" if flow.handshake_ns is None else milliseconds(flow.handshake_ns),
        duration(flow.duration_ns),
        _ended(flow),
    ]


def _is_opened(flow: ListedFlow) -> bool:
    return flow.service == "kafka" and flow.tls is not None


def _ended(flow: ListedFlow) -> Line:
    if flow.answered is False:
        return [("refused" if flow.refused else "unanswered", WARN)]
    by = f" by {flow.ended_by}" if flow.ended_by is not None and flow.ended == "rst" else ""
    return [(f"{flow.ended}{by}", WARN if flow.ended == "rst" else PLAIN)]


def _directions(flow: ListedFlow) -> Iterator[list[Cell]]:
    ends = via(flow.client, flow.proxy), flow.broker
    for side, start, end in zip(flow.sides, ends, reversed(ends), strict=True):
        yield [str(flow.flow), start, end, *_counts(side)]


def _counts(side: ListedSide) -> list[Cell]:
    times = side.round_trips_ns
    return [
        number(side.packets),
        number(side.data_packets),
        number(side.bytes),
        _unless_zero(side.messages, VALUE),
        _unless_zero(side.message_bytes, VALUE),
        _unless_zero(side.gap_bytes, WARN),
        _unless_zero(side.skipped_bytes, WARN),
        _unless_zero(side.unfinished_bytes, WARN),
        _unless_zero(side.foreign_bytes, VALUE),
        _unless_zero(side.tls_bytes, VALUE),
        _unless_zero(side.proxy_bytes, VALUE),
        _unless_zero(side.retransmissions, ERROR),
        _unless_zero(side.syn_retransmissions, ERROR),
        _unless_zero(side.tail_probes, VALUE),
        _unless_zero(side.spurious_retransmissions, WARN),
        _unless_zero(side.out_of_order, WARN),
        _unless_zero(side.copies, WARN),
        _unless_zero(side.duplicate_acks, VALUE),
        _unless_zero(side.keep_alives, VALUE),
        _unless_zero(side.zero_windows, WARN),
        duration(side.zero_window_ns) if side.zero_window_ns else "",
        "" if times is None else "/".join(milliseconds(ns) for ns in (times.min, times.median, times.max)),
    ]


def _unless_zero(count: int, style: str) -> Line:
    """Return the number; nothing for 0, so that remarkable numbers stand out and empty columns disappear."""
    return [(number(count), style)] if count else []


def _sized(count: int) -> Line:
    return [(size(count), WARN)] if count else []
