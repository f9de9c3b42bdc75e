"""The state that leaders store for acknowledgements. Rules 117, 118 and 122, and the part of rule 64 that shows in
the stored state.

A leader stores acknowledgements before it answers. A broker is accused only if the capture shows that it did so the
last times, and only for records that the member certainly held: no other member could have them stored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import itemgetter
from typing import ClassVar, Final, Generic, TypeVar

from msgspec import Struct

from kshark.analysis.facts.argument import EXCHANGE, Argument, refused_with
from kshark.analysis.facts.bases import AT_LEAST, AT_MOST, LOCK_DURATION, NO_CONNECTION, Limit
from kshark.analysis.facts.calls import FINAL
from kshark.analysis.facts.state_steps import StateStep
from kshark.analysis.rules.deliveries import locked_until
from kshark.analysis.rules.refusals import offsets_text
from kshark.analysis.rules.rule import NOTES, PROVED, Check, Rule
from kshark.analysis.rules.triggers import STORED
from kshark.analysis.states.partition.persisting import HALF, SLOW_NS, STORED_AS, Persisting, concern
from kshark.analysis.states.partition.records_in_flight import AcknowledgedRange, Hold, Piece
from kshark.analysis.states.partition.situations import Persisted
from kshark.analysis.states.session.state import SessionState, Unbroken
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACCEPT, GAP, REJECT, RELEASE, Stage

_INVALID_RECORD_STATE: Final = 121
_WORDS: Final[dict[int, str]] = {GAP: "as a gap", ACCEPT: "as accepted", RELEASE: "as released", REJECT: "as rejected"}


_Range = TypeVar("_Range", Piece, AcknowledgedRange)


class NotStored(Struct, frozen=True):
    """Proof that a leader has not stored records.

    It stores other records, with the same coordinator and as the same leader, and never these.
    """

    because: ClassVar[str | None] = None
    persisting: Persisting
    first: int
    last: int
    unbroken: Unbroken

    @property
    def session(self) -> SessionState:
        """Session of the acknowledgements."""
        return self.unbroken.session

    def holds(self) -> bool | None:
        """True if proved, False if refuted, None until the capture shows a later Write."""
        before, later = self.persisting.before, self.persisting.later
        if self.persisting.left.gaps(self.first, self.last):
            return False
        if later is None:
            return None
        return self.unbroken.holds() if later.is_same_leader(before) else False


class _Effect(Struct, frozen=True):
    """Records that were acknowledged with `type`, and that a Write stored in `stage`."""

    write: StateStep
    stage: Stage
    type: int
    first: int
    last: int

    @property
    def fits(self) -> bool:
        return self.stage in STORED_AS[self.type]


def not_stored(situation: Persisted) -> Argument | None:
    """The acknowledgements are accepted, and none of them is stored."""
    persisting, step, (_, partition) = situation.persisting, situation.step, situation.asked.partition
    before = persisting.before
    if situation.asked.error != 0 or len(persisting.left) == 0:
        return None
    for piece, hold, unbroken in _held(situation):
        for missing in persisting.left.over(piece.first, piece.last):
            text = (
                f"{step.here} acknowledges {offsets_text(missing.first, missing.last)} of partition {partition} and "
                f"was accepted ({step.packets}); the leader stored the acknowledgements before, the last with "
                f"{before.call.here} ({before.call.packets}), but none of these"
            )
            proof = NotStored(persisting, missing.first, missing.last, unbroken)
            return _argument(situation, text, hold, before, (missing.first, missing.last), proof)
    return None


def stored_otherwise(situation: Persisted) -> Argument | None:
    """The stored state does not fit the acknowledgements."""
    _, partition = situation.asked.partition
    if situation.asked.error != 0 or not situation.persisting.writes:
        return None
    effects = _effects(situation)
    for piece, hold, unbroken in _held(situation):
        stored = effects.get(piece[:2], ())
        fitting = [effect for effect in stored if effect.fits]
        for effect in stored:
            if effect.fits or any(other.first <= effect.last and other.last >= effect.first for other in fitting):
                continue
            text = (
                f"{situation.step.here} acknowledges {offsets_text(effect.first, effect.last)} of partition "
                f"{partition} {_WORDS[effect.type]} ({situation.step.packets}); {effect.write.call.here} stores them "
                f"as {effect.stage} ({effect.write.call.packets})"
            )
            return _argument(situation, text, hold, effect.write, (effect.first, effect.last), unbroken)
    return None


def refused_and_stored(situation: Persisted) -> Argument | None:
    """The acknowledgements are refused, and part of them is stored."""
    (_, partition), error = situation.asked.partition, situation.asked.error
    if error != _INVALID_RECORD_STATE or not situation.persisting.writes:
        return None
    effects = _effects(situation)
    for piece, hold, unbroken in _held(situation):
        for effect in effects.get(piece[:2], ()):
            if not effect.fits:
                continue
            text = (
                f"{situation.step.here} acknowledges {offsets_text(*situation.asked.extent)} of partition {partition} "
                f"and {refused_with(error)} ({situation.step.packets}); nevertheless {effect.write.call.here} stores "
                f"{offsets_text(effect.first, effect.last)} of them as {effect.stage} ({effect.write.call.packets})"
            )
            return _argument(situation, text, hold, effect.write, (effect.first, effect.last), unbroken)
    return None


def stored_slowly(situation: Persisted) -> Argument | None:
    """Most of the time was spent on storing."""
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


# -- records certainly held, and what was stored of them


def _held(situation: Persisted) -> Iterator[tuple[Piece, Hold, Unbroken]]:
    """Yield the records that the member certainly held until the answer, and how to prove it."""
    step, partition = situation.step, situation.asked.share_partition
    if not situation.persisting.is_due or step.answer is None or step.kind is FINAL:
        return
    session = step.connection.state_of(step.group_id, step.member_id)
    # With disorder, a packet before the request may have been sent after it.
    if session is None or step.connection.clock.disorder_ns:
        return
    pieces = situation.asked.pieces
    for piece, is_concerned in zip(pieces, concern(pieces, partition.awaited), strict=True):
        (record, *others), hold = piece.value, piece.value[0].hold
        if others or hold is None or not record.is_held_by(step.member_id) or record.may_run_out(step.answer.time_ns):
            continue
        is_its_own = (
            hold.step.connection is step.connection
            and hold.step.end < step.packet
            and partition.changes.covers(hold.step.packet, step.packet)
        )
        if is_its_own and not is_concerned:
            yield piece, hold, Unbroken(session, hold.step.packet, step.packet)


def _effects(situation: Persisted) -> dict[tuple[int, ...], list[_Effect]]:
    """Return the state stored meanwhile, by first and last offset of each piece of records."""
    pieces, runs = (
        _RangeIndex(situation.asked.pieces),
        _RangeIndex([run for run in situation.asked.runs if run.type in STORED_AS]),
    )
    effects: dict[tuple[int, ...], list[_Effect]] = {}
    for write, batch in situation.persisting.writes:
        for run in runs.between(batch.first, batch.last):
            first, last = max(batch.first, run.first), min(batch.last, run.last)
            for piece in pieces.between(first, last):
                effect = _Effect(write, batch.stage, run.type, max(piece.first, first), min(piece.last, last))
                effects.setdefault(piece[:2], []).append(effect)
    return effects


class _RangeIndex(Generic[_Range]):
    """Ranges that may overlap. A lookup does not go through all of them."""

    def __init__(self, ranges: Iterable[_Range]) -> None:
        self._ranges: list[_Range] = sorted(ranges, key=itemgetter(0))
        #: Highest last offset of the ranges up to each index.
        self._reach: list[int] = [*accumulate((range_.last for range_ in self._ranges), max)]

    def between(self, first: int, last: int) -> Iterator[_Range]:
        """Yield the ranges that hold any of these offsets."""
        for index in range(bisect_left(self._reach, first), len(self._ranges)):
            range_ = self._ranges[index]
            if range_.first > last:
                break
            if range_.last >= first:
                yield range_


def _argument(
    situation: Persisted, text: str, hold: Hold, write: StateStep, offsets: tuple[int, int], proof: Unbroken | NotStored
) -> Argument:
    witness = (*sorted((hold.step, write.call), key=lambda call: call.packet), situation.step)
    needs, grounds = EXCHANGE.and_proof(proof), (locked_until(situation.step, hold),)
    return Argument(text, witness, needs, partition=situation.asked.partition, offsets=offsets, grounds=grounds)


ROWS: Final = (
    Rule(
        number=117,
        code="ACK_NOT_PERSISTED",
        text="A leader accepted acknowledgements, but did not store them with the share coordinator.",
        act="accepted acknowledgements and did not store them",
        weight=94,
        must="A leader stores acknowledgements before it answers that they are accepted.",
        advice="Expect the records again when the partition's leader moves or restarts. Report it to Kafka with these "
        "packets.",
        wrong="ShareAcknowledge epoch 1, accept 0-9 → 0; not stored",
        right="ShareAcknowledge epoch 1, accept 0-9 → 0; stored as acknowledged",
        source="Kafka: SharePartition.writeShareGroupState",
        rests_on=(LOCK_DURATION, AT_MOST, NO_CONNECTION, Limit("STORED_RANGES")),
        blame=("broker",),
        verdicts=PROVED,
        machine=IN_FLIGHT,
        checks=(Check(not_stored, trigger=STORED, about=Persisted),),
    ),
    Rule(
        number=118,
        code="PERSISTED_STATE_MISMATCH",
        text="A leader stored another state than the acknowledgements asked for.",
        act="stored another state than the acknowledgements asked for",
        weight=94,
        must="Accepted records are stored as acknowledged, rejected ones as archived, released ones as available or "
        "archived.",
        advice="When the leader moves or restarts, some records may be delivered again and others never. Report it to "
        "Kafka with these packets.",
        wrong="ShareAcknowledge epoch 1, accept 0-9 → 0; stored as available",
        right="ShareAcknowledge epoch 1, accept 0-9 → 0; stored as acknowledged",
        source="Kafka: SharePartition.writeShareGroupState",
        rests_on=(LOCK_DURATION, AT_MOST, NO_CONNECTION, Limit("STORED_RANGES")),
        blame=("broker",),
        verdicts=PROVED,
        machine=IN_FLIGHT,
        checks=(Check(stored_otherwise, trigger=STORED, about=Persisted),),
    ),
    Rule(
        number=122,
        code="PERSIST_SLOW",
        text="The answer to acknowledgements is slow, mostly because of the share coordinator.",
        weight=25,
        advice="Check why the share coordinator is slow: its log is __share_group_state, and each answer waits for "
        "the replicas of that log.",
        wrong="ShareAcknowledge epoch 1, accept 0-9 → …; WriteShareGroupState acknowledged 0-9 → …; 900 ms later; … → "
        "0",
        right="ShareAcknowledge epoch 1, accept 0-9 → …; WriteShareGroupState acknowledged 0-9 → …; 5 ms later; … → 0",
        source="Kafka: PersisterStateManager",
        rests_on=(AT_LEAST,),
        blame=(),
        verdicts=NOTES,
        rationed=True,
        machine=IN_FLIGHT,
        checks=(Check(stored_slowly, trigger=STORED, about=Persisted),),
    ),
)
