"""The scene: what the capture shows to all watchers up to the current packet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kshark import limits
from kshark.analysis.facts.bases import Duration, Lasted
from kshark.analysis.facts.brokers import Broker, Brokers
from kshark.analysis.facts.clock import Durations, PacketTime
from kshark.analysis.facts.holes import DROPS, Drops
from kshark.analysis.facts.reading import doubt_of
from kshark.analysis.results.error_codes import ErrorCodes
from kshark.api_keys import METADATA
from kshark.incidents.usage import Usage
from kshark.link.disorder import CLOCK_DOUBTS, DISORDERS
from kshark.model import ByMessage, Exchange, Flow, Message, Weird
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark_dissectors.topics import NAMING_APIS

_MS: Final = 1_000_000
_TROUBLES: Final = frozenset({"UNACKNOWLEDGED", "SYN_UNANSWERED", "WINDOW_CLOSED"})
#: Codes of the weirds that the scene reads.
WEIRDS: Final = CLOCK_DOUBTS | DISORDERS | DROPS | _TROUBLES | {"ACKNOWLEDGED_LATE", "WINDOW_OPENED"}
#: APIs whose bodies the scene reads.
APIS: Final[frozenset[int]] = frozenset({*NAMING_APIS, METADATA})
#: Requests of one connection without an answer so far, in the order in which they were sent.
Open = ByMessage[tuple[Message]]


class Scene:
    """Brokers, open connections, their open requests, names and usage of topics, and the capture's clock.

    `flows`: connections that are not over, by number. `open`: by number of the connection,
    its requests without an answer so far (requests without one by protocol too, until their exchange comes).
    `answered`: the last answer before the current one. `given_up`: the first request that ended without an answer; the
    end of the connection follows. `unacked`, `closed_windows`: by connection and side, since when bytes are sent again
    without an acknowledgement, and since when the receiver has no room (kshark.reassembly.stalls). `pauses`: times
    without any request, answer or end of a connection. `complete`: the capture holds all traffic of its clients.
    """

    def __init__(self, registry: Registry, *, complete: bool = False) -> None:
        self.complete: Final = complete
        #: The current packet; its time never runs backwards.
        self.now = PacketTime(0, 0)
        self.flows: Final[dict[int, Flow]] = {}
        self.open: Final[dict[int, Open]] = {}
        self.answered: Final[dict[int, PacketTime]] = {}
        self.given_up: Final[dict[int, Message]] = {}
        self.unacked: Final[dict[tuple[int, int], PacketTime]] = {}
        self.closed_windows: Final[dict[tuple[int, int], PacketTime]] = {}
        self.pauses: Final[deque[tuple[int, int]]] = deque(maxlen=limits.QUIET_TIMES)
        #: The one that lasts, while time passes without a packet.
        self._pause = (0, 0)
        self.brokers: Final = Brokers()
        self.durations: Final = Durations()
        self.drops: Final = Drops()
        self.names: Final = TopicNames(registry)
        self.codes: Final = ErrorCodes(registry)
        #: By connection, until when its last throttled answer lets the client wait.
        self.throttled_until: Final[dict[int, int]] = {}
        #: The wait that the current answer asks for; 0 if none.
        self.throttle_ns = 0
        #: Fed by the watcher Topics.
        self.usage: Final = Usage()

    def note(self, weird: Weird) -> None:
        """Take a weird: of the capture's clock, or trouble of a connection's packets."""
        self.durations.note(weird)
        self.drops.note(weird)
        flow, side = weird.flow, weird.side
        if weird.code in _TROUBLES and flow is not None and side is not None:
            packet = weird.packet if weird.first_packet is None else weird.first_packet
            since = PacketTime(packet, weird.time_ns - (weird.by_ns or 0))
            match weird.code:
                case "UNACKNOWLEDGED" | "SYN_UNANSWERED":
                    self.unacked[flow, side] = since
                case "WINDOW_CLOSED":
                    self.closed_windows[flow, side] = since

    def settle(self, weird: Weird) -> None:
        """End the trouble that a weird ends, after the watchers have seen it."""
        if weird.flow is not None and weird.side is not None:
            if weird.code == "ACKNOWLEDGED_LATE":
                self.unacked.pop((weird.flow, weird.side), None)
            elif weird.code == "WINDOW_OPENED":
                self.closed_windows.pop((weird.flow, weird.side), None)

    @property
    def packet(self) -> int:
        """The number of the current packet."""
        return self.now[0]

    @property
    def time_ns(self) -> int:
        """The time of the current packet."""
        return self.now[1]

    @contextmanager
    def at(self, now_ns: int) -> Iterator[None]:
        """Let time pass without a packet, for as long as the context lasts."""
        now, time_ns = self.now, max(self.now.time_ns, now_ns)
        self.now, self._pause = PacketTime(now.packet, time_ns), (now.time_ns, time_ns)
        yield
        self.now, self._pause = now, (0, 0)

    def throttle(self, response: Message) -> None:
        """Take the throttle time of an answer."""
        self.throttle_ns = 0
        throttle_ms: Any = getattr(response.body, "throttle_time_ms", 0)
        if throttle_ms and throttle_ms > 0 and doubt_of(response) is None:
            self.throttle_ns = throttle_ms * _MS
            self.throttled_until[response.flow] = self.now[1] + self.throttle_ns

    def gave_up(self, exchange: Exchange) -> None:
        """Take an exchange without an answer, after the watchers have seen it."""
        if exchange.request is not None and exchange.outcome == "unanswered":
            self.given_up.setdefault(exchange.request.flow, exchange.request)

    def forget(self, flow: int) -> None:
        """Forget a connection that is over."""
        self.flows.pop(flow, None)
        self.open.pop(flow, None)
        self.answered.pop(flow, None)
        self.given_up.pop(flow, None)
        self.throttled_until.pop(flow, None)
        for side in (0, 1):
            self.unacked.pop((flow, side), None)
            self.closed_windows.pop((flow, side), None)

    def broker_of(self, flow: Flow) -> Broker:
        """Return the broker of a connection: one object for all addresses that Metadata gives to one node."""
        return self.brokers.at(flow.broker)

    def cluster_of(self, flow: Flow) -> int:
        """Return the number of the cluster that a connection belongs to."""
        return self.brokers.at(flow.broker).cluster

    def connections_of(self, broker: Broker) -> Iterator[Flow]:
        """Yield the open connections of a broker that speak Kafka."""
        return (flow for flow in self.flows.values() if flow.service == "kafka" and self.broker_of(flow) is broker)

    def oldest_open(self, flow: int) -> Message | None:
        """Return the first request of a connection that has no answer so far."""
        requests = self.open.get(flow)
        return next(iter(requests.values()))[0] if requests else None

    def waiting(self, flow: int) -> Message | None:
        """Return the first request of a connection that has no answer, also if the connection ends now."""
        given_up = self.given_up.get(flow)
        return self.oldest_open(flow) if given_up is None else given_up

    def waits_since(self, request: Message) -> PacketTime:
        """Return since when the broker works on the oldest request of a connection: it answers one after the other."""
        sent, answered = PacketTime(request.packet, request.time_ns), self.answered.get(request.flow)
        return sent if answered is None or answered.time_ns < sent.time_ns else answered

    def longest_pause_ns(self, since_ns: int, until_ns: int) -> int:
        """Return the longest time between two times in which the capture shows nothing of anybody."""
        longest_ns = 0
        for begin, to in (self._pause, *reversed(self.pauses)) if self._pause[1] else reversed(self.pauses):
            if to <= since_ns:
                break
            longest_ns = max(longest_ns, min(until_ns, to) - max(since_ns, begin))
        return longest_ns

    def lasted(self, least_ns: int, since: PacketTime, until: PacketTime | None = None) -> Lasted:
        """Return the ground that at least this time passed between two packets; `until` None: until now."""
        return Lasted(self.durations, since, until or self.now, Duration.AT_LEAST, least_ns)

    def topic_id(self, name: str) -> str | None:
        """Return the id that a topic has now; None if it is unknown."""
        return next((topic_id for topic_id, of in reversed(self.names.by_id.items()) if of == name), None)

    def topic(self, topic_id: str) -> str:
        """Return the name of a topic, or its id if the name is unknown."""
        return self.names.by_id.get(topic_id, topic_id)
