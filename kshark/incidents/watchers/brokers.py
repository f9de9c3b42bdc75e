"""Brokers that end their connections and accept no new ones. Incident 130."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field

from kshark import limits
from kshark.analysis.facts.bases import BETWEEN_CONNECTIONS
from kshark.analysis.facts.brokers import Broker
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import API_VERSIONS, METADATA, SASL_HANDSHAKE
from kshark.endpoints import host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import TO_THE_END
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Finding, Flow, HalfClosed, Message, Weird, Witness
from kshark.units import clock

#: The first requests of a client on a new connection.
_FIRST_REQUESTS: Final = frozenset({METADATA, SASL_HANDSHAKE, API_VERSIONS})
#: A broker that ends closes its connections within this time.
_TOGETHER_NS: Final = 1_000_000_000
#: A connection that ends sooner may have been refused by the broker: its login, or its first request.
_SETTLED_NS: Final = 5_000_000_000
#: A broker that closes a connection after a longer time without answers may have closed an idle one.
_ACTIVE_NS: Final = 60_000_000_000

BROKER_DOWN: Final = Rule(
    number=130,
    code="BROKER_DOWN",
    text="A broker ended its connections and accepted no new ones.",
    source="RFC 9293, section 3.5; Kafka: SocketServer",
    rests_on=(BETWEEN_CONNECTIONS,),
    blame=("broker", "network"),
    verdicts=("note", "unknown"),
    must="A broker accepts connections.",
    advice="Look into the broker's log for the reason of its end: a restart, a crash, the out-of-memory killer.",
    weight=85,
    explains=(
        "REQUEST_UNANSWERED",
        "FRAME_TRUNCATED_AT_CLOSE",
        "REQUEST_OVERDUE",
        "SESSION_UNKNOWN",
        "FETCH_SESSION_NOT_FOUND",
        "MEMBER_REFUSED",
        "ENDPOINT_UNREACHABLE",
    ),
    excuses=("HEARTBEAT_LATE", "NO_RECOVERY", "SESSION_NOT_CLOSED"),
)


class _End(Struct, frozen=True):
    """A connection that the broker ended. `is_settled`: it worked, until a short time before."""

    at: PacketTime
    flow: Flow
    is_settled: bool


class _Down(Struct):
    """A broker that is down: connections that it ended, those that it refused, and those without an answer.

    `restarted`: its request log shows that it was started again. `refused`: the first refusal. `tried`: the last
    connection that it refused or did not answer.
    """

    ends: list[_End]
    restarted: bool = False
    refused: PacketTime | None = None
    refusals: int = 0
    unanswered: int = 0
    tried: PacketTime | None = None

    @property
    def since(self) -> PacketTime:
        return self.ends[0].at

    @property
    def hosts(self) -> set[str]:
        return {host_of(end.flow.client) for end in self.ends if end.is_settled}


class _Ends(Struct):
    """The last connections that a broker ended."""

    recent: deque[_End] = field(default_factory=lambda: deque(maxlen=limits.BROKER_ENDS))
    down: _Down | None = None


class BrokerEnds(Watcher):
    """Watch the ends of connections and the connections that are refused."""

    rows = (BROKER_DOWN,)
    requests = _FIRST_REQUESTS
    kinds = (HalfClosed, Closed)
    weirds = frozenset({"SYN_UNANSWERED"})

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._brokers: dict[Broker, _Ends] = {}
        #: Connections that their broker ended, and whose client has not closed them yet.
        self._ended: set[int] = set()

    def request(self, request: Message) -> Iterable[Incident]:
        """Take the first request on a new connection: its broker accepts."""
        flow = self.scene.flows.get(request.flow)
        if flow is None or not self._brokers:
            return NOTHING
        ends = self._brokers.get(self.scene.broker_of(flow))
        if ends is None or ends.down is None or flow.first_packet <= ends.down.since.packet:
            return NOTHING
        down, ends.down = ends.down, None
        ends.recent.clear()
        return self._over(down, self.scene.now)

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Weird):
            flow = self.scene.flows.get(-1 if event.flow is None else event.flow)
            ends = None if flow is None else self._brokers.get(self.scene.broker_of(flow))
            if ends is not None and ends.down is not None:
                ends.down.unanswered += 1
                ends.down.tried = PacketTime(event.packet, event.time_ns)
        elif isinstance(event, HalfClosed):
            if event.side != event.flow.calling_side:
                self._end(event.flow)
        elif isinstance(event, Closed):
            self._close(event)
        return NOTHING

    def lasting(self) -> Iterable[Incident]:
        return self.close()

    def may_excuse(self, finding: Finding) -> bool:
        """True if the broker had ended a connection by then, and is down, or may turn out to be."""
        ends = self._brokers.get(self.scene.brokers.at(finding.broker))
        if ends is None:
            return False
        since = [ends.down.since] if ends.down is not None else [end.at for end in ends.recent]
        return any(at.packet <= finding.packet for at in since)

    def close(self) -> Iterable[Incident]:
        for ends in self._brokers.values():
            if ends.down is not None:
                yield from self._over(ends.down, None)

    def _close(self, closed: Closed) -> None:
        flow = closed.flow
        if closed.how == "restart":
            self._restarted(flow)
        elif closed.how == "rst" and closed.side != flow.calling_side and flow.id not in self._ended:
            if flow.opened_by is not None and not any(flow.stream_bytes):
                self._refused(flow)
            else:
                self._end(flow)
        self._ended.discard(flow.id)

    def _end(self, flow: Flow) -> None:
        """Take a connection that the broker ends."""
        scene = self.scene
        broker, answered = scene.broker_of(flow), scene.answered.get(flow.id)
        if answered is None:
            return
        ends = self._brokers.get(broker)
        if ends is None:
            if len(self._brokers) >= limits.BROKERS:
                return
            ends = self._brokers[broker] = _Ends()
        self._ended.add(flow.id)
        now_ns = scene.now.time_ns
        lived_ns, unused_ns = answered.time_ns - flow.first_time_ns, now_ns - answered.time_ns
        is_settled = lived_ns > _SETTLED_NS and unused_ns < _ACTIVE_NS
        end = _End(scene.now, flow, is_settled)
        if ends.down is not None:
            if len(ends.down.ends) < limits.BROKER_ENDS:
                ends.down.ends.append(end)
            return
        ends.recent.append(end)
        while now_ns - ends.recent[0].at.time_ns > _TOGETHER_NS:
            ends.recent.popleft()
        down = _Down([*ends.recent])
        if len(down.hosts) > 1 and not self._lives(broker):
            ends.down = down

    def _restarted(self, flow: Flow) -> None:
        """Take a connection of a broker that was started again."""
        broker = self.scene.broker_of(flow)
        if broker not in self._brokers and len(self._brokers) >= limits.BROKERS:
            return
        ends = self._brokers.setdefault(broker, _Ends())
        if ends.down is None:
            ends.down = _Down([], restarted=True)
        if len(ends.down.ends) < limits.BROKER_ENDS:
            ends.down.ends.append(_End(self.scene.now, flow, is_settled=True))

    def _refused(self, flow: Flow) -> None:
        """Take a SYN that was answered with a RST, at the address of a broker that ended its connections before."""
        broker = self.scene.broker_of(flow)
        ends = self._brokers.get(broker)
        if ends is None:
            return
        if ends.down is None and ends.recent and not self._lives(broker):
            ends.down = _Down([*ends.recent])
        if ends.down is not None:
            ends.down.refusals += 1
            ends.down.tried = self.scene.now
            ends.down.refused = ends.down.refused or self.scene.now

    def _lives(self, broker: Broker) -> bool:
        """True if a connection of the broker is open."""
        scene = self.scene
        return any(
            flow.id in scene.answered
            and flow.id not in self._ended
            and (flow.id, flow.calling_side) not in scene.unacked
            and scene.broker_of(flow) is broker
            for flow in scene.flows.values()
        )

    def _over(self, down: _Down, until: PacketTime | None) -> Iterator[Incident]:
        """Yield the incident when the broker accepts again, or the capture ends."""
        now = self.scene.now if until is None else until
        lasted_ns = now.time_ns - down.since.time_ns
        is_sure = down.refusals or down.unanswered or down.restarted
        if not is_sure and (lasted_ns < _TOGETHER_NS or len(down.hosts) < 2):
            return
        flows = [end.flow for end in down.ends]
        broker, clients = flows[0].broker, {host_of(flow.client) for flow in flows}
        facts = [f"it ended {_counted(len(flows), 'connection')} of {_counted(len(clients), 'host')}"]
        if down.restarted:
            facts.append("was started again: the numbers of its connections began anew")
        if down.refused is not None:
            facts.append(f"refused {_counted(down.refusals, 'new one')} (first in packet {down.refused.packet})")
        if down.unanswered:
            facts.append(f"did not answer {_counted(down.unanswered, 'new one')}")
        yield Incident(
            BROKER_DOWN,
            down.since,
            until,
            flows[0],
            f"Broker {broker} was down for {_how_long(down, until, now)}: "
            f"{', and '.join((', '.join(facts[:-1]), facts[-1])) if len(facts) > 1 else facts[0]}",
            Where(brokers=frozenset(flow.broker for flow in flows)),
            tuple(Witness(it.flow.id, None, None, None, it.at.packet, "ended by the broker") for it in down.ends[:8]),
            blame="broker",
        )


def _how_long(down: _Down, until: PacketTime | None, now: PacketTime) -> str:
    """Return how long a broker was down, and how that is known: nobody knows longer than somebody tries to connect."""
    since, tried = down.since, down.tried or down.since
    most, least = f"{(now.time_ns - since.time_ns) / 1e9:.1f} s", f"{(tried.time_ns - since.time_ns) / 1e9:.1f} s"
    is_tight = now.time_ns - tried.time_ns <= _TOGETHER_NS
    if until is None and not is_tight and down.tried is not None:
        return (
            f"at least {least} (packet {since.packet}, {clock(since.time_ns, 3)}, to the last failed "
            f"connection in packet {tried.packet}, {clock(tried.time_ns, 3)}; nobody tried after that)"
        )
    if until is None:
        how = TO_THE_END if is_tight else f"{TO_THE_END}, and nobody tried to connect"
        return f"{'' if is_tight else 'at most '}{most} (packet {since.packet} {how})"
    how = f"(packet {since.packet} until packet {until.packet}, when it accepted one)"
    if down.restarted or down.tried is None:
        return f"{'' if is_tight else 'at most '}{most} {how}"
    return f"{most} {how}" if is_tight else f"{least[:-2]} to {most} {how}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
