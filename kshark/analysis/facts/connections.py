"""TCP connections as the judgement sees them: whose they are, when they were used, what is missing of them, how they
ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kshark.analysis.facts.brokers import Broker, Brokers, By, End
from kshark.analysis.facts.holes import Hole, Holes
from kshark.endpoints import host_of
from kshark.model import Closed, Flow, Gap, HalfClosed, Message, Weird


@dataclass(slots=True)
class Clock:
    """`disorder_ns`: packets of different connections that lie within this time have no order, whatever the file
    says."""

    disorder_ns: int = 0

    def is_before(self, one_ns: int, two_ns: int) -> bool:
        """Whether a packet of one connection surely came before one of another."""
        return two_ns - one_ns > self.disorder_ns if self.disorder_ns else two_ns >= one_ns


_REASONS: Final = {"snapped": "cut"}
_NEVER: Final = 1 << 62
_OTHER: Final[dict[By, By]] = {"client": "broker", "broker": "client", "unknown": "unknown"}


#: Group id and member id.
Owner = tuple[str | None, str | None]


class User(Protocol):
    """A share session that uses a connection; `state` is its SessionState."""

    @property
    def state(self) -> Any: ...

    @property
    def owner(self) -> Owner: ...

    def ended(self, connection: Connection, end: End) -> None:
        """The connection ended."""

    def waits_on(self, connection: Connection) -> bool:
        """Whether a request that came on it has no answer yet: until then its broker reads no further, and notices no
        end of it."""

    def lost_on(self, connection: Connection) -> None:
        """A share request on it could not be read; not said again before the session takes another step."""

    def settle(self) -> Sequence[Any]:
        """What can be said by now."""


@dataclass(slots=True, eq=False)
class Connection:
    """One TCP connection; `flow` says between whom."""

    flow: Flow
    broker: Broker | None = None
    #: Packet of the client's last request, and of its FIN.
    last_request: int = 0
    client_fin: int | None = None
    #: Its ends in their order: the FIN of either side, or a RST.
    ends: list[End] = field(default_factory=list)
    #: Packet behind which nothing more will be seen of it: it is closed, was forgotten, or the capture is over.
    over_at: int | None = None
    holes: Holes = field(default_factory=Holes)
    #: Of its holes, those that its bytes show, and the first of these.
    gaps: Holes = field(default_factory=Holes)
    first_gap: Gap | None = None
    #: What was odd and waits for its end (kshark.analysis.runners.byte_faults).
    odd: tuple[Any, ...] = ()
    #: Answers to requests that it does not hold.
    orphans: int = 0
    #: Share sessions that use it, by owner, in the order in which they came.
    users: dict[Owner, User] = field(default_factory=dict)
    #: The packet of the last share request that could not be read, and the users that have to be told of the next one.
    last_unread: int = 0
    untold: dict[Owner, User] | None = None
    #: How far the times of its packets can be trusted beside those of others.
    clock: Clock = field(default_factory=Clock)
    #: The client's address without its port; which end is the client, the first request tells.
    host: str = field(init=False)

    def __post_init__(self) -> None:
        self.host = host_of(self.flow.client)

    @property
    def client(self) -> str:
        return self.flow.client

    @property
    def software(self) -> str | None:
        """Name and version from the client's ApiVersions request (KIP-511)."""
        parts = [part for part in (self.flow.software_name, self.flow.software_version) if part]
        return " ".join(parts) or None

    @property
    def over(self) -> bool:
        return self.over_at is not None

    @property
    def end(self) -> End | None:
        """Its first end."""
        return self.ends[0] if self.ends else None

    def state_of(self, group_id: str | None, member_id: str | None) -> Any:
        """The SessionState of a member's session that uses it; None where there is none."""
        user = self.users.get((group_id, member_id))
        return None if user is None else user.state

    def used_by(self, user: User) -> None:
        """That session takes a step on it, or elsewhere."""
        self.users[user.owner] = user
        if self.untold is None:
            self.untold = {}
        self.untold[user.owner] = user

    def leave(self, user: User) -> None:
        """That session uses it no more."""
        if self.users.get(user.owner) is user:
            del self.users[user.owner]
            if self.untold:
                self.untold.pop(user.owner, None)

    def leave_all(self) -> None:
        """It is over."""
        self.users.clear()
        self.untold = None

    def cannot_read(self, packet: int) -> None:
        """A share request, whosever it is; of many behind each other a session is told once, and looks up which was the
        last."""
        self.last_unread = packet
        untold, self.untold = self.untold, None
        for user in untold.values() if untold else ():
            user.lost_on(self)

    def ended_between(self, first: int, last: int) -> End | None:
        """The first of its ends that lies between two packets."""
        return next((end for end in self.ends if first < end.packet <= last), None)

    def is_used_after(self, packet: int) -> bool | None:
        """Whether it was still open at that packet; None while that cannot be told.

        A later request or FIN of the client shows it. A RST proves nothing: it also comes from a socket closed before.
        """
        if self.last_request > packet or (self.client_fin is not None and self.client_fin > packet):
            return True
        return False if self.over else None


class Connections:
    """Every connection that is not over, by the number of its flow."""

    def __init__(self, brokers: Brokers, clock: Clock) -> None:
        self.by_flow: dict[int, Connection] = {}
        self._brokers = brokers
        self._clock = clock

    def of(self, flow: Flow) -> Connection:
        found = self.by_flow.get(flow.id)
        if found is None:
            found = self.by_flow[flow.id] = Connection(flow, clock=self._clock)
        return found

    def begin(self, connection: Connection) -> None:
        """Its first request: which end is the broker is known by now."""
        broker = connection.broker = self._brokers.at(connection.flow.broker)
        connection.host = host_of(connection.flow.client)
        known = broker.holes.get(connection.host, ())
        for hole in [hole for hole in connection.holes if hole not in known]:
            broker.lose(connection.host, hole)
        if connection.end is None:
            broker.open.add(connection.flow.id)

    def answered(self, flow: int) -> None:
        """The broker is up, if that connection is."""
        connection = self.by_flow.get(flow)
        if connection is not None and connection.broker is not None and connection.end is None:
            self._brokers.down.discard(connection.broker)

    def joined(self, kept: Broker, absorbed: Broker) -> None:
        """Two brokers turned out to be one."""
        for connection in self.by_flow.values():
            if connection.broker is absorbed:
                connection.broker = kept

    # -- what is missing

    def lost(self, gap: Gap) -> None:
        """Bytes that the capture does not hold."""
        connection = self.of(gap.flow)
        connection.first_gap = connection.first_gap or gap
        hole = Hole(gap.first_packet, gap.last_packet, _REASONS.get(gap.reason, "gap"))
        connection.gaps.add(hole)
        self._lose(connection, hole)

    def _lose(self, connection: Connection, hole: Hole) -> None:
        """Brokers know of it at once, whether anything of the connection was read or not: other members' sessions may
        be concerned.

        Before the first request that is the end that was called and, if nobody saw the call, the other one where a
        broker is known: what the flow says of its client by then may depend on how many packets came at once."""
        connection.holes.add(hole)
        if connection.broker is not None:
            connection.broker.lose(connection.host, hole)
            return
        ends, caller = connection.flow.ends, connection.flow.opened_by
        self._brokers.at(ends[1 - (caller or 0)]).lose(host_of(ends[caller or 0]), hole)
        other = self._brokers.at_address(ends[0]) if caller is None else None
        if other is not None:
            other.lose(host_of(ends[1]), hole)

    def orphan(self, flow: Flow, answer: Message | None) -> None:
        """An answer without its request: the capture does not hold what the client sent."""
        if answer is not None:
            connection = self.of(flow)
            connection.orphans += 1
            self._lose(connection, Hole(connection.last_request, answer.packet, "gap"))

    def broken(self, connection: Connection, packet: int, reason: str) -> None:
        """A frame of which nothing can be read: what it held is not known, nor for certain where the next one
        begins."""
        hole = Hole(packet, packet + 1, reason)
        connection.gaps.add(hole)
        self._lose(connection, hole)

    def unfinished(self, connection: Connection, weird: Weird) -> None:
        """A frame was not whole when the connection ended: from its beginning on nothing was read of that direction."""
        first = weird.packet if weird.first_packet is None else weird.first_packet
        connection.gaps.add(Hole(first, weird.packet, "cut"))

    def unread(self, connection: Connection, request: Message, answer: Message) -> None:
        """A request that could not be read was answered: what it did is not known."""
        self._lose(connection, Hole(request.packet, answer.packet, "cut"))

    # -- ends

    def ended(self, event: HalfClosed | Closed) -> tuple[Connection, bool]:
        """Takes an end to the connection it belongs to; the second value says whether it is the first one seen.

        Before the first request nobody has to know whose it is: what the flow says of its client by then may depend on
        how many packets came at once, and who has ended asks and answers nothing any more."""
        connection = self.of(event.flow)
        is_known = connection.broker is not None
        is_client = event.flow.ends[event.side] == event.flow.client if is_known and event.side is not None else None
        if type(event) is HalfClosed and is_client and connection.client_fin is None:
            connection.client_fin = event.packet
        if type(event) is Closed:
            self._closed(connection, event)
            if event.how in ("capture", "forgotten"):
                return connection, False
        by: By = "unknown" if is_client is None else "client" if is_client else "broker"
        if connection.ends and type(event) is Closed and event.how == "fin":
            by = _OTHER[connection.ends[0].by]  # `side` is who closed first
        end = End(event.packet, event.time_ns, by, event.flow.id)
        connection.ends.append(end)
        if len(connection.ends) > 1:
            return connection, False
        if connection.broker is not None:
            connection.broker.ended(end)
        return connection, True

    def _closed(self, connection: Connection, event: Closed) -> None:
        flow = event.flow
        if event.how == "fin" and connection.client_fin is None:
            connection.client_fin = event.packet
        connection.over_at = event.packet
        self.by_flow.pop(flow.id, None)
        if event.how in ("capture", "forgotten"):
            if event.how == "forgotten":
                self._lose(connection, Hole(event.packet, _NEVER, "gap"))
            if connection.broker is not None:
                connection.broker.open.discard(flow.id)
        elif (
            event.how == "rst"
            and flow.opened_by is not None
            and event.side == 1 - flow.opened_by
            and not any(flow.stream_bytes)
        ):
            # A SYN answered by a RST, on a port where a broker used to listen.
            broker = self._brokers.at_address(flow.ends[1 - flow.opened_by])
            if broker is not None:
                broker.refused(End(event.packet, event.time_ns, "broker", flow.id))
