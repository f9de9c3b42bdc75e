"""The verdict on the network from the packets of all connections, with its figures.

The network is not blamed for the capture or a host. Packets that are repeated too soon were captured twice. Missing
bytes that were acknowledged were lost by the capture alone. A zero window shows a receiver that does not read. A
refused SYN shows that no broker listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from kshark.analysis.results.statistics import Percentiles
from kshark.endpoints import host_of
from kshark.flows.listed import ListedFlow

#: Between two hosts, fewer retransmissions than this share of packets or this number do no harm: TCP compensates.
_SHARE: Final = 0.01
_MANY: Final = 3
#: Without retransmissions, fewer data packets than this prove nothing.
_FEW: Final = 10


class Between(Struct):
    """Data packets and retransmissions between two hosts."""

    client: str
    broker: str
    data_packets: int = 0
    retransmissions: int = 0


class Network(Struct):
    """The figures of all connections. `verdict`: `loss` (packets were lost between two hosts, or at one of them),
    `little` (too few to explain anything), `none` (no sign of loss), `unknown` (the capture does not show it). Times in
    ns. The handshake and answer times are None if the capture has none."""

    verdict: Literal["loss", "little", "none", "unknown"]
    connections: int
    #: Connections beyond the limit: neither listed nor measured.
    not_listed: int
    data_packets: int
    #: Retransmitted packets, including SYNs; `retransmitting`: the number of their connections. Connections that were
    #: captured twice are in neither sum.
    retransmissions: int
    retransmitting: int
    #: The longest time after the first transmission.
    retransmitted_after_ns: int
    #: The two hosts with the most retransmissions.
    worst: Between | None
    #: Repetitions of the last bytes to provoke an acknowledgement: the bytes were lost, or acknowledged late.
    tail_probes: int
    #: Retransmissions of acknowledged bytes.
    spurious: int
    out_of_order: int
    captured_twice: int
    #: Bytes that the capture does not have, and the connections with such gaps.
    gap_bytes: int
    gapped: int
    #: Connections on which a host had no room to receive, packets that announced it, and the total time.
    stalled: int
    zero_windows: int
    zero_window_ns: int
    #: Connections whose SYN was not answered, and those that were refused.
    unanswered: int
    refused: int
    #: Full round trips, from the handshakes of connections.
    handshake_min_ns: int | None
    handshake_median_ns: int | None
    handshake_max_ns: int | None
    #: Latency of answers, without fetches and joins, whose answers wait.
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
        hosts = host_of(flow.caller), host_of(flow.broker)
        pair = pairs.setdefault(hosts, Between(*hosts))
        pair.data_packets += sum(side.data_packets for side in flow.sides)
        pair.retransmissions += flow.again
    return list(pairs.values())


def _verdict(pairs: Sequence[Between], data_packets: int) -> Literal["loss", "little", "none", "unknown"]:
    """Return the verdict. `data_packets`: of all connections, also of those that were captured twice."""
    reliable_packets = sum(pair.data_packets for pair in pairs)
    if any(pair.retransmissions >= max(_MANY, _SHARE * pair.data_packets) for pair in pairs):
        return "loss"
    if reliable_packets < _FEW or 2 * reliable_packets < data_packets:
        return "unknown"
    return "little" if any(pair.retransmissions for pair in pairs) else "none"
