"""Clients that lack a right, or whose credentials are refused. Incident 157."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, field

from kshark import limits
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.results.observed import Refusal
from kshark.analysis.rules.rule import Rule
from kshark.endpoints import host_of
from kshark.incidents.clients import Client, client_of
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import client_named, listed, span
from kshark.incidents.watcher import Awaited, Watcher
from kshark.model import Exchange, Flow, Message, Witness
from kshark.units import clock, counted
from kshark_dissectors.enums import ErrorCode, ResourceType
from kshark_dissectors.permissions import NEEDED, RESOURCES

#: Refusals of one client that are farther apart are incidents of their own.
_APART_NS: Final = 300_000_000_000
_WITNESSES: Final = 8
#: Fields of a request that name the resource, where the answer does not.
_FIELDS: Final = {ResourceType.GROUP: "group_id", ResourceType.TRANSACTIONAL_ID: "transactional_id"}
CREDENTIALS: Final = "credentials"

NOT_AUTHORIZED: Final = Rule(
    number=157,
    code="NOT_AUTHORIZED",
    text="A client lacks the right for what it asks, or its credentials are refused.",
    source="KIP-11, KIP-140; Kafka: KafkaApis, StandardAuthorizer",
    blame=("client",),
    verdicts=("note",),
    causes=(CREDENTIALS,),
    must="The principal of a client has a right to each operation on each resource that it uses.",
    advice="Grant it to the client's principal: kafka-acls --add --allow-principal User:NAME --operation OPERATION and "
    "--topic, --group, --transactional-id or --cluster; the broker's kafka-authorizer.log names the principal.",
    weight=55,
)


class _Right(Struct, frozen=True):
    """An operation on a resource; `name` is empty for the cluster, and where neither request nor answer has one."""

    operation: str
    resource: str
    name: str

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"{self.operation} on {self.resource}{name}"


class _Refused(Struct, eq=False):
    """A client at a broker, and the rights that it lacks, since the first refusal."""

    watcher: Rights
    client: Client
    flow: Flow
    since: PacketTime
    last: PacketTime
    #: True if its credentials are refused.
    is_unknown: bool
    rights: dict[_Right, None] = field(default_factory=dict)
    apis: Counter[str] = field(default_factory=Counter)
    refusals: Counter[Refusal] = field(default_factory=Counter)
    group_id: str | None = None
    witness: list[Witness] = field(default_factory=list)

    def due_ns(self) -> int | None:
        return self.last.time_ns + _APART_NS

    def missed(self) -> Iterable[Incident]:
        return self.watcher.over(self)

    def incident(self) -> Incident:
        """Return the incident: until the last refusal."""
        who = client_named(self.flow, self.client.client_id)
        apis = listed(f"{api} ×{times}" if times > 1 else api for api, times in self.apis.most_common())
        times = counted(self.apis.total(), "request")
        at = f"at {clock(self.since.time_ns, 3)} (packet {self.since.packet})"
        when = at if self.since == self.last else span(self.since, self.last)
        if self.is_unknown:
            text = f"Broker {self.client.broker} refused the credentials of {who} in {times}, {when}"
        else:
            text = f"{who} lacks {listed(map(str, self.rights))}: {times} refused ({apis}), {when}"
        return Incident(
            NOT_AUTHORIZED,
            self.since,
            self.last,
            self.flow,
            text[0].upper() + text[1:],
            Where(
                brokers=frozenset({self.client.broker}),
                hosts=frozenset({self.client.host}),
                client_id=self.client.client_id,
                group_id=self.group_id,
            ),
            tuple(self.witness),
            blame="client",
            cause=CREDENTIALS if self.is_unknown else None,
            of_client=True,
            client_id=self.client.client_id,
            refusals=self.refusals,
        )


class Rights(Watcher):
    """Watch refusals for want of a right."""

    rows = (NOT_AUTHORIZED,)
    refusals = True

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        #: By client, and whether its credentials are refused.
        self._refused: dict[tuple[Client, bool], _Refused] = {}

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        request = exchange.request
        if request is not None:
            for placed in codes:
                if placed.code in RESOURCES or placed.code == ErrorCode.SASL_AUTHENTICATION_FAILED:
                    self._note(exchange, request, placed)
        return ()

    def lasting(self) -> Iterable[Incident]:
        return [refused.incident() for refused in self._refused.values()]

    def close(self) -> Iterable[Incident]:
        for refused in [*self._refused.values()]:
            yield from self.over(refused)

    def over(self, refused: _Refused) -> Iterator[Incident]:
        """Yield the incident of a client that is not refused any more."""
        del self._refused[refused.client, refused.is_unknown]
        yield refused.incident()

    def _note(self, exchange: Exchange, request: Message, placed: PlacedCode) -> None:
        client, now = client_of(exchange.flow, request), self.scene.now
        is_unknown = placed.code not in RESOURCES
        refused = self._refused.get((client, is_unknown))
        if refused is None:
            if len(self._refused) >= limits.SERVED_CLIENTS:
                return
            refused = _Refused(self, client, exchange.flow, now, now, is_unknown)
            self._refused[client, is_unknown] = refused
        is_new, api = refused.last is not now or not refused.apis, str(request.api)
        refused.last = now
        refused.apis[api] += is_new or not refused.apis[api]
        refused.refusals[Refusal(api, placed.code, client.client_id or host_of(exchange.flow.client))] += 1
        if not is_unknown and len(refused.rights) < limits.RETRIED_PLACES:
            refused.rights[self._right(request, placed)] = None
        if refused.group_id is None:
            refused.group_id = _named(request, "group_id")
        if is_new and len(refused.witness) < _WITNESSES:
            refused.witness += witness_of(exchange)
        self.due.add(refused)

    def _right(self, request: Message, placed: PlacedCode) -> _Right:
        """Return the right that is missing."""
        resource = RESOURCES[placed.code]
        needed = NEEDED.get(request.api_key, {}) if isinstance(request.api_key, int) else {}
        operation = needed.get(resource)
        name = placed.name or self.scene.names.by_id.get(placed.topic_id or "") or placed.topic_id
        if name is not None and name in _groups(request):
            name = None  # the group that is described, not the topic that it reads
        if resource in _FIELDS:
            name = _named(request, _FIELDS[resource]) or placed.name
        elif resource is not ResourceType.TOPIC:
            name = None
        kind = resource.name.lower().replace("_", " ")
        return _Right(
            "a right" if operation is None else operation.name, f"the {kind}" if not name else kind, name or ""
        )


def _groups(request: Message) -> Sequence[str]:
    """Return the groups that a request asks about."""
    groups = getattr(request.body, "group_ids", None)
    return groups if isinstance(groups, list) else ()


def _named(request: Message, field: str) -> str | None:
    """Return a string of a request's body."""
    body: Any = None if request.body is UNSET else request.body
    value = getattr(body, field, None)
    return value if isinstance(value, str) and value else None
