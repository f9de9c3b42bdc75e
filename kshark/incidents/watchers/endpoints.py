"""Addresses of brokers that clients learn from answers and cannot connect to. Incident 141."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, field

from kshark import limits
from kshark.analysis.facts.bases import BETWEEN_CONNECTIONS
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA
from kshark.endpoints import address_of, endpoint, host_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import listed, seconds
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Closed, Exchange, Flow, Message, Weird, Witness
from kshark.units import counted

#: Most client hosts of an address that are counted apart.
_HOSTS: Final = 100
_WITNESSES: Final = 8
_NEVER: Final = PacketTime(0, 0)
NOT_REWRITTEN: Final = "not_rewritten"

ENDPOINT_UNREACHABLE: Final = Rule(
    number=141,
    code="ENDPOINT_UNREACHABLE",
    text="An answer names a broker at an address where no client can connect.",
    source="Kafka: advertised.listeners; RFC 9293, section 3.5",
    rests_on=(BETWEEN_CONNECTIONS,),
    blame=("broker", "network"),
    verdicts=("note",),
    causes=(NOT_REWRITTEN,),
    must="Clients can connect to the addresses that brokers name in their answers.",
    advice="Set advertised.listeners to an address that these clients reach. If it is right, see if the broker is "
    "up, and if a firewall or a proxy is in between: a proxy must rewrite the addresses in every answer.",
    weight=70,
)


class _Named(Struct, frozen=True):
    """The first answer that named an address: the broker's id, and the API, packet, connection and broker."""

    node: int
    api: str
    packet: int
    flow: int
    by: str


class _Endpoint(Struct):
    """An address that answers named: the hosts that got these answers, and their attempts to connect."""

    named: _Named
    is_in_metadata: bool = False
    informed: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    first: Flow | None = None
    since: PacketTime = _NEVER
    last: PacketTime = _NEVER
    refused: int = 0
    unanswered: int = 0
    witness: list[Witness] = field(default_factory=list)

    def knows(self, host: str) -> bool:
        """True if the host got such an answer, as far as the hosts are counted."""
        return host in self.informed or len(self.informed) >= _HOSTS

    def attempt(self, flow: Flow, host: str, what: str) -> None:
        """Note a connection that was not accepted."""
        if self.first is None:
            self.first, self.since = flow, PacketTime(flow.first_packet, flow.first_time_ns)
        if len(self.hosts) < _HOSTS:
            self.hosts.add(host)
        if len(self.witness) < _WITNESSES:
            self.witness.append(Witness(flow.id, None, None, None, flow.first_packet, what))


class Endpoints(Watcher):
    """Watch the addresses in answers, and the connections to them."""

    rows = (ENDPOINT_UNREACHABLE,)
    apis = frozenset({METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER})
    refusals = True
    kinds = (Closed,)
    weirds = frozenset({"SYN_UNANSWERED"})

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._endpoints: dict[str, _Endpoint] = {}
        #: Connections to them without an answer so far.
        self._unanswered: dict[int, _Endpoint] = {}
        #: Addresses that accepted a connection; None if they are too many to know all.
        self._accepted: set[str] | None = set()
        #: The address of a node in Metadata, by the broker that answers and the node's id.
        self._metadata: dict[tuple[str, int], str] = {}

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        answer = exchange.response
        if answer is not None:
            for node, address in _addresses(answer):
                self._name(exchange.flow, answer, node, address)
        return NOTHING

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        """Take the address of a new leader (KIP-951)."""
        answer = exchange.response
        nodes = None if answer is None else getattr(answer.body, "node_endpoints", None)
        if answer is not None and nodes and nodes is not UNSET:
            for node in nodes:
                if node.host is not None:
                    self._name(exchange.flow, answer, node.node_id, endpoint(node.host, node.port))
        return NOTHING

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        if isinstance(event, Weird):
            flow = self.scene.flows.get(-1 if event.flow is None else event.flow)
            if flow is not None:
                self._silent(flow, PacketTime(event.packet, event.time_ns))
        elif isinstance(event, Closed):
            self._close(event)
        return NOTHING

    def lasting(self) -> Iterable[Incident]:
        for number, known in self._unanswered.items():
            if (flow := self.scene.flows.get(number)) is not None:
                known.last = max(known.last, PacketTime(flow.last_packet, flow.last_time_ns))
        yield from self.close()

    def close(self) -> Iterable[Incident]:
        """Report each address that accepted no connection in the whole capture."""
        accepted = self._accepted
        if accepted is not None:
            for address, named in self._endpoints.items():
                if named.first is not None and address not in accepted:
                    yield from self._unreachable(address, named)

    def _name(self, flow: Flow, answer: Message, node: int, address: str) -> None:
        known = self._endpoints.get(address)
        if known is None:
            if address_of(address) is None or len(self._endpoints) >= limits.BROKERS:
                return
            named = _Named(node, str(answer.api), answer.packet, flow.id, flow.broker)
            known = self._endpoints[address] = _Endpoint(named)
        if answer.api_key == METADATA:
            known.is_in_metadata = True
            if len(self._metadata) < limits.BROKERS:
                self._metadata[flow.broker, node] = address
        if len(known.informed) < _HOSTS:
            known.informed.add(host_of(flow.ends[flow.calling_side]))

    def _silent(self, flow: Flow, now: PacketTime) -> None:
        """Take a SYN without an answer."""
        if flow.opened_by is not None:
            known, host = self._of(flow), host_of(flow.ends[flow.opened_by])
            if known is not None and known.knows(host) and flow.id not in self._unanswered:
                self._unanswered[flow.id] = known
                known.attempt(flow, host, "no answer to its SYN")
                known.unanswered += 1
                known.last = max(known.last, now)

    def _close(self, closed: Closed) -> None:
        flow, opener = closed.flow, closed.flow.opened_by
        silent = self._unanswered.pop(flow.id, None)
        if opener is None:
            self._accept(*flow.ends)  # it began before the capture
        elif flow.begun[1 - opener] or any(flow.stream_bytes):
            self._accept(flow.ends[1 - opener])
        elif silent is not None:
            silent.last = max(silent.last, PacketTime(flow.last_packet, flow.last_time_ns))
        elif closed.how == "rst" and closed.side == 1 - opener:
            known, host = self._of(flow), host_of(flow.ends[opener])
            if known is not None and known.knows(host):
                known.attempt(flow, host, "refused")
                known.refused += 1
                known.last = max(known.last, PacketTime(closed.packet, closed.time_ns))

    def _of(self, flow: Flow) -> _Endpoint | None:
        return None if flow.opened_by is None else self._endpoints.get(flow.ends[1 - flow.opened_by])

    def _accept(self, *addresses: str) -> None:
        if self._accepted is not None:
            self._accepted.update(addresses)
            if len(self._accepted) > limits.ACCEPTING_ADDRESSES:
                self._accepted = None

    def _unreachable(self, address: str, known: _Endpoint) -> Iterator[Incident]:
        named, flow, hosts = known.named, known.first, known.hosts
        assert flow is not None
        counts = ((known.unanswered, "not answered"), (known.refused, "refused"))
        results = " and ".join(f"{count} {what}" for count, what in counts if count)
        lasted = seconds(known.last.time_ns - known.since.time_ns)
        attempts = counted(known.unanswered + known.refused, "connection")
        other = None if known.is_in_metadata else self._metadata.get((named.by, named.node))
        is_partly = other is not None
        facts = f", where Metadata has it at {other}" if is_partly else ""
        yield Incident(
            ENDPOINT_UNREACHABLE,
            known.since,
            known.last,
            flow,
            f"Broker {named.node} cannot be reached at {address}, the address that {named.by} gives it in {named.api} "
            f"(packet {named.packet}){facts}: {attempts} of {listed(sorted(hosts))} in {lasted}, {results}",
            Where(brokers=frozenset({address}), hosts=frozenset(hosts) if len(hosts) < _HOSTS else None),
            (Witness(named.flow, None, None, named.packet, named.packet, "named"), *known.witness),
            cause=NOT_REWRITTEN if is_partly else None,
        )


def _addresses(answer: Message) -> Iterator[tuple[int, str]]:
    """Yield the ids and addresses of the brokers that an answer names."""
    body: Any = answer.body
    if answer.api_key == FIND_COORDINATOR:
        coordinators = getattr(body, "coordinators", UNSET)
        for it in [body] if coordinators is UNSET else coordinators or ():
            if getattr(it, "error_code", None) == 0 and isinstance(getattr(it, "host", None), str):
                yield it.node_id, endpoint(it.host, it.port)
        return
    brokers = getattr(body, "brokers", UNSET)
    for it in () if brokers is UNSET else brokers or ():
        if isinstance(it.host, str):
            node = it.node_id if answer.api_key == METADATA else it.broker_id
            yield node, endpoint(it.host, it.port)
