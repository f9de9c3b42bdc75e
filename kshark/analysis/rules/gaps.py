"""Rules 61 and 62: records that are acknowledged as gaps, and gaps that are acknowledged as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.bases import ANSWER_RECEIVED, NO_CONNECTION
from kshark.analysis.rules.refusals import offsets_text
from kshark.analysis.rules.rule import Check, Rule
from kshark.analysis.rules.triggers import LACKING, PASSES_OVER
from kshark.analysis.states.partition.missing_offsets import MISSING, between, recorded
from kshark.analysis.states.partition.records_in_flight import AcknowledgedRange, Hold, runs_of
from kshark.analysis.states.partition.situations import Acknowledging
from kshark.analysis.states.session.state import Unbroken
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACCEPT, GAP, REJECT, RELEASE
from kshark.records.spans import CONTROL

_DOES: Final[dict[int, str]] = {GAP: "acknowledges", ACCEPT: "accepts", RELEASE: "releases", REJECT: "rejects"}
_THERE: Final = {CONTROL: "a control record there, which no consumer receives", MISSING: "no record there"}


def passed_over(situation: Acknowledging) -> Argument | None:
    """Report a record that is acknowledged as a gap, although an answer of this capture delivered it to the member."""
    for run in situation.runs:
        if run.type == GAP:
            break
    else:
        return None  # the usual case
    gaps = [run for run in situation.runs if run.type == GAP] if situation.error == 0 else []
    for run, hold in _held(situation, gaps):
        offsets = None if hold.lacks is None else recorded(hold.lacks, run.first, run.last)
        if offsets is not None:
            there = "a record there" if offsets[0] == offsets[1] else "records there"
            return _argument(situation, hold, AcknowledgedRange(*offsets, GAP), there)
    return None


def not_passed_over(situation: Acknowledging) -> Argument | None:
    """Report an offset without a record that has its own acknowledgement type, and this type is not 0.

    One type for a whole batch does not show what it means for a single offset.
    """
    for piece in situation.pieces:
        hold = piece.value[0].hold
        if hold is not None and hold.lacks:
            break
    else:
        return None  # the usual case
    runs = _single_types(situation) if situation.error == 0 else []
    for run, hold in _held(situation, runs):
        for lack in between(hold.lacks or (), run.first, run.last):
            if lack.kind in _THERE:
                return _argument(situation, hold, AcknowledgedRange(lack.first, lack.last, run.type), _THERE[lack.kind])
    return None


def _single_types(situation: Acknowledging) -> list[AcknowledgedRange]:
    """Return the offsets that are acknowledged as records, each with its own type."""
    single = [batch for batch in situation.batches if len(batch.types) == batch.last - batch.first + 1]
    return [run for run in runs_of(single) if run.type in _DOES and run.type != GAP]


def _held(situation: Acknowledging, runs: Iterable[AcknowledgedRange]) -> Iterator[tuple[AcknowledgedRange, Hold]]:
    """Yield the parts of these runs that the member held when it sent the request, each with its acquisition."""
    step = situation.step
    for run in runs:
        for piece in situation.pieces:
            first, last, hold = max(run.first, piece.first), min(run.last, piece.last), piece.value[0].hold
            if first > last or hold is None or hold.step.end >= step.packet:
                continue
            if all(record.is_held_by(step.member_id) and record.hold is hold for record in piece.value):
                yield AcknowledgedRange(first, last, run.type), hold


def _argument(situation: Acknowledging, hold: Hold, run: AcknowledgedRange, there: str) -> Argument | None:
    """Return an argument that holds if the session is proved to continue: then no later answer has the same offsets."""
    step, by, (first, last, type_) = situation.step, hold.step, run
    session = by.connection.state_of(by.group_id, by.member_id)
    if session is None:
        return None
    as_gap = "" if type_ != GAP else " as a gap" if first == last else " as gaps"
    text = (
        f"{step.here} {_DOES[type_]} {offsets_text(first, last)} of partition {situation.partition[1]}{as_gap} "
        f"({step.packets}); {by.here}, which acquired {'it' if first == last else 'them'}, has {there} ({by.packets})"
    )
    needs = EXCHANGE.after(by).and_proof(Unbroken(session, by.packet, step.packet))
    return Argument(text, (by, step), needs, partition=situation.partition, offsets=(first, last))


ROWS: Final = (
    Rule(
        number=61,
        code="GAP_ON_REAL_RECORD",
        text="A delivered record was acknowledged as a gap: the group will not process it.",
        act="acknowledged delivered records as gaps: the group will not process them",
        weight=93,
        must="Only offsets without a record, or with a control record, are acknowledged with type 0 (GAP).",
        advice="Accept, release or reject each delivered record. Send type 0 only for acquired offsets without a "
        "record in the same answer, and for those of control batches. The group loses these records until its "
        "offsets are reset to before them.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-2, batch 0-2; ShareAcknowledge epoch 1, types 1 0 1 for 0-2 → 0; "
        "ShareFetch epoch 2 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-2, batch 0-2; ShareAcknowledge epoch 1, types 1 2 1 for 0-2 → 0; "
        "ShareFetch epoch 2 → 0",
        provoked_by="Consume a compacted topic, or one with aborted transactions, with a few records for each poll "
        "(max.poll.records).",
        source="Kafka: ShareCompletedFetch.fetchRecords",
        rests_on=(NO_CONNECTION, ANSWER_RECEIVED),
        machine=IN_FLIGHT,
        checks=(Check(passed_over, trigger=PASSES_OVER, about=Acknowledging),),
    ),
    Rule(
        number=62,
        code="NON_GAP_ON_GAP",
        text="An offset without a record, or with a control record, was accepted, released or rejected.",
        act="acknowledged offsets that have no record",
        weight=30,
        must="Offsets without a record, and those of control records, are acknowledged with type 0 (GAP).",
        advice="Send type 0 for acquired offsets without a record in the answer, and for those of control batches. "
        "Released offsets are delivered again until their deliveries are used up.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-2, batch 0-1, control 2-2; ShareAcknowledge epoch 1, types 1 1 2 for "
        "0-2 → 0; "
        "ShareFetch epoch 2 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-2, batch 0-1, control 2-2; ShareAcknowledge epoch 1, types 1 1 0 for "
        "0-2 → 0; "
        "ShareFetch epoch 2 → 0",
        provoked_by="Consume a compacted topic, or one with aborted transactions, with a few records for each poll "
        "(max.poll.records).",
        source="Kafka: ShareCompletedFetch.fetchRecords",
        rests_on=(NO_CONNECTION, ANSWER_RECEIVED),
        machine=IN_FLIGHT,
        checks=(Check(not_passed_over, trigger=LACKING, about=Acknowledging),),
    ),
)
