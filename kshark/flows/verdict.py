"""Is it the network? What the packets of all connections together say, with the figures that it rests on.

Nobody is accused of what the capture, or a host, may have done: what came twice too soon was captured twice, what was
acknowledged was lost by the capture alone, a window of zero is a receiver that does not read, a refused SYN a broker
that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from kshark.analysis.results.statistics import Percentiles
from kshark.endpoints import host_of
from kshark.flows.listed import ListedFlow

#: Between two hosts, below this share of packets sent again or below this number nothing suffers: TCP makes up for it.
_SHARE: Final = 0.01
_MANY: Final = 3
#: So few packets with data tell nothing where none was sent again.
_FEW: Final = 10


class Between(Struct):
    """What was sent between two hosts, and sent again."""

    client: str
    broker: str
    data_packets: int = 0
    retransmissions: int = 0


class Network(Struct):
    """`verdict`: `loss` (packets were lost between two hosts, or at one of them), `little` (so few that it explains
    nothing), `none` (no sign of it), `unknown` (the capture cannot tell). Times in ns; `handshakes` and `answers` are
    None where none was seen."""

    verdict: Literal["loss", "little", "none", "unknown"]
    connections: int
    #: Beyond the limit: neither listed nor measured.
    not_listed: int
    data_packets: int
    #: Packets sent again, SYNs included, on how many connections; of these two sums connections `captured_twice` have
    #: no part.
    retransmissions: int
    retransmitting: int
    #: How long after the first time, at the most.
    retransmitted_after_ns: int
    #: The two hosts between which most was sent again.
    worst: Between | None
    #: The last bytes again, to ask whether they came: lost, or acknowledged late.
    tail_probes: int
    #: Sent again though it had been acknowledged.
    spurious: int
    out_of_order: int
    captured_twice: int
    #: Bytes that the capture does not have, and connections without them all.
    gap_bytes: int
    gapped: int
    #: Connections on which a host had no room to receive, packets that said so, and for how long in all.
    stalled: int
    zero_windows: int
    zero_window_ns: int
    #: Connections whose SYN nobody answered, or that were refused.
    unanswered: int
    refused: int
    #: Whole round trips, from connections' handshakes.
    handshake_min_ns: int | None
    handshake_median_ns: int | None
    handshake_max_ns: int | None
    #: What brokers took to answer, fetches and joins left out, which wait.
    answers_median_ns: int | None
    answers_p99_ns: int | None


def network(flows: Sequence[ListedFlow], answers: Percentiles, not_listed: int) -> Network:
    trusted = [flow for flow in flows if not flow.captured_twice]
    pairs = _pairs(trusted)
    data = sum(pair.data_packets for pair in pairs)
    again = sum(pair.retransmissions for pair in pairs)
    shakes = sorted(flow.handshake_ns for flow in flows if flow.handshake_ns is not None)
    sides = [side for flow in flows for side in flow.sides]
    p50, p99 = answers.at(50, 99) if answers.count else (None, None)
    return Network(
        verdict=_verdict(pairs, sum(side.data_packets for flow in flows for side in flow.sides)),
        connections=len(flows),
        not_listed=not_listed,
        data_packets=data,
        retransmissions=again,
        retransmitting=sum(flow.again > 0 for flow in trusted),
        retransmitted_after_ns=max((side.retransmitted_after_ns for flow in trusted for side in flow.sides), default=0),
        worst=max(pairs, key=lambda pair: pair.retransmissions) if again else None,
        tail_probes=sum(side.tail_probes for flow in trusted for side in flow.sides),
        spurious=sum(side.spurious_retransmissions for flow in trusted for side in flow.sides),
        out_of_order=sum(side.out_of_order for flow in trusted for side in flow.sides),
        captured_twice=len(flows) - len(trusted),
        gap_bytes=sum(side.gap_bytes for side in sides),
        gapped=sum(flow.gaps > 0 for flow in flows),
        stalled=sum(any(side.zero_windows for side in flow.sides) for flow in flows),
        zero_windows=sum(side.zero_windows for side in sides),
        zero_window_ns=sum(side.zero_window_ns for side in sides),
        unanswered=sum(flow.answered is False and not flow.refused for flow in flows),
        refused=sum(flow.refused for flow in flows),
        handshake_min_ns=shakes[0] if shakes else None,
        handshake_median_ns=shakes[(len(shakes) - 1) // 2] if shakes else None,
        handshake_max_ns=shakes[-1] if shakes else None,
        answers_median_ns=p50,
        answers_p99_ns=p99,
    )


def _pairs(flows: Sequence[ListedFlow]) -> list[Between]:
    pairs: dict[tuple[str, str], Between] = {}
    for flow in flows:
        hosts = host_of(flow.client), host_of(flow.broker)
        pair = pairs.setdefault(hosts, Between(*hosts))
        pair.data_packets += sum(side.data_packets for side in flow.sides)
        pair.retransmissions += flow.again
    return list(pairs.values())


def _verdict(pairs: Sequence[Between], data_packets: int) -> Literal["loss", "little", "none", "unknown"]:
    """`data_packets`: of all connections, those too whose figures cannot be trusted."""
    told = sum(pair.data_packets for pair in pairs)
    if any(pair.retransmissions >= max(_MANY, _SHARE * pair.data_packets) for pair in pairs):
        return "loss"
    if told < _FEW or 2 * told < data_packets:
        return "unknown"
    return "little" if any(pair.retransmissions for pair in pairs) else "none"
