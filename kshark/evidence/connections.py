"""Which connections belong to a client, a member, a group or a broker, so that a part of a capture can be chosen."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, Protocol

from kshark.capture.selection import Selection
from kshark.endpoints import host_of
from kshark.model import Closed, Event, Exchange, Finding, Flow, Opened
from kshark.units import duration

#: How much of a capture is chosen: the connections of the clients concerned, all of their groups, all with their
#: brokers, or everything.
Reach = Literal["clients", "groups", "brokers", "everything"]


class Scope(NamedTuple):
    """A part of a capture around a finding. `to_end`: not only up to the finding's last packet.

    `before_ns`: without connections that ended so long before the finding and that its evidence does not need.
    """

    reach: Reach
    to_end: bool
    before_ns: int | None = None

    @property
    def text(self) -> str:
        what = {
            "clients": "the connections of the clients concerned",
            "groups": "all connections of the group",
            "brokers": "all connections with the brokers concerned",
            "everything": "everything",
        }[self.reach]
        if self.before_ns is not None:
            what += f" except those that ended more than {duration(self.before_ns)} before"
        return f"{what}, to the end of the capture" if self.to_end else f"{what}, up to the last packet of the evidence"


#: From the narrowest.
REACHES: tuple[Reach, ...] = ("clients", "groups", "brokers", "everything")
#: The scopes to try, from the smallest.
SCOPES = tuple(Scope(reach, to_end) for reach in REACHES for to_end in (False, True))


class Chooses(Protocol):
    """Chooses the packets around a finding."""

    def selection(self, finding: Finding, scope: Scope) -> Selection | None:
        """Return the packets of a scope; None if it has no more than a smaller one."""


class Connections:
    """Takes the pages of a capture, and chooses the connections around a finding.

    `held_ns`: forget connections that ended so long ago; None: remember all.
    """

    def __init__(self, held_ns: int | None = None) -> None:
        self._held_ns = held_ns
        #: Connections that ended and will be forgotten, and what those that are open belong to.
        self._ended: deque[tuple[int, int]] = deque()
        self._keys: defaultdict[int, set[tuple[str | None, ...]]] = defaultdict(set)
        self._flows: dict[int, Flow] = {}
        #: Connections by what they belong to: ("client", host, client id), ("member", group, member),
        #: ("group", group), ("broker", broker).
        self._of: defaultdict[tuple[str | None, ...], set[int]] = defaultdict(set)
        #: The client, group and member that a connection was last used for: most requests change nothing.
        self._latest: dict[int, tuple[str | None, ...]] = {}

    def page(self, page: Iterable[Event]) -> None:
        for event in page:
            if type(event) is Exchange:
                self._add(event)
            elif type(event) is Opened:
                self._flows[event.flow.id] = event.flow
            elif type(event) is Closed and self._held_ns is not None:
                self._ended.append((event.time_ns, event.flow.id))
                self._forget(event.time_ns - self._held_ns)

    def selection(self, finding: Finding, scope: Scope) -> Selection | None:
        """Return the packets of a scope; None if it has no more than a smaller one."""
        last = _NEVER if scope.to_end else last_packet(finding)
        flows = self._reached(finding, scope.reach)
        if flows is None:
            return None
        since_ns = 0 if scope.before_ns is None else finding.time_ns - scope.before_ns
        named = _flows_of(finding)
        selection = Selection()
        for flow in flows:
            if flow.first_packet <= last and (flow.last_time_ns >= since_ns or flow.id in named):
                selection.add(flow.ends, flow.first_packet, min(last, max(flow.last_packet, flow.first_packet)))
        return selection

    def named(self, finding: Finding) -> list[Flow]:
        """Return the connections of a finding's evidence."""
        return [self._flows[number] for number in sorted(_flows_of(finding)) if number in self._flows]

    @property
    def flows(self) -> Iterable[Flow]:
        """All connections that are remembered."""
        return self._flows.values()

    def _forget(self, before_ns: int) -> None:
        while self._ended and self._ended[0][0] < before_ns:
            _, number = self._ended.popleft()
            self._flows.pop(number, None)
            self._latest.pop(number, None)
            for key in self._keys.pop(number, ()):
                self._of[key].discard(number)
                if not self._of[key]:
                    del self._of[key]

    def _belongs(self, flow: Flow, *key: str | None) -> None:
        self._of[key].add(flow.id)
        if self._held_ns is not None:
            self._keys[flow.id].add(key)

    def _add(self, exchange: Exchange) -> None:
        request = exchange.request or exchange.response
        if request is None:
            return
        flow, body = exchange.flow, request.body
        client_id = request.client_id if isinstance(request.client_id, str) else None
        group_id, member_id = getattr(body, "group_id", None), getattr(body, "member_id", None)
        latest = client_id, group_id, member_id
        if self._latest.get(flow.id) == latest:
            return
        self._latest[flow.id] = latest
        self._belongs(flow, "client", host_of(flow.client), client_id)
        self._belongs(flow, "broker", flow.broker)
        if isinstance(group_id, str):
            self._belongs(flow, "group", group_id)
            if isinstance(member_id, str):
                self._belongs(flow, "member", group_id, member_id)

    def _reached(self, finding: Finding, reach: Reach) -> list[Flow] | None:
        named = _flows_of(finding)
        flows = self.named(finding)
        if reach == "everything":
            return [*self._flows.values()]
        if reach == "groups" and finding.group_id is None:
            return None
        reached = named | set(self._of.get(("member", finding.group_id, finding.member_id), ()))
        for flow in flows:
            for key in self._clients_of(flow):
                reached |= self._of.get(key, set())
        if reach == "groups":
            reached |= self._of.get(("group", finding.group_id), set())
        elif reach == "brokers":
            for broker in {finding.broker, *(flow.broker for flow in flows)}:
                reached |= self._of.get(("broker", broker), set())
                reached |= {flow.id for flow in self._flows.values() if broker in flow.ends}
        return [self._flows[number] for number in sorted(reached) if number in self._flows]

    def _clients_of(self, flow: Flow) -> Iterator[tuple[str | None, ...]]:
        """Yield the clients that used a connection."""
        host = host_of(flow.client)
        latest = self._latest.get(flow.id)
        if latest is not None:
            yield "client", host, latest[0]


_NEVER = (1 << 62) - 1


def _flows_of(finding: Finding) -> set[int]:
    """Return the connections of a finding's evidence."""
    return {witness.flow for witness in finding.witness} | {finding.flow}


def last_packet(finding: Finding) -> int:
    """Return the last packet of a finding's evidence."""
    packets = [finding.packet, *([finding.until_packet] if isinstance(finding.until_packet, int) else [])]
    for witness in finding.witness:
        packets += [p for p in (witness.request_packet, witness.response_packet, witness.packet) if p is not None]
    return max(packets)
