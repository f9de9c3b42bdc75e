"""TCP connections: their broker, use, missing bytes and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from msgspec import Struct, field

from kshark.analysis.facts.brokers import Broker, Brokers, By, End
from kshark.analysis.facts.clock import Durations
from kshark.analysis.facts.holes import Drops, Hole, Holes
from kshark.analysis.facts.known import Known, known_if
from kshark.endpoints import host_of, via
from kshark.model import LEAST_ANSWER, Closed, Flow, Gap, HalfClosed, Message, Weird


class Complete(Struct):
    """The statement of a user that the capture holds all traffic of its clients (`kshark check --complete`).

    A TLS connection that is not decrypted hides traffic nevertheless: the statement does not hold for its client.
    `by_flow`: the connections that are not over. `unread`: hosts with such a connection that is over. `is_refuted`: the
    recorder dropped packets. `is_over`: the capture has ended; before that, it may still show what is missing.
    """

    by_flow: dict[int, ConnectionFacts]
    unread: set[str] = field(default_factory=set)
    is_refuted: bool = False
    is_over: bool = False

    def holds(self, host: str) -> bool:
        """True if the capture holds all traffic of a client host."""
        if self.is_refuted or host in self.unread:
            return False
        here = (connection for connection in self.by_flow.values() if connection.host == host)
        return all(connection.flow.service != "tls" for connection in here)


class PacketOrder(Struct):
    """The reliability of packet times and of the capture.

    `disorder_ns`: packets of different connections within this time have no order, whatever the file's order is.
    `durations`: the times between packets that are certain. `drops`: where the capturing host dropped packets.
    `complete`: set if the capture holds all traffic of its clients.
    """

    disorder_ns: int = 0
    durations: Durations = field(default_factory=Durations)
    drops: Drops = field(default_factory=Drops)
    complete: Complete | None = None

    @property
    def order(self) -> Known:
        """The fact that packets of different connections have an order."""
        return known_if(not self.disorder_ns, "disorder")

    def is_before(self, first_ns: int, second_ns: int) -> bool:
        """True if a packet of one connection was certainly sent before a packet of another connection."""
        return second_ns - first_ns > self.disorder_ns if self.disorder_ns else second_ns >= first_ns


_REASONS: Final = {"snapped": "cut", "body": "cut"}
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

    def ended(self, connection: ConnectionFacts, end: End) -> None:
        """Note that the connection ended."""

    def waits_on(self, connection: ConnectionFacts) -> bool:
        """True if a request on the connection has no answer yet.

        Until the answer is sent, the broker reads no further and notices no end of the connection.
        """

    def lost_on(self, connection: ConnectionFacts) -> None:
        """Note that a share request on the connection could not be read.

        Called at most once between two steps of the session.
        """

    def settle(self) -> Sequence[Any]:
        """Return the verdicts that are certain by now."""


class ConnectionFacts:
    """A TCP connection; `flow` has its two ends."""

    __slots__ = (
        "broker",
        "client_fin",
        "clock",
        "ends",
        "first_gap",
        "flow",
        "gaps",
        "holes",
        "host",
        "last_request",
        "last_unread",
        "odd",
        "orphans",
        "over_at",
        "to_notify",
        "users",
    )

    def __init__(self, flow: Flow, broker: Broker | None = None, clock: PacketOrder | None = None) -> None:
        self.flow = flow
        self.broker = broker
        #: Packet of the client's last request, and of its FIN.
        self.last_request: int = 0
        self.client_fin: int | None = None
        #: Its ends in their order: the FIN of each side, or a RST.
        self.ends: list[End] = []
        #: Packet after which the capture shows nothing more of it: it was closed or forgotten, or the capture ended.
        self.over_at: int | None = None
        self.holes: Holes = Holes()
        #: The holes that its own bytes show, and the first gap.
        self.gaps: Holes = Holes()
        self.first_gap: Gap | None = None
        #: Anomalies that are reported when it ends (kshark.analysis.runners.byte_faults).
        self.odd: tuple[Any, ...] = ()
        #: Number of answers whose request is missing.
        self.orphans: int = 0
        #: Share sessions that use it, by owner, in the order of their first use.
        self.users: dict[Owner, User] = {}
        #: The packet of the last unreadable share request, and the users to notify about the next one.
        self.last_unread: int = 0
        self.to_notify: dict[Owner, User] | None = None
        #: The order of its packets relative to other connections.
        self.clock: PacketOrder = PacketOrder() if clock is None else clock
        #: The client's address without its port. The first request shows which end is the client.
        self.host: str = host_of(self.flow.client)

    @property
    def client(self) -> str:
        return self.flow.client

    @property
    def name(self) -> str:
        """The client, and the proxy in front of it: connections of one client may differ only in that."""
        return via(self.flow.client, self.flow.proxy)

    @property
    def is_complete(self) -> bool:
        """True if the capture holds all traffic of its client."""
        return self.clock.complete is not None and self.clock.complete.holds(self.host)

    @property
    def refuses_header(self) -> bool:
        """True if the broker ended the connection, which began with a PROXY header, without an answer."""
        flow, end = self.flow, self.end
        if end is None or end.by != "broker" or self.gaps or flow.proxied is None or flow.proxied.is_health_check:
            return False
        return flow.stream_bytes[1 - flow.proxied.side] < LEAST_ANSWER

    @property
    def is_refused_header(self) -> bool:
        """True if that broker accepted no PROXY header so far."""
        return self.refuses_header and self.broker is not None and True not in self.broker.proxies.answered

    @property
    def over(self) -> bool:
        return self.over_at is not None

    @property
    def end(self) -> End | None:
        """The first end."""
        return self.ends[0] if self.ends else None

    def state_of(self, group_id: str | None, member_id: str | None) -> Any:
        """Return the SessionState of a member's session that uses it, or None."""
        user = self.users.get((group_id, member_id))
        return None if user is None else user.state

    def used_by(self, user: User) -> None:
        """Note that a session uses it, or that one of its users took a step elsewhere."""
        self.users[user.owner] = user
        if self.to_notify is None:
            self.to_notify = {}
        self.to_notify[user.owner] = user

    def leave(self, user: User) -> None:
        """Remove a session that no longer uses it."""
        if self.users.get(user.owner) is user:
            del self.users[user.owner]
            if self.to_notify:
                self.to_notify.pop(user.owner, None)

    def leave_all(self) -> None:
        """Remove all sessions, because it is over."""
        self.users.clear()
        self.to_notify = None

    def cannot_read(self, packet: int) -> None:
        """Note an unreadable share request of an unknown session.

        A session is notified once for several unreadable requests in a row, and reads `last_unread` for the last one.
        """
        self.last_unread = packet
        users, self.to_notify = self.to_notify, None
        for user in users.values() if users else ():
            user.lost_on(self)

    def ended_between(self, first: int, last: int) -> End | None:
        """Return its first end between two packets."""
        return next((end for end in self.ends if first < end.packet <= last), None)

    def is_used_after(self, packet: int) -> bool | None:
        """True if it was still open at that packet; None while this is unknown.

        A later request or FIN of the client proves it. A RST proves nothing: it also comes from a socket that was
        closed before.
        """
        if self.last_request > packet or (self.client_fin is not None and self.client_fin > packet):
            return True
        return False if self.over else None


class Connections:
    """All connections that are not over, by flow id."""

    def __init__(self, brokers: Brokers, clock: PacketOrder, *, complete: bool = False) -> None:
        """`complete`: the capture holds all traffic of its clients."""
        self.by_flow: dict[int, ConnectionFacts] = {}
        self._brokers = brokers
        self._clock = clock
        if complete:
            clock.complete = Complete(self.by_flow)

    def of(self, flow: Flow) -> ConnectionFacts:
        connection = self.by_flow.get(flow.id)
        if connection is None:
            connection = self.by_flow[flow.id] = ConnectionFacts(flow, clock=self._clock)
        return connection

    def begin(self, connection: ConnectionFacts) -> None:
        """Note the first request: it shows which end is the broker."""
        broker = connection.broker = self._brokers.at(connection.flow.broker)
        connection.host = host_of(connection.flow.client)
        broker.proxies.begin(connection.flow)
        noted = broker.holes.get(connection.host, ())
        for hole in [hole for hole in connection.holes if hole not in noted]:
            broker.lose(connection.host, hole)
        if connection.end is None:
            broker.open.add(connection.flow.id)

    def answered(self, flow: int) -> None:
        """Note that the broker of a connection is up, if the connection is still open."""
        connection = self.by_flow.get(flow)
        if connection is not None and connection.broker is not None and connection.end is None:
            self._brokers.down.discard(connection.broker)

    def joined(self, kept: Broker, absorbed: Broker) -> None:
        """Note that two brokers are the same broker."""
        for connection in self.by_flow.values():
            if connection.broker is absorbed:
                connection.broker = kept

    # -- what is missing

    def lost(self, gap: Gap) -> None:
        """Note bytes that the capture does not hold."""
        connection = self.of(gap.flow)
        connection.first_gap = connection.first_gap or gap
        hole = Hole(gap.first_packet, gap.last_packet, self._reason(gap))
        if gap.reason != "body":  # no message is hidden in the body of another
            connection.gaps.add(hole)
        self._lose(connection, hole)

    def _reason(self, gap: Gap) -> str:
        return _REASONS.get(gap.reason) or self._clock.drops.reason(gap.first_packet, gap.last_packet)

    def _lose(self, connection: ConnectionFacts, hole: Hole) -> None:
        """Add a hole to the connection and to its brokers, because it may concern sessions of other members.

        Before the first request the broker is the end that received the SYN. If the SYN is missing, the other end is
        also possible, where a broker is known there. The flow's own client may depend on how many packets came at once
        by then.
        """
        connection.holes.add(hole)
        if connection.broker is not None:
            connection.broker.lose(connection.host, hole)
            return
        ends, caller = connection.flow.ends, connection.flow.opened_by
        self._brokers.at(ends[1 - (caller or 0)]).lose(host_of(ends[caller or 0]), hole)
        other = self._brokers.at_address(ends[0]) if caller is None else None
        if other is not None:
            other.lose(host_of(ends[1]), hole)

    def gave_up(self, connection: ConnectionFacts, first: int, last: int = _NEVER) -> None:
        """Note that a limit of kshark was reached: what the connection carried between two packets is unknown."""
        self._lose(connection, Hole(first, last, "limit"))

    def orphan(self, flow: Flow, answer: Message | None) -> None:
        """Note an answer without its request: the client's bytes are missing."""
        if answer is not None:
            connection = self.of(flow)
            connection.orphans += 1
            reason = self._clock.drops.reason(connection.last_request, answer.packet)
            self._lose(connection, Hole(connection.last_request, answer.packet, reason))

    def broken(self, connection: ConnectionFacts, packet: int, reason: str) -> None:
        """Note an unreadable frame: its content is unknown, and the next frame boundary is uncertain."""
        hole = Hole(packet, packet + 1, reason)
        connection.gaps.add(hole)
        self._lose(connection, hole)

    def unfinished(self, connection: ConnectionFacts, weird: Weird) -> None:
        """Note an incomplete frame at the end: from its first packet on nothing was read of this direction."""
        first = weird.packet if weird.first_packet is None else weird.first_packet
        connection.gaps.add(Hole(first, weird.packet, "cut"))

    def give_up(self, weird: Weird) -> None:
        """Note that a limit of memory gave up requests or bytes: from there on nothing is sure to be complete."""
        connection = None if weird.flow is None else self.by_flow.get(weird.flow)
        if connection is None or connection.gaps.reach >= _NEVER:
            return  # a hole without end is there already
        hole = Hole(weird.packet if weird.first_packet is None else weird.first_packet, _NEVER, "limit")
        connection.gaps.add(hole)
        self._lose(connection, hole)

    def unread(self, connection: ConnectionFacts, request: Message, answer: Message) -> None:
        """Note an unreadable request with an answer: its effect is unknown."""
        self._lose(connection, Hole(request.packet, answer.packet, "cut"))

    # -- ends

    def ended(self, event: HalfClosed | Closed) -> tuple[ConnectionFacts, bool]:
        """Add an end to its connection. The second value is True if it is the first end.

        Before the first request the client side is unknown and not needed: the flow's own client may depend on how many
        packets came at once, and an ended side sends no request or answer. A PROXY header shows it too.
        """
        connection = self.of(event.flow)
        broker = connection.broker
        is_known = broker is not None or event.flow.proxied is not None
        is_client = event.side == event.flow.calling_side if is_known and event.side is not None else None
        if type(event) is HalfClosed and is_client and connection.client_fin is None:
            connection.client_fin = event.packet
        if type(event) is Closed:
            self._closed(connection, event)
            if event.how in ("capture", "forgotten"):
                return connection, False
            if broker is None and event.flow.proxied is not None:  # a header alone
                at = self._brokers.at if event.flow.service == "kafka" else self._brokers.at_address
                connection.broker = at(event.flow.broker)
        by: By = "unknown" if is_client is None else "client" if is_client else "broker"
        if connection.ends and type(event) is Closed and event.how == "fin":
            by = _OTHER[connection.ends[0].by]  # `side` closed first
        end = End(event.packet, event.time_ns, by, event.flow.id)
        connection.ends.append(end)
        if len(connection.ends) > 1:
            return connection, False
        if broker is not None and not connection.refuses_header:
            broker.ended(end, restarted=type(event) is Closed and event.how == "restart")
        return connection, True

    def _closed(self, connection: ConnectionFacts, event: Closed) -> None:
        flow = event.flow
        if event.how == "fin" and connection.client_fin is None:
            connection.client_fin = event.packet
        connection.over_at = event.packet
        self.by_flow.pop(flow.id, None)
        if self._clock.complete is not None and flow.service == "tls":
            self._clock.complete.unread.add(host_of(flow.client))
        if event.how in ("capture", "forgotten"):
            if event.how == "forgotten":
                self.gave_up(connection, event.packet)
            if connection.broker is not None:
                connection.broker.open.discard(flow.id)
        elif (
            event.how == "rst"
            and flow.opened_by is not None
            and event.side == 1 - flow.opened_by
            and not any(flow.stream_bytes)
        ):
            # A SYN answered by a RST, on a port where a broker listened before.
            broker = self._brokers.at_address(flow.ends[1 - flow.opened_by])
            if broker is not None:
                broker.refused(End(event.packet, event.time_ns, "broker", flow.id))
