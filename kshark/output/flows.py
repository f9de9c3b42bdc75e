"""`kshark stats --flows` for a person: whether it is the network, then the connections, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kshark.flows import ListedFlow, ListedSide, Network
from kshark.output.spans import API, DIM, ERROR, GOOD, LABEL, PLAIN, VALUE, WARN, Line, folded
from kshark.output.text_table import Cell, Column, table
from kshark.output.units import counted, duration, milliseconds, number, safe, size

#: Connections that are shown where nobody asks for all.
_SHOWN: Final = 40

_VERDICTS: Final = {
    "loss": ("packets are lost, on the way or at a host", ERROR),
    "little": ("hardly", WARN),
    "none": ("no sign of it", GOOD),
    "unknown": ("the capture cannot tell", WARN),
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


def flow_lines(flows: Sequence[ListedFlow], found: Network, width: int | None, *, every_side: bool) -> Iterator[Line]:
    """The verdict, then the table; `every_side`: all connections, a row for each direction."""
    yield from folded(_head(found), width, 2)
    for line in _evidence(found):
        yield from folded([("  ", PLAIN), *line], width, 4)
    if not flows:
        return
    yield []
    if every_side:
        note = (
            "bytes: framed + gap + skipped + unfinished + foreign + TLS · ack ms: from data to their acknowledgement, "
            "least/median/most"
        )
        yield from folded([("directions", API), (f"  the worst first · {note}", DIM)], width, 2)
        yield from table(_SIDES, [row for flow in flows for row in _directions(flow)], width, indent=2)
        return
    note = "the worst first · again: sent again · late: overtaken · rtt: of the handshake"
    yield from folded([("connections", API), (f"  {note}", DIM)], width, 2)
    yield from table(_FLOWS, [_row(flow) for flow in flows[:_SHOWN]], width, indent=2)
    if len(flows) > _SHOWN:
        yield [
            (f"  {counted(len(flows) - _SHOWN, 'connection')} more: -V, with a row for each direction, or -T json", DIM)
        ]


def _head(found: Network) -> Line:
    said, style = _VERDICTS[found.verdict]
    share = (
        f" ({100 * found.retransmissions / found.data_packets:.2g} %)"
        if found.retransmissions and found.data_packets
        else ""
    )
    told = f"{number(found.retransmissions)} of {counted(found.data_packets, 'packet')} with data sent again{share}"
    if found.retransmissions:
        told += f", on {number(found.retransmitting)} of {counted(found.connections, 'connection')}"
        if found.retransmitted_after_ns:
            told += f", up to {duration(found.retransmitted_after_ns)} later"
        if found.worst is not None and found.worst.retransmissions < found.retransmissions:
            worst = found.worst
            told += f"; most between {worst.client} and {worst.broker}: {number(worst.retransmissions)}"
    else:
        told += f", {counted(found.connections, 'connection')}"
    return [("is it the network? ", LABEL), (said, style), (f" · {told}", PLAIN)]


def _evidence(found: Network) -> Iterator[Line]:
    """What else there is, for it or against it."""
    if found.handshake_median_ns is not None:
        assert found.handshake_min_ns is not None
        assert found.handshake_max_ns is not None
        least, median, most = map(duration, (found.handshake_min_ns, found.handshake_median_ns, found.handshake_max_ns))
        times = median if least == most else f"{least} to {most}, median {median}"
        yield [("a round trip takes ", PLAIN), (times, VALUE), *_answers(found)]
    stalled = f"{counted(found.zero_windows, 'zero window')} on {counted(found.stalled, 'connection')}"
    rows = (
        (
            found.zero_windows,
            (stalled, WARN),
            f", {duration(found.zero_window_ns)} in all: a host did not read what came, which is not the network",
        ),
        (
            found.unanswered,
            (f"{counted(found.unanswered, 'connection')} whose SYN nobody answered", WARN),
            ": no way there, a firewall, or nobody there",
        ),
        (
            found.refused,
            (f"{counted(found.refused, 'connection')} refused", WARN),
            ": the host answers and nobody listens there, which is not the network",
        ),
        (
            found.tail_probes,
            (counted(found.tail_probes, "tail loss probe"), VALUE),
            ": the last packet was lost, or its acknowledgement late",
        ),
        (
            found.spurious,
            (f"{counted(found.spurious, 'packet')} sent again though already acknowledged", WARN),
            ": the acknowledgement was lost or late, or the packet doubled",
        ),
        (found.out_of_order, (counted(found.out_of_order, "packet"), VALUE), " overtaken by later ones"),
    )
    yield from ([span, (meaning, PLAIN)] for count, span, meaning in rows if count)
    if found.gapped:
        told = f"{size(found.gap_bytes)} are not in the capture, on {counted(found.gapped, 'connection')}"
        yield [(told, WARN), (": the capture lost them, which says nothing of the network", PLAIN)]
    if found.captured_twice:
        told = (
            f"{counted(found.captured_twice, 'connection')} with packets that came again sooner than they can be sent "
            f"again"
        )
        yield [
            (told, WARN),
            (": captured twice, or doubled on the way; what was sent again there cannot be told from copies", PLAIN),
        ]
    if found.not_listed:
        yield [(f"{counted(found.not_listed, 'connection')} more, neither measured nor listed", WARN)]


def _answers(found: Network) -> Line:
    if found.answers_median_ns is None or found.answers_p99_ns is None or not found.handshake_median_ns:
        return []
    times = f"median {duration(found.answers_median_ns)}, 99 % within {duration(found.answers_p99_ns)}"
    told: Line = [(" · brokers answer in ", PLAIN), (times, VALUE)]
    if 2 * found.handshake_median_ns >= found.answers_median_ns:
        told.append((": most of it is the way", WARN))
    return told


def _row(flow: ListedFlow) -> list[Cell]:
    sides = flow.sides
    again = [("?", WARN)] if flow.captured_twice else _some(flow.again, ERROR)
    return [
        str(flow.flow),
        flow.client,
        flow.broker,
        safe(flow.server_name)
        if flow.server_name and flow.service == "tls"
        else flow.service + (" in TLS" if _is_opened(flow) else ""),
        number(sum(side.packets for side in sides)),
        size(sum(side.bytes for side in sides)),
        _some(sum(side.messages for side in sides), VALUE),
        _sized(sum(side.gap_bytes for side in sides)) or ([("?", WARN)] if flow.gaps else []),
        _sized(sum(side.skipped_bytes for side in sides)),
        _sized(sum(side.unfinished_bytes for side in sides)),
        again,
        _some(sum(side.tail_probes for side in sides), VALUE),
        _some(sum(side.spurious_retransmissions for side in sides), WARN),
        _some(sum(side.out_of_order for side in sides), WARN),
        _some(sum(side.copies for side in sides), WARN),
        _some(sum(side.zero_windows for side in sides), WARN),
        _some(sum(side.duplicate_acks for side in sides), VALUE),
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
    ends = flow.client, flow.broker
    for side, start, end in zip(flow.sides, ends, reversed(ends), strict=True):
        yield [str(flow.flow), start, end, *_counts(side)]


def _counts(side: ListedSide) -> list[Cell]:
    times = side.round_trips_ns
    return [
        number(side.packets),
        number(side.data_packets),
        number(side.bytes),
        _some(side.messages, VALUE),
        _some(side.message_bytes, VALUE),
        _some(side.gap_bytes, WARN),
        _some(side.skipped_bytes, WARN),
        _some(side.unfinished_bytes, WARN),
        _some(side.foreign_bytes, VALUE),
        _some(side.tls_bytes, VALUE),
        _some(side.retransmissions, ERROR),
        _some(side.syn_retransmissions, ERROR),
        _some(side.tail_probes, VALUE),
        _some(side.spurious_retransmissions, WARN),
        _some(side.out_of_order, WARN),
        _some(side.copies, WARN),
        _some(side.duplicate_acks, VALUE),
        _some(side.keep_alives, VALUE),
        _some(side.zero_windows, WARN),
        duration(side.zero_window_ns) if side.zero_window_ns else "",
        "" if times is None else "/".join(milliseconds(ns) for ns in (times.min, times.median, times.max)),
    ]


def _some(count: int, style: str) -> Line:
    """Nothing where there is none, so that what is remarkable stands out and empty columns take no room."""
    return [(number(count), style)] if count else []


def _sized(count: int) -> Line:
    return [(size(count), WARN)] if count else []
