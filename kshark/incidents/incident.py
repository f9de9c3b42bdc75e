"""An incident: something that happened to a broker, a connection, a topic or a member, from a packet to a packet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, field

from kshark.analysis.facts.bases import Lasted, resolution_ns
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.results.findings import SEVERITY
from kshark.analysis.results.observed import Refusal
from kshark.analysis.rules.rule import Rule, Verdict
from kshark.anomaly import Blame
from kshark.model import Exchange, Finding, Flow, Message, Witness


class Where(Struct, frozen=True):
    """Where an incident happened, and thus which findings it may explain: those that fit every field that is set.

    `brokers`: addresses. `flows`: numbers of connections. `hosts`: addresses of clients without their ports.
    """

    brokers: frozenset[str] | None = None
    flows: frozenset[int] | None = None
    hosts: frozenset[str] | None = None
    client_id: str | None = None
    group_id: str | None = None
    member_id: str | None = None
    topic_ids: frozenset[str] | None = None
    partition: int | None = None


class Incident(Struct, frozen=True):
    """One incident.

    `since`, `until`: the packets that show its beginning and its end; `until` None: it lasted when the capture ended.
    `flow`: a connection that shows it. `text`: one sentence, without the advice of the row. `of_client`: it is about
    the client of that connection, and not about the broker or the network alone. `verdict`: what the watcher proved;
    `because` is the reason of an unknown one. `grounds`: times that it rests on; one that is not proved makes it
    unknown. `refusals`: the error codes that it explains, counted. `is_end_inferred`: it ended about the time of
    `until`, and its packet is only the first one that shows that.
    """

    row: Rule
    since: PacketTime
    until: PacketTime | None
    flow: Flow
    text: str
    where: Where
    witness: tuple[Witness, ...] = ()
    verdict: Verdict = "note"
    blame: Blame = "unknown"
    cause: str | None = None
    because: str | None = None
    of_client: bool = False
    client_id: str | None = None
    grounds: tuple[Lasted, ...] = ()
    refusals: Mapping[Refusal, int] = field(default_factory=dict)
    is_end_inferred: bool = False

    def finding(self) -> Finding:
        """Return it as a finding: it stands at its first packet, and has an end."""
        because = self.because or self.weakness()
        verdict: Verdict = "unknown" if because else self.verdict
        where, flow = self.where, self.flow
        topic_id = next(iter(sorted(where.topic_ids)), None) if where.topic_ids else None
        return Finding(
            code=self.row.code,
            rule=self.row.number,
            severity=SEVERITY[verdict],
            verdict=verdict,
            blame="unknown" if verdict == "unknown" else self.blame,
            time_ns=self.since.time_ns,
            packet=self.since.packet,
            flow=flow.id,
            broker=flow.broker,
            client=flow.client if self.of_client else "",
            group_id=where.group_id,
            member_id=where.member_id,
            topic_id=topic_id,
            partition=where.partition,
            cause=self.cause,
            witness=[*self.witness] or [Witness(flow.id, None, None, None, self.since.packet, self.row.code.lower())],
            argument=self.text,
            unknown_because=because,
            client_id=self.client_id,
            software=flow.software if self.of_client else None,
            proxy=flow.proxy if self.of_client else None,
            until_ns=None if self.until is None else self.until.time_ns,
            until_packet=None if self.until is None or self.is_end_inferred else self.until.packet,
        )

    @property
    def shown_until(self) -> int:
        """The last packet of the times that it rests on."""
        return max((ground.until.packet for ground in self.grounds), default=self.since.packet)

    def weakness(self) -> str | None:
        """Return why its times prove too little, by what the capture showed of its clock so far; None if they do."""
        times = (time for ground in self.grounds for time in (ground.since.time_ns, ground.until.time_ns))
        resolution = resolution_ns(times)
        return next((why for ground in self.grounds if (why := ground.weakness(resolution))), None)


def witness_of(*items: Exchange | Message | None) -> tuple[Witness, ...]:
    """Return the evidence of exchanges, or of requests without an answer."""
    return tuple(_witness(item) for item in items if item is not None)


def _witness(item: Exchange | Message) -> Witness:
    request: Any = item.request if isinstance(item, Exchange) else item
    response = item.response if isinstance(item, Exchange) else None
    flow = item.flow.id if isinstance(item, Exchange) else item.flow
    number = None if request is None or request.correlation_id is UNSET else request.correlation_id
    return Witness(
        flow, number, None if request is None else request.packet, None if response is None else response.packet
    )
