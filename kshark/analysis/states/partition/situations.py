"""Situations of acknowledgements and acquisitions: all facts that a rule of the in-flight machine may read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, Literal

from msgspec import Struct

from kshark.analysis.facts.calls import AcknowledgementBatch, Answer, Call, Partition, ShareStep
from kshark.analysis.facts.known import ALWAYS, NOTHING_HIDDEN, Known, known_if, never
from kshark.analysis.facts.machine import StepType
from kshark.analysis.facts.releases import agreed
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.states.member.state import Member
from kshark.analysis.states.partition.persisting import Persisting
from kshark.analysis.states.partition.rates import Rate
from kshark.analysis.states.partition.records_in_flight import (
    AcknowledgedRange,
    AcquiredRange,
    Locked,
    OpenRequest,
    Piece,
    RecordState,
)
from kshark.analysis.states.partition.share_partition import SharePartition
from kshark.analysis.states.session.state import BothUnbroken, Hint, SessionState, Unbroken
from kshark.analysis.states.tables.in_flight import RENEW
from kshark.offset_ranges import OffsetRanges

Fault = Literal["inverted", "overlap", "no_types", "types_count", "type_unknown", "renew_without_flag"]
#: The highest type of acknowledgement, by version: RENEW came with 2 (KIP-1222).
_HIGHEST_TYPE: Final = {0: 3, 1: 3}


#: Errors of a partition's acknowledgements that a finding must explain.
EXPLAINED: Final = frozenset({3, 6, 15, 42, 69, 74, 100, 121, 124})


class RecordSituation(Struct, eq=False):
    """A request, or its answer, about records of a share partition."""

    #: Arguments about records name the facts that they need.
    knowledge: ClassVar = ALWAYS
    step: ShareStep

    @property
    def acknowledged(self) -> int | None:
        """The error of the partition's acknowledgements; None if the answer names none."""
        return 0

    @property
    def call(self) -> Call:
        """The exchange of the step."""
        return self.step

    @property
    def step_type(self) -> StepType:
        error = self.acknowledged
        name = type(self).__name__
        return StepType(name, self.step.api_key, accepted=error == 0, refused=error in EXPLAINED)

    @property
    def subject(self) -> None:
        """None: arguments about records name their share partition."""


class Acknowledging(RecordSituation, eq=False):
    """Acknowledgements of a request in one partition; `pieces`: the possible states of these records before.

    `error`: the error in the answer; None if it has none for the partition.
    `received`: the packets in which all records that the member received are known: those since its join.
    `rate`: how the member acknowledged the topic's records recently, if it did not accept all.
    `stored`: the last exchange by which the partition's leader read or stored its state.
    """

    share_partition: SharePartition
    batches: Sequence[AcknowledgementBatch]
    open: OpenRequest
    pieces: Sequence[Piece]
    received: Known = NOTHING_HIDDEN
    error: int | None = None
    rate: Rate | None = None
    stored: StateStep | None = None

    @property
    def acknowledged(self) -> int | None:
        return self.error

    @property
    def runs(self) -> Sequence[AcknowledgedRange]:
        """The acknowledgements by type."""
        return self.open.runs

    @property
    def partition(self) -> Partition:
        return self.share_partition.partition

    @property
    def extent(self) -> tuple[int, int]:
        """The lowest and the highest offset."""
        return min(batch.first for batch in self.batches), max(batch.last for batch in self.batches)

    @property
    def session(self) -> SessionState | None:
        """The member's session with the broker."""
        session: SessionState | None = self.step.connection.state_of(self.step.group_id, self.step.member_id)
        return session

    @property
    def results(self) -> Known:
        """The fact that also the results of all deliveries to the member are known, and its session is the first one.

        Before a later session the member may have had records on a connection that the capture lacks.
        """
        partition, received, session = self.share_partition, self.received, self.session
        is_known = received.since <= self.step.packet and session is not None and session.unbroken is session.begun
        is_known = is_known and partition.known.since <= received.since and partition.forgotten < self.extent[0]
        return known_if(is_known, str(partition.known.because))

    @property
    def acquired_before(self) -> Known:
        """The fact that offsets after the last acquired one were never acquired.

        A leader that started anew does not know all earlier acquisitions, its own or another leader's. Offsets above
        `reached` were not part of any acquisition.
        """
        return never("leader_moved") if self.extent[1] <= self.share_partition.reached else self.received

    def delivered_once(self, record: RecordState) -> Known:
        """Return the fact that the member received the record only once."""
        return known_if(self._is_delivered_once(record), "lock_unknown")

    def not_delivered_since(self, record: RecordState) -> Known:
        """Return the packets in which the member did not receive a record again that it had released."""
        session = self.session
        return NOTHING_HIDDEN if session is None or not self._is_delivered_once(record) else session.deliveries

    def _is_delivered_once(self, record: RecordState) -> bool:
        """True if all deliveries of the record, or its delivery count, show that the member received it only once.

        Kafka 4.1 does not count deliveries that end with their session.
        """
        hold, session = record.hold, self.session
        if self.results.is_certain:
            return True
        if record.count == 1:
            return session is not None and agreed(session.releases, "release_uncounts") is False
        return (
            record.count == 2
            and hold is not None
            and hold.before is not None
            and hold.before.step.member_id != self.step.member_id
        )

    @property
    def explanation(self) -> Known:
        """The explanation of a refusal if no rule has one: never certain."""
        is_open = self.pieces and not self.missing and any(len(piece.value) > 1 for piece in self.pieces)
        return never("lock_unknown" if is_open else str(self.share_partition.known.because))

    @property
    def fault(self) -> tuple[Fault, AcknowledgementBatch] | None:
        """The first error in the batches, in the order of the broker's checks.

        Kafka: KafkaApis.validateAcknowledgementBatches.
        """
        before, highest = -1, _HIGHEST_TYPE.get(self.step.version, RENEW)
        for batch in self.batches:
            size = batch.last - batch.first + 1
            if size < 1:
                return "inverted", batch
            if batch.first < before:
                return "overlap", batch
            if not batch.types:
                return "no_types", batch
            if len(batch.types) not in (1, size):
                return "types_count", batch
            if not all(0 <= kind <= highest for kind in batch.types):
                return "type_unknown", batch
            if RENEW in batch.types and not self.step.is_renewal:
                return "renew_without_flag", batch
            before = batch.last
        return None

    @property
    def missing(self) -> list[tuple[int, int]]:
        """Offsets whose state was unknown."""
        left: OffsetRanges[bool] = OffsetRanges()
        for run in self.runs:
            left.put(run.first, run.last, True)
        for piece in self.pieces:
            left.drop(piece.first, piece.last)
        return [(piece.first, piece.last) for piece in left]


class Persisted(RecordSituation, eq=False):
    """Acknowledgements with their answer, and the part that their leader has stored."""

    asked: Acknowledging
    persisting: Persisting

    @property
    def acknowledged(self) -> int | None:
        return self.asked.error


class Acquiring(RecordSituation, eq=False):
    """The records that an answer delivers from one partition; `session`: the member's session.

    `lost_fetches`: fetches of the group that may have acquired records without delivering them.
    `given_up`: records that are never delivered again, as this acquisition shows.
    `locked_before`: an earlier acquisition with another lock duration.
    """

    answer: Answer
    session: SessionState
    share_partition: SharePartition
    ranges: Sequence[AcquiredRange]
    lost_fetches: Iterable[ShareStep] = ()
    given_up: Sequence[Piece] = ()
    locked_before: Locked | None = None


class LeaderUnchanged(Struct, frozen=True):
    """Proof that the leader has kept the state of the records, so that it alone is at fault; `unbroken` comes first.

    A leader reads the state again, without the acquisitions, after it moved away and back, after the share coordinator
    fenced its Write, and after somebody set new start offsets. All this may happen on hosts that the capture lacks. It
    did not happen in either case:

    - The leader read or stored the state before, and stores it afterwards on the same connection without a new Read.
    - The broker is alone in its cluster, and the group was not empty: only then can start offsets be set
      (Kafka: GroupCoordinatorService.alterShareGroupOffsets).

    `may_move` False: what the share coordinator has stored is enough, so a new leader would not differ.
    """

    because: ClassVar[str | None] = None
    unbroken: Unbroken | BothUnbroken
    partition: SharePartition
    members: Sequence[Member]
    since: int
    answer: Answer
    may_move: bool

    @property
    def session(self) -> SessionState:
        """The session whose later requests are a part of the proof."""
        return self.unbroken.session

    def holds(self) -> bool | str | None:
        """None until a later request, heartbeat, or Write of the leader is seen."""
        shown = self.unbroken.holds()
        if not shown:
            return shown
        at_broker = self.partition.leader.is_alone or not self.may_move
        present = [member.was_in_group(self.since, self.answer.time_ns) for member in self.members if at_broker]
        if True in present:
            return True
        first, (_, last) = self.partition.first_stored, self.partition.stored or (0, None)
        if first is not None and last is not None and first.call.end <= self.since and last.is_same_leader(first):
            return True if last.packet > self.answer.packet else None
        return None if None in present else "hidden_traffic"


class Misdirected(RecordSituation, eq=False):
    """An answer that names another leader of a partition, like the answers before (`hint`)."""

    session: SessionState
    partition: Partition
    hint: Hint


class Unserved(RecordSituation, eq=False):
    """A partition that could not be fetched; `was_served`: its leader served it before, as far as the capture shows."""

    partition: Partition
    error: int
    was_served: bool


class Starving(RecordSituation, eq=False):
    """A fetch that received no records while many offsets of a partition are in flight.

    `first_left`: the first records that are not ended.
    """

    session: SessionState
    share_partition: SharePartition
    first_left: Piece
