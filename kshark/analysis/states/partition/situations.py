"""What acknowledgements and acquisitions of records met: all that a rule of the in-flight machine may look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from kshark.analysis.facts.calls import Answer, Batch, Partition, Step
from kshark.analysis.facts.machine import StepType
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.states.partition.persisting import Persisting
from kshark.analysis.states.partition.rates import Rate
from kshark.analysis.states.partition.records_in_flight import AcquiredRange, Locked, Piece, Run
from kshark.analysis.states.partition.share_partition import SharePartition
from kshark.analysis.states.session.state import Hint, SessionState
from kshark.analysis.states.tables.in_flight import RENEW
from kshark.offset_ranges import OffsetRanges

Fault = Literal["inverted", "overlap", "no_types", "types_count", "type_unknown", "renew_without_flag"]
#: The highest type of acknowledgement, by version: RENEW came with 2 (KIP-1222).
_HIGHEST_TYPE: Final = {0: 3, 1: 3}


#: Errors of a partition's acknowledgements of which one finding has to say why they came.
EXPLAINED: Final = frozenset({3, 6, 42, 74, 100, 121})


class RecordSituation(Struct, eq=False):
    """A request, or its answer, that is about records of a share partition."""

    step: Step

    @property
    def acknowledged(self) -> int | None:
        """The error of the partition's acknowledgements; None where the answer names none."""
        return 0

    @property
    def step_type(self) -> StepType:
        error = self.acknowledged
        name = type(self).__name__
        return StepType(name, self.step.api_key, accepted=error == 0, refused=error in EXPLAINED)

    @property
    def knowledge(self) -> None:
        """Arguments about records are judged by themselves."""

    @property
    def subject(self) -> None:
        """Arguments about records name their share partition."""


class Acknowledging(RecordSituation, eq=False):
    """What a request acknowledges in one partition, and what it met: `pieces` of what is known.

    `error` is what the answer says of it, None where it says nothing. `seen_since`: the packet with which the member
    joined its group, where nothing of what it did since is missing: what it was not seen to be handed, it was not.
    `rate`: how the member acknowledged the topic's records last, where it did not accept all. `stored`: by which
    exchange the partition's leader read or stored its state last."""

    share_partition: SharePartition
    batches: Sequence[Batch]
    runs: Sequence[Run]
    pieces: Sequence[Piece]
    seen_since: int | None = None
    error: int | None = None
    rate: Rate | None = None
    stored: StateStep | None = None

    @property
    def acknowledged(self) -> int | None:
        return self.error

    @property
    def partition(self) -> Partition:
        return self.share_partition.partition

    @property
    def extent(self) -> tuple[int, int]:
        """The lowest offset and the highest."""
        return min(batch.first for batch in self.batches), max(batch.last for batch in self.batches)

    @property
    def session(self) -> SessionState | None:
        """The member's with the broker."""
        found: SessionState | None = self.step.connection.state_of(self.step.group_id, self.step.member_id)
        return found

    @property
    def is_all_seen(self) -> bool:
        """Whether it is known besides what became of all that the member was handed, in its first session: before
        another one it may have had some on a connection that the capture lacks."""
        partition, since, session = self.share_partition, self.seen_since, self.session
        if since is None or session is None or session.unbroken is not session.begun:
            return False
        return partition.doubt[0] <= since and partition.forgotten < self.extent[0]

    @property
    def fault(self) -> tuple[Fault, Batch] | None:
        """The first thing wrong with the batches, in the order in which a broker looks. Kafka:
        KafkaApis.validateAcknowledgementBatches."""
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
            if not all(0 <= one <= highest for one in batch.types):
                return "type_unknown", batch
            if RENEW in batch.types and not self.step.is_renewal:
                return "renew_without_flag", batch
            before = batch.last
        return None

    @property
    def missing(self) -> list[tuple[int, int]]:
        """Offsets of which nothing was known."""
        left: OffsetRanges[bool] = OffsetRanges()
        for run in self.runs:
            left.put(run.first, run.last, True)
        for piece in self.pieces:
            left.drop(piece.first, piece.last)
        return [(one.first, one.last) for one in left]


class Persisted(RecordSituation, eq=False):
    """Acknowledgements with their answer, and what their leader has stored of them."""

    asked: Acknowledging
    persisting: Persisting

    @property
    def acknowledged(self) -> int | None:
        return self.asked.error


class Acquiring(RecordSituation, eq=False):
    """What an answer hands out of one partition; `session` is its member's.

    `stranded` are fetches of the group that may have acquired records and handed out none, `given_up` records that
    nobody gets any more, as this acquisition shows; `locked_before` is one before whose locks were to last longer, or
    not as long."""

    answer: Answer
    session: SessionState
    share_partition: SharePartition
    handed: Sequence[AcquiredRange]
    stranded: Iterable[Step] = ()
    given_up: Sequence[Piece] = ()
    locked_before: Locked | None = None


class Misdirected(RecordSituation, eq=False):
    """An answer that names another leader of a partition, as those before it did (`hint`)."""

    session: SessionState
    partition: Partition
    hint: Hint


class Unserved(RecordSituation, eq=False):
    """A partition that could not be fetched from; `known`: its leader has known its state before, as far as the capture
    shows."""

    partition: Partition
    error: int
    known: bool


class Starving(RecordSituation, eq=False):
    """A fetch that was handed nothing while many offsets of a partition are in flight: `first_left` are the first not
    done with."""

    session: SessionState
    share_partition: SharePartition
    first_left: Piece
