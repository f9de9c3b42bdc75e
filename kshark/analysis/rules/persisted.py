"""What leaders store of acknowledgements, and when. Rules 117, 118 and 122, and what a breach of 64 leaves in the
stored state.

A leader stores what is acknowledged before it answers. A broker is accused only where it was seen to do so the last
times, and of records that the member certainly had: nobody else could have had them stored."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from operator import itemgetter
from typing import Final, Generic, NamedTuple, TypeVar

from kshark.analysis.facts.argument import EXCHANGE, Argument, refused_with
from kshark.analysis.facts.calls import FINAL
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.rules.refusals import offsets_text
from kshark.analysis.rules.rule import NOTES, PROVED, Check, Rule
from kshark.analysis.rules.triggers import STORED
from kshark.analysis.states.partition.persisting import HALF, SLOW_NS, STORED_AS, Persisting, concern
from kshark.analysis.states.partition.records_in_flight import Hold, Piece, Run
from kshark.analysis.states.partition.situations import Persisted
from kshark.analysis.states.session.state import SessionState, Unbroken
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACCEPT, GAP, REJECT, RELEASE, Stage

_INVALID_RECORD_STATE: Final = 121
_WORDS: Final[dict[int, str]] = {GAP: "as a gap", ACCEPT: "as accepted", RELEASE: "as released", REJECT: "as rejected"}


_Range = TypeVar("_Range", Piece, Run)


class NotStored(NamedTuple):
    """Proof that a leader has not stored records: it stores others, with the same coordinator and as the same leader,
    and never these."""

    persisting: Persisting
    first: int
    last: int
    unbroken: Unbroken

    @property
    def session(self) -> SessionState:
        """Whose acknowledgements they were."""
        return self.unbroken.session

    def holds(self) -> bool | None:
        """None while it was not seen to go on."""
        before, later = self.persisting.before, self.persisting.later
        if self.persisting.left.gaps(self.first, self.last):
            return False
        if later is None:
            return None
        return self.unbroken.holds() if later.is_same_leader(before) else False


class _Effect(NamedTuple):
    """Records that were acknowledged with that type, and stored in that state by a Write."""

    write: StateStep
    stage: Stage
    type: int
    first: int
    last: int

    @property
    def fits(self) -> bool:
        return self.stage in STORED_AS[self.type]


def not_stored(situation: Persisted) -> Argument | None:
    """The answer says that it is done, and nothing of it was stored."""
    persisting, step, (_, partition) = situation.persisting, situation.step, situation.asked.partition
    before = persisting.before
    if situation.asked.error != 0 or len(persisting.left) == 0:
        return None
    for piece, hold, unbroken in _held(situation):
        for one in persisting.left.over(piece.first, piece.last):
            text = (
                f"{step.here} acknowledges {offsets_text(one.first, one.last)} of partition {partition} and was "
                f"answered that this is done ({step.packets}); their leader stored what was acknowledged before, the "
                f"last with {before.call.here} ({before.call.packets}), and nothing of these"
            )
            proof = NotStored(persisting, one.first, one.last, unbroken)
            return _of(situation, text, hold, before, (one.first, one.last), proof)
    return None


def stored_otherwise(situation: Persisted) -> Argument | None:
    """What is stored is not what was acknowledged."""
    _, partition = situation.asked.partition
    if situation.asked.error != 0 or not situation.persisting.writes:
        return None
    effects = _effects(situation)
    for piece, hold, unbroken in _held(situation):
        found = effects.get(piece[:2], ())
        right = [one for one in found if one.fits]
        for one in found:
            if one.fits or any(other.first <= one.last and other.last >= one.first for other in right):
                continue
            text = (
                f"{situation.step.here} acknowledges {offsets_text(one.first, one.last)} of partition {partition} "
                f"{_WORDS[one.type]} ({situation.step.packets}); {one.write.call.here} stores them as {one.stage} "
                f"({one.write.call.packets})"
            )
            return _of(situation, text, hold, one.write, (one.first, one.last), unbroken)
    return None


def refused_and_stored(situation: Persisted) -> Argument | None:
    """The answer says that nothing of it was taken, and part of it was stored."""
    (_, partition), error = situation.asked.partition, situation.asked.error
    if error != _INVALID_RECORD_STATE or not situation.persisting.writes:
        return None
    effects = _effects(situation)
    for piece, hold, unbroken in _held(situation):
        for one in effects.get(piece[:2], ()):
            if not one.fits:
                continue
            text = (
                f"{situation.step.here} acknowledges {offsets_text(*situation.asked.extent)} of partition {partition} "
                f"and {refused_with(error)} ({situation.step.packets}); {one.write.call.here} stores "
                f"{offsets_text(one.first, one.last)} of them as {one.stage} all the same ({one.write.call.packets})"
            )
            return _of(situation, text, hold, one.write, (one.first, one.last), unbroken)
    return None


def stored_slowly(situation: Persisted) -> Argument | None:
    """Most of the time went into storing."""
    step, asked, writes = situation.step, situation.asked, situation.persisting.writes
    _, partition = asked.partition
    took_ns = step.end_ns - step.time_ns
    if asked.error != 0 or not writes or took_ns < SLOW_NS:
        return None
    write = max((write.call for write, _ in writes), key=lambda call: call.end_ns - call.time_ns)
    wrote_ns = write.end_ns - write.time_ns
    if wrote_ns < HALF * took_ns:
        return None
    text = (
        f"{step.here} acknowledges {offsets_text(*situation.asked.extent)} of partition {partition} and was answered "
        f"after {took_ns / 1e6:.0f} ms ({step.packets}), of which {write.here} took {wrote_ns / 1e6:.0f} ms "
        f"({write.packets})"
    )
    return Argument(text, (write, step), EXCHANGE, partition=situation.asked.partition, offsets=situation.asked.extent)


# -- what is certain


def _held(situation: Persisted) -> Iterator[tuple[Piece, Hold, Unbroken]]:
    """Records that the member certainly had until the answer came, and how that will be proved."""
    step, partition = situation.step, situation.asked.share_partition
    if not situation.persisting.is_due or step.answer is None or step.kind is FINAL:
        return
    session = step.connection.state_of(step.group_id, step.member_id)
    if (
        session is None or step.connection.clock.disorder_ns
    ):  # what stands before the request may have been stored behind it
        return
    pieces = situation.asked.pieces
    for piece, is_asked in zip(pieces, concern(pieces, chain(*partition.open)), strict=True):
        (record, *more), hold = piece.value, piece.value[0].hold
        if more or hold is None or not record.is_held_by(step.member_id) or record.may_run_out(step.answer.time_ns):
            continue
        is_its_own = (
            hold.step.connection is step.connection
            and hold.step.end < step.packet
            and hold.step.packet > partition.unreliable_until
        )
        if is_its_own and not is_asked:
            yield piece, hold, Unbroken(session, hold.step.packet, step.packet)


def _effects(situation: Persisted) -> dict[tuple[int, ...], list[_Effect]]:
    """What was stored of the records meanwhile, by first and last offset of what was known of them."""
    pieces, runs = _Over(situation.asked.pieces), _Over([run for run in situation.asked.runs if run.type in STORED_AS])
    effects: dict[tuple[int, ...], list[_Effect]] = {}
    for write, batch in situation.persisting.writes:
        for run in runs.between(batch.first, batch.last):
            first, last = max(batch.first, run.first), min(batch.last, run.last)
            for piece in pieces.between(first, last):
                one = _Effect(write, batch.stage, run.type, max(piece.first, first), min(piece.last, last))
                effects.setdefault(piece[:2], []).append(one)
    return effects


class _Over(Generic[_Range]):
    """Ranges that may lie over each other: those of some offsets are found without going through all."""

    def __init__(self, ranges: Iterable[_Range]) -> None:
        self._ranges: list[_Range] = sorted(ranges, key=itemgetter(0))
        #: How far each and those before it reach.
        self._reach: list[int] = [*accumulate((one.last for one in self._ranges), max)]

    def between(self, first: int, last: int) -> Iterator[_Range]:
        """Those that hold any of these offsets."""
        for at in range(bisect_left(self._reach, first), len(self._ranges)):
            one = self._ranges[at]
            if one.first > last:
                break
            if one.last >= first:
                yield one


def _of(
    situation: Persisted, text: str, hold: Hold, write: StateStep, offsets: tuple[int, int], proof: Unbroken | NotStored
) -> Argument:
    witness = (*sorted((hold.step, write.call), key=lambda call: call.packet), situation.step)
    return Argument(
        text, witness, EXCHANGE.and_proof(proof, None), partition=situation.asked.partition, offsets=offsets
    )


ROWS: Final = (
    Rule(
        number=117,
        code="ACK_NOT_PERSISTED",
        text="Acknowledgements were taken, and not stored with the share coordinator.",
        must="What is acknowledged is stored before the answer says that it is done.",
        advice="Expect the records once more when the partition's leader moves or starts again. Report it to Kafka "
        "with these packets.",
        wrong="ShareAcknowledge epoch 1, accept 0-9 → 0; not stored",
        right="ShareAcknowledge epoch 1, accept 0-9 → 0; stored as acknowledged",
        source="Kafka: SharePartition.writeShareGroupState",
        blame=("broker",),
        verdicts=PROVED,
        machine=IN_FLIGHT,
        checks=(Check(not_stored, trigger=STORED, about=Persisted),),
    ),
    Rule(
        number=118,
        code="PERSISTED_STATE_MISMATCH",
        text="Acknowledgements are stored as something else than what they say.",
        must="An accepted record is stored as acknowledged, a rejected one as archived, a released one as available "
        "or archived.",
        advice="Expect other records once more, or never, when the leader moves or starts again. Report it to Kafka "
        "with these packets.",
        wrong="ShareAcknowledge epoch 1, accept 0-9 → 0; stored as available",
        right="ShareAcknowledge epoch 1, accept 0-9 → 0; stored as acknowledged",
        source="Kafka: SharePartition.writeShareGroupState",
        blame=("broker",),
        verdicts=PROVED,
        machine=IN_FLIGHT,
        checks=(Check(stored_otherwise, trigger=STORED, about=Persisted),),
    ),
    Rule(
        number=122,
        code="PERSIST_SLOW",
        text="Acknowledgements wait long for their answer, most of it for the share coordinator.",
        advice="See what keeps the share coordinator: its log is __share_group_state, and an answer waits for that "
        "log's replicas.",
        wrong="ShareAcknowledge epoch 1, accept 0-9 → …; WriteShareGroupState acknowledged 0-9 → …; 900 ms later; … → "
        "0",
        right="ShareAcknowledge epoch 1, accept 0-9 → …; WriteShareGroupState acknowledged 0-9 → …; 5 ms later; … → 0",
        source="Kafka: PersisterStateManager",
        blame=(),
        verdicts=NOTES,
        rationed=True,
        machine=IN_FLIGHT,
        checks=(Check(stored_slowly, trigger=STORED, about=Persisted),),
    ),
)
