"""Connections as they are listed: their ends, their bytes, and the signs of network trouble in their packets."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from kshark.flows.ledger import Account
from kshark.model import Closed, ProxyHeader, Service
from kshark.transport import RoundTrips, Sent, Transport

#: The fewest repeated packets for which their share of all packets is meaningful.
_TELLING: Final = 8


class ListedTimes(Struct):
    """Statistics of round trips in ns."""

    count: int
    min: int
    median: int
    max: int


class ListedSide(Struct):
    """The bytes and packets that one side sent. The parts of its stream add up to `bytes`; kshark.transport.Sent
    explains the others."""

    packets: int
    data_packets: int
    bytes: int
    messages: int
    message_bytes: int
    gap_bytes: int
    skipped_bytes: int
    unfinished_bytes: int
    foreign_bytes: int
    tls_bytes: int
    proxy_bytes: int
    retransmissions: int
    retransmitted_bytes: int
    #: The longest time after the first transmission.
    retransmitted_after_ns: int
    syn_retransmissions: int
    tail_probes: int
    spurious_retransmissions: int
    out_of_order: int
    copies: int
    duplicate_acks: int
    keep_alives: int
    zero_windows: int
    zero_window_ns: int
    #: From the data to its acknowledgement.
    round_trips_ns: ListedTimes | None


class ListedFlow(Struct):
    """One connection; its fields, in this order, are the JSON line (`kshark stats --flows -T json`)."""

    flow: int
    client: str
    #: The load balancer whose PROXY headers, from the broker to the client, name the client.
    proxy: str | None
    proxy_headers: list[ProxyHeader] | None
    broker: str
    service: Service
    #: The server name in the client's TLS handshake.
    server_name: str | None
    tls: str | None
    first_packet: int
    last_packet: int
    time_ns: int
    duration_ns: int
    #: "open" if the capture ends first. `ended_by`: the side that ended it.
    ended: Literal["fin", "rst", "reused", "restart", "forgotten", "open"]
    ended_by: Literal["client", "broker"] | None
    #: True if the SYN was answered with a SYN; null if the capture has no SYN.
    answered: bool | None
    #: From the SYN to the acknowledgement of the answering SYN.
    handshake_ns: int | None
    gaps: int
    #: True if so many packets are copies, or repeated sooner than a retransmission can be, that retransmissions cannot
    #: be separated from copies.
    captured_twice: bool
    from_client: ListedSide
    from_broker: ListedSide

    @property
    def sides(self) -> tuple[ListedSide, ListedSide]:
        return self.from_client, self.from_broker

    @property
    def caller(self) -> str:
        """The end of the TCP connection on the client's side."""
        return self.proxy or self.client

    @property
    def again(self) -> int:
        """Retransmitted packets; 0 if they cannot be separated from copies."""
        return 0 if self.captured_twice else sum(side.retransmissions + side.syn_retransmissions for side in self.sides)

    @property
    def refused(self) -> bool:
        """True if the host answered and refused the connection."""
        return self.answered is False and self.ended == "rst" and self.ended_by != "client"


def listed_flow(closed: Closed, accounts: tuple[Account, Account], transport: Transport) -> ListedFlow:
    flow = closed.flow
    client = flow.calling_side
    own, other = transport.sent[client], transport.sent[1 - client]
    sender: Literal["client", "broker"] = "client" if closed.side == client else "broker"
    return ListedFlow(
        flow=flow.id,
        client=flow.client,
        proxy=flow.proxy,
        proxy_headers=None if flow.proxied is None or flow.proxy is None else flow.proxied.headers,
        broker=flow.broker,
        service=flow.service,
        server_name=None if flow.tls is None else flow.tls.server_name,
        tls=None if flow.tls is None else flow.tls.version or "TLS",
        first_packet=flow.first_packet,
        last_packet=flow.last_packet,
        time_ns=flow.first_time_ns,
        duration_ns=max(0, flow.last_time_ns - flow.first_time_ns),
        ended="open" if closed.how == "capture" else closed.how,
        ended_by=sender if closed.how in ("fin", "rst") and closed.side is not None else None,
        answered=transport.answered,
        handshake_ns=transport.handshake_ns,
        gaps=flow.gaps,
        captured_twice=_captured_twice(own, other),
        from_client=_side(own, accounts[client]),
        from_broker=_side(other, accounts[1 - client]),
    )


def _captured_twice(one: Sent, other: Sent) -> bool:
    """True if copies are at least a fourth of the packets that seem retransmitted, or if at least a third of the data
    packets of each side are repeated: no host retransmits that much."""
    if one.again + other.again and 4 * (one.copies + other.copies) >= one.again + other.again:
        return True
    twice = [side.again + side.tail_probes + side.spurious + side.copies for side in (one, other)]
    return one.data + other.data >= 2 * _TELLING and 3 * twice[0] >= one.data and 3 * twice[1] >= other.data


def _side(sent: Sent, account: Account) -> ListedSide:
    return ListedSide(
        packets=sent.packets,
        data_packets=sent.data,
        bytes=account.length,
        messages=account.messages,
        message_bytes=account.framed,
        gap_bytes=account.gap,
        skipped_bytes=account.skipped,
        unfinished_bytes=account.unfinished,
        foreign_bytes=account.foreign,
        tls_bytes=account.sealing,
        proxy_bytes=account.proxy,
        retransmissions=sent.again,
        retransmitted_bytes=sent.again_bytes,
        retransmitted_after_ns=sent.again_ns,
        syn_retransmissions=sent.syns_again,
        tail_probes=sent.tail_probes,
        spurious_retransmissions=sent.spurious,
        out_of_order=sent.late,
        copies=sent.copies,
        duplicate_acks=sent.duplicate_acks,
        keep_alives=sent.keep_alives,
        zero_windows=sent.zero_windows,
        zero_window_ns=sent.zero_window_ns,
        round_trips_ns=listed_times(sent.round_trips),
    )


def listed_times(times: RoundTrips) -> ListedTimes | None:
    if times.least is None or times.greatest is None or times.median is None:
        return None
    return ListedTimes(times.count, times.least, times.median, times.greatest)
