"""Bases of an accusation besides the packets that it names: the one place that weakens arguments.

A row of a rule names the kinds (`rests_on`); an argument carries what it rests on in its case (`grounds`), and the
judge asks each ground. Packets that are missing, another clock or another setting may make a violation unknown, and
never the reverse.

Where each kind is weakened:
- Setting: a value that the capture does not show is no proof. Defaults are none; the limits of a value that Kafka
  enforces (ConfigDef.Range) are one. Ground: Shown.
- Limit: a table of kshark that gave something up is a hole: Connections.gave_up, or the lost sight of a state.
- Duration: a clock that was set, or a file without times, is no proof. Ground: Lasted.
- Order: packets of two connections that are too close in time have no order (kshark.analysis.facts.judge).
- Absence: ProofNeeds.absence if a hidden request alone explains the case, which no capture excludes, unless it is known
  to hold all traffic of the clients (Complete); a proof in `and_proof` if later packets exclude it; or evidence of one
  connection only, which no other connection changes.
- Awareness: what a client could not have received is no reason for its next request.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, Protocol

from msgspec import Struct

from kshark.analysis.facts.clock import Durations, PacketTime


class Setting(Struct, frozen=True):
    """A setting of the broker, by its name there. `shown_by`: what shows its value."""

    name: str
    shown_by: str

    @property
    def sentence(self) -> str:
        return f"{self.name}, which {self.shown_by}"


class Limit(Struct, frozen=True):
    """A limit of kshark (kshark.limits): what lies beyond it is missing."""

    name: str

    @property
    def sentence(self) -> str:
        return f"kshark's limit {self.name}, which was not reached"


class Words(Enum):
    """Bases of one kind, each with its words."""

    @property
    def sentence(self) -> str:
        words: str = self.value
        return words


class Duration(Words):
    """A difference of packet times."""

    AT_LEAST = "at least so much time between packets, by the capture's clock"
    AT_MOST = "at most so much time between packets, by the capture's clock"


class Order(Words):
    """An order of packets."""

    CONNECTIONS = "the order of packets of two connections"
    DIRECTIONS = "the order of a connection's packets of both directions"


class Absence(Words):
    """Something that did not happen, neither in the capture nor outside it."""

    CONNECTION = "no request of the member on a connection outside the capture"
    MEMBER = "no request of another member outside the capture"
    HOST = "no client with the same ids on a host outside the capture"
    LEADER = "no change of the partition's leader outside the capture"
    ADMIN = "no change by an administrator outside the capture"


class Awareness(Words):
    """Knowledge that the accused could have had."""

    ANSWER = "an earlier answer that the client had received"


AT_LEAST, AT_MOST = Duration
BETWEEN_CONNECTIONS, BETWEEN_DIRECTIONS = Order
NO_CONNECTION, NO_MEMBER, NO_HOST, NO_LEADER, NO_ADMIN = Absence
#: What a capture with all traffic of the clients shows (`kshark check --complete`).
OF_CLIENTS: Final = frozenset({NO_CONNECTION, NO_MEMBER, NO_HOST})
ANSWER_RECEIVED = Awareness.ANSWER
#: Settings, each with what shows it. Ranges: Kafka's GroupConfig, GroupCoordinatorConfig, ShareGroupConfig.
REQUEST_BYTES: Final = Setting("socket.request.max.bytes", "DescribeConfigs or an accepted request of that size shows")
HEARTBEAT_INTERVAL: Final = Setting("group.share.heartbeat.interval.ms", "each answer to a heartbeat shows")
SESSION_TIMEOUT: Final = Setting("group.share.session.timeout.ms", "a refusal of a former member shows to be over")
GROUP_SIZE: Final = Setting("group.share.max.size", "the refusal shows to be reached")
LOCK_DURATION: Final = Setting(
    "group.share.record.lock.duration.ms",
    "answers to ShareFetch show since version 1; before, its range of 1 s to 1 h counts",
)
DELIVERY_LIMIT: Final = Setting(
    "group.share.delivery.count.limit",
    "DescribeConfigs shows; otherwise only the highest value that the release accepts counts",
)
#: The bound of the same for groups (KIP-1240).
MOST_DELIVERIES: Final = Setting("group.share.max.delivery.count.limit", "DescribeConfigs shows")
RECORD_LOCKS: Final = Setting(
    "group.share.partition.max.record.locks",
    "DescribeConfigs shows; otherwise the default, or the highest value, 10000, counts",
)
SHARE_SESSIONS: Final = Setting("group.share.max.share.sessions", "the refusal shows to be reached")
RENEWALS: Final = Setting("share.renew.acknowledge.enable", "is unknown")
IDLE_TIME: Final = Setting("connections.max.idle.ms", "is unknown")
QUOTA: Final = Setting("a client quota", "throttle_time_ms shows")
SHARE_VERSION: Final = Setting("share.version", "the refusal shows to be 0")

Basis = Setting | Limit | Duration | Order | Absence | Awareness


def kind_of(basis: Basis) -> str:
    """Return the word for the kind of a basis: `setting`, `limit`, `duration`, `order`, `absence` or `awareness`."""
    return type(basis).__name__.lower()


def name_of(basis: Basis) -> str:
    """Return the name of a setting or a limit, else the word of the basis among those of its kind."""
    return basis.name if isinstance(basis, Setting | Limit) else basis.name.lower()


class Ground(Protocol):
    """A basis in one case."""

    @property
    def basis(self) -> Basis:
        """The basis that the rule's row names."""

    def weakness(self, resolution_ns: int | None) -> str | None:
        """Return why the capture does not prove it: a word of kshark.analysis.facts.judge.REASONS.

        `resolution_ns`: the resolution of the packet times; None if packets have no times.
        """


class Lasted(Struct, frozen=True):
    """The time between two packets is at least or at most `bound_ns`."""

    durations: Durations
    since: PacketTime
    until: PacketTime
    basis: Duration
    bound_ns: int

    def weakness(self, resolution_ns: int | None) -> str | None:
        if resolution_ns is None:
            return "clock"
        least_ns, most_ns = self.durations.elapsed(self.since, self.until)
        if self.basis is Duration.AT_LEAST:
            return None if least_ns >= self.bound_ns + _rounding_ns(resolution_ns) else "clock"
        is_short = most_ns is not None and most_ns + _rounding_ns(resolution_ns) <= self.bound_ns
        return None if is_short else "clock"


class Shown(Struct, frozen=True):
    """The value of a setting: the capture shows it, or a limit of it that Kafka enforces is enough."""

    basis: Setting
    is_shown: bool

    def weakness(self, _: int | None) -> str | None:
        return None if self.is_shown else "setting_unknown"


def _rounding_ns(resolution_ns: int) -> int:
    """Return the most by which two times of that resolution misstate a duration."""
    return 0 if resolution_ns == 1 else resolution_ns


def resolution_ns(times: Iterable[int]) -> int | None:
    """Return the resolution of packet times in nanoseconds; None if all are equal, as in a file without times."""
    distinct = {*times}
    if len(distinct) < 2:
        return None
    return next(unit for unit in (1_000_000_000, 1_000_000, 1_000, 1) if all(time % unit == 0 for time in distinct))
