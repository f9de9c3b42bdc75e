"""Silent members: a coordinator drops a member without a message once its session timeout is over.

The capture shows such an end only indirectly. This module holds what it shows: session timeouts, ended connections,
lost bytes, and pauses of the whole capture, which may be steps of its clock. Sources: KIP-848, KIP-932, KIP-1071;
Kafka: GroupMetadataManager.scheduleConsumerGroupSessionTimeout, consumerGroupFenceMember.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from kshark import limits
from kshark.analysis import Moment
from kshark.api_keys import DESCRIBE_CONFIGS
from kshark.endpoints import host_of
from kshark.groups.listed import GroupType, TimeoutSource
from kshark.model import Closed, Event, Exchange, Flow, Frames, Gap, Late, Message, Tick
from kshark_dissectors.enums import ConfigOperation, ConfigResourceType

#: The session timeout without a configuration. Kafka: group.consumer.session.timeout.ms and its siblings, since 3.0
#: also session.timeout.ms of classic consumers.
DEFAULT_TIMEOUT_MS: Final = 45_000
#: The heartbeat interval without an answer that has it.
DEFAULT_INTERVAL_NS: Final = 5_000_000_000
_SETTINGS: Final[dict[str, tuple[int, GroupType]]] = {
    f"{prefix}{type}.session.timeout.ms": (resource, type)
    for type in ("consumer", "share", "streams")
    for prefix, resource in (("", ConfigResourceType.GROUP), ("group.", ConfigResourceType.BROKER))
}
#: How a connection ends that a capture shows to its end.
_ENDS: Final = frozenset({"fin", "rst", "reused"})


class Timeout(Struct, frozen=True):
    """A session timeout, its source, and the time of its last change in the capture."""

    ms: int
    source: TimeoutSource
    since_ns: int = 0

    @property
    def ns(self) -> int:
        return self.ms * 1_000_000

    def is_shown_at(self, time_ns: int) -> bool:
        """True if the capture shows that a timer which began at that time has this timeout."""
        return self.source != "default" and self.since_ns <= time_ns


_DEFAULT: Final = Timeout(DEFAULT_TIMEOUT_MS, "default")
#: The type and the id of a group; the id is None for the setting of the brokers.
_Setting = tuple[GroupType, str | None]


class Life(Struct):
    """The signs of life of one member.

    `heard`: its last message to its coordinator; `flow`, `host`: on that connection, from that host.
    `before`: the message before `heard`. `described`: the last answer to others that listed it. `timeout_ms`,
    `rebalance_ms`: from its JoinGroup. `informed`: since its last JoinGroup, it knows of a rebalance from then on.
    `is_answered`: one of its messages was answered.
    """

    heard: Moment | None = None
    flow: int | None = None
    host: str = ""
    before: Moment | None = None
    described: Moment | None = None
    informed: Moment | None = None
    timeout_ms: int | None = None
    rebalance_ms: int | None = None
    interval_ns: int = DEFAULT_INTERVAL_NS
    is_answered: bool = False

    def beats(self, since: Moment, flow: int, host: str, *, is_answered: bool) -> None:
        """Note a message of the member to its coordinator."""
        self.is_answered = self.is_answered or is_answered
        if self.heard is None or since.time_ns >= self.heard.time_ns:
            self.before, self.heard, self.flow, self.host = self.heard, since, flow, host

    @property
    def heard_ns(self) -> int:
        return 0 if self.heard is None else self.heard.time_ns

    @property
    def described_ns(self) -> int:
        return 0 if self.described is None else self.described.time_ns

    @property
    def last_ns(self) -> int:
        """The last time at which it was in the group."""
        return max(self.heard_ns, self.described_ns)


class Timeouts:
    """Session timeouts of groups, as DescribeConfigs shows them and administrators change them."""

    def __init__(self) -> None:
        self._known: dict[_Setting, Timeout] = {}
        #: The number of changes.
        self.changes = 0

    def of(self, type: GroupType | None, group_id: str, life: Life) -> Timeout:
        """Return the session timeout of a member."""
        if life.timeout_ms is not None:
            return Timeout(life.timeout_ms, "join")
        known = None if type is None else self._known.get((type, group_id)) or self._known.get((type, None))
        return known or _DEFAULT

    def learn(self, api_key: int, request: Any, answer: Any, at: Moment) -> None:
        """Take an exchange of one of CONFIG_APIS."""
        if api_key == DESCRIBE_CONFIGS:
            for resource in getattr(answer, "results", None) or ():
                if resource.error_code == 0:
                    self._describe(resource, at)
            return
        if answer is None or request.validate_only:
            return
        refused = {
            (result.resource_type, result.resource_name) for result in answer.responses or () if result.error_code
        }
        for resource in request.resources or ():
            if (resource.resource_type, resource.resource_name) not in refused:
                self._alter(resource, at)

    def _describe(self, resource: Any, at: Moment) -> None:
        for key, ms in _settings(resource):
            before = self._known.get(key)
            if ms is not None and (before is None or before.ms != ms):
                self._put(key, Timeout(ms, "config", 0 if before is None else at.time_ns))

    def _alter(self, resource: Any, at: Moment) -> None:
        for key, ms in _settings(resource):
            self._put(key, _DEFAULT if ms is None else Timeout(ms, "config", at.time_ns))

    def _put(self, key: _Setting, timeout: Timeout) -> None:
        if key in self._known or len(self._known) < limits.GROUPS:
            self._known[key] = timeout
            self.changes += 1


def _settings(resource: Any) -> Iterator[tuple[_Setting, int | None]]:
    """Yield the session timeouts among the settings of a resource; None: the default."""
    for config in resource.configs or ():
        type_of, type = _SETTINGS.get(config.name, (None, None))
        if type is None or type_of != resource.resource_type:
            continue
        is_group = type_of == ConfigResourceType.GROUP
        is_set = getattr(config, "config_operation", ConfigOperation.SET) == ConfigOperation.SET
        ms = int(config.value) if is_set and isinstance(config.value, str) and config.value.isdecimal() else None
        yield (type, resource.resource_name if is_group else None), ms


class Traffic:
    """Connections of a capture, for all groups: their ends, lost bytes, and times without any packet.

    `longest_pause_ns`: the longest time without any packet between two times; None: as the events show it.
    """

    def __init__(self, longest_pause_ns: Callable[[int, int], int] | None = None) -> None:
        self._longest_pause_ns = longest_pause_ns
        self.now = Moment(0, 0)
        #: Ended connections; the time of the last lost bytes by host of the client.
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._lost: OrderedDict[str, int] = OrderedDict()
        #: The time of the last lost bytes of any connection.
        self.lost_ns = 0
        #: Times between events, from and to: each is longer than all later ones.
        self._pauses: deque[tuple[int, int]] = deque()
        #: The length of a silence that began before is unknown.
        self._measured_since_ns = 0

    def feed(self, event: Event) -> None:
        """Take every event in the order of the time line."""
        if isinstance(event, Exchange):
            if event.request is None and event.response is not None:
                self._lose(host_of(event.flow.client), event.response.time_ns)
            return
        if isinstance(event, Frames | Late | Tick):
            return
        time_ns = event.time_ns
        self._pass(event.packet, time_ns)
        if isinstance(event, Closed) and event.how in _ENDS:
            _put(self._ended, event.flow.id, None)
        elif isinstance(event, Gap):
            self.lost_ns = max(self.lost_ns, time_ns)
            if event.side == event.flow.client_side or event.flow.client_side is None:
                self._lose(host_of(event.flow.client), time_ns)

    def has_ended(self, flow: int | None) -> bool:
        """True if the capture shows the end of a connection."""
        return flow in self._ended

    def lost_since(self, host: str, since_ns: int) -> bool:
        """True if bytes from a host were lost after that time."""
        return self._lost.get(host, -1) >= since_ns

    def silence_ns(self, since_ns: int, now_ns: int | None = None) -> int:
        """Return the length of a silence until now, without its longest pause, which may be a step of the clock; 0 if
        the clock ran backwards. `now_ns`: a time after the last event instead."""
        now_ns = self.now.time_ns if now_ns is None else now_ns
        if since_ns < self._measured_since_ns:
            return 0
        if self._longest_pause_ns is not None:
            return now_ns - since_ns - self._longest_pause_ns(since_ns, now_ns)
        # The first one is the longest one.
        longest = next((after - before for before, after in self._pauses if after > since_ns), 0)
        return now_ns - since_ns - longest

    def _pass(self, packet: int, time_ns: int) -> None:
        if packet < self.now.packet:
            return
        before, pauses = self.now.time_ns, self._pauses
        if time_ns < before:
            self._measured_since_ns = max(self._measured_since_ns, before)
        elif before:
            while pauses and pauses[-1][1] - pauses[-1][0] <= time_ns - before:
                pauses.pop()
            pauses.append((before, time_ns))
            if len(pauses) > limits.PAUSES:
                self._measured_since_ns = max(self._measured_since_ns, pauses.popleft()[1])
        self.now = Moment(packet, time_ns)

    def unread(self, message: Message, flow: Flow) -> None:
        """Take a message that cannot be read: it counts as lost."""
        self._lose(host_of(flow.client), message.time_ns)

    def _lose(self, host: str, time_ns: int) -> None:
        self.lost_ns = max(self.lost_ns, time_ns)
        _put(self._lost, host, max(time_ns, self._lost.get(host, 0)))


def _put(entries: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Set an entry; the oldest ones beyond the limit are dropped."""
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > limits.GROUP_MEMBERS:
        entries.popitem(last=False)
