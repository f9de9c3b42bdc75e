"""Offsets with a record that are acknowledged as if they had none, and the other way round. Rules 61 and 62."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.rules.refusals import offsets_text
from kshark.analysis.rules.rule import Check, Rule
from kshark.analysis.rules.triggers import LACKING, PASSES_OVER
from kshark.analysis.states.partition.missing_offsets import MISSING, between, recorded
from kshark.analysis.states.partition.records_in_flight import Hold, Run, runs_of
from kshark.analysis.states.partition.situations import Acknowledging
from kshark.analysis.states.session.state import Unbroken
from kshark.analysis.states.tables import IN_FLIGHT
from kshark.analysis.states.tables.in_flight import ACCEPT, GAP, REJECT, RELEASE
from kshark.records.spans import CONTROL

_DOES: Final[dict[int, str]] = {GAP: "passes over", ACCEPT: "accepts", RELEASE: "releases", REJECT: "rejects"}
_THERE: Final = {CONTROL: "a control record there, which no consumer is handed", MISSING: "no record there"}


def passed_over(now: Acknowledging) -> Argument | None:
    """A record is acknowledged as a gap, and the member has it from an answer of this capture."""
    for run in now.runs:
        if run.type == GAP:
            break
    else:
        return None  # the usual
    for run, hold in _held(now, [run for run in now.runs if run.type == GAP]) if now.error == 0 else ():
        found = None if hold.lacks is None else recorded(hold.lacks, run.first, run.last)
        if found is not None:
            return _argument(now, hold, Run(*found, GAP), "a record there" if found[0] == found[1] else "records there")
    return None


def not_passed_over(now: Acknowledging) -> Argument | None:
    """An offset without a record has a type of its own, and not 0; of one type for a whole batch nobody knows what it
    means there."""
    for piece in now.pieces:
        hold = piece.value[0].hold
        if hold is not None and hold.lacks:
            break
    else:
        return None  # the usual
    for run, hold in _held(now, _one_by_one(now)) if now.error == 0 else ():
        for lack in between(hold.lacks or (), run.first, run.last):
            if lack.kind in _THERE:
                return _argument(now, hold, Run(lack.first, lack.last, run.type), _THERE[lack.kind])
    return None


def _one_by_one(now: Acknowledging) -> list[Run]:
    """What is acknowledged as if there were a record, each offset with a type of its own."""
    single = [batch for batch in now.batches if len(batch.types) == batch.last - batch.first + 1]
    return [run for run in runs_of(single) if run.type in _DOES and run.type != GAP]


def _held(now: Acknowledging, runs: Iterable[Run]) -> Iterator[tuple[Run, Hold]]:
    """The parts of these runs that the member had when it sent the request, each with the answer that it has them
    from."""
    for run in runs:
        for piece in now.pieces:
            first, last, hold = max(run.first, piece.first), min(run.last, piece.last), piece.value[0].hold
            if (
                first > last
                or hold is None
                or not all(one.is_held_by(now.step.member_id) and one.hold is hold for one in piece.value)
            ):
                continue
            if hold.step.end < now.step.packet:
                yield Run(first, last, run.type), hold


def _argument(now: Acknowledging, hold: Hold, run: Run, there: str) -> Argument | None:
    """What holds as long as the session is known to have gone on: then no later answer has handed the same offsets
    out."""
    step, by, (first, last, kind) = now.step, hold.step, run
    session = by.connection.state_of(by.group_id, by.member_id)
    if session is None:
        return None
    text = (
        f"{step.here} {_DOES[kind]} {offsets_text(first, last)} of partition {now.partition[1]} ({step.packets}); "
        f"{by.here}, "
        f"which hands "
        f"{'it' if first == last else 'them'} out, has {there} ({by.packets})"
    )
    needs = EXCHANGE.and_proof(Unbroken(session, by.packet, step.packet), None)
    return Argument(text, (by, step), needs, partition=now.partition, offsets=(first, last))


ROWS: Final = (
    Rule(
        number=61,
        code="GAP_ON_REAL_RECORD",
        text="A delivered record was acknowledged as a gap: the group will not process it.",
        must="Only offsets without a record, or with a control record, are acknowledged with type 0 (GAP).",
        advice="Accept, release or reject each delivered record. Send type 0 only for acquired offsets without a "
        "record in the same answer, and for those of control batches. The group loses these records until its "
        "offsets are reset to before them.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-2, batch 0-2; ShareAcknowledge epoch 1, types 1 0 1 for 0-2 → 0; "
        "ShareFetch epoch 2 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-2, batch 0-2; ShareAcknowledge epoch 1, types 1 2 1 for 0-2 → 0; "
        "ShareFetch epoch 2 → 0",
        source="Kafka: ShareCompletedFetch.fetchRecords",
        machine=IN_FLIGHT,
        checks=(Check(passed_over, trigger=PASSES_OVER, about=Acknowledging),),
    ),
    Rule(
        number=62,
        code="NON_GAP_ON_GAP",
        text="An offset without a record, or with a control record, was accepted, released or rejected.",
        must="Offsets without a record, and those of control records, are acknowledged with type 0 (GAP).",
        advice="Send type 0 for acquired offsets without a record in the answer, and for those of control batches. "
        "Released offsets are delivered again until their deliveries are used up.",
        wrong="ShareFetch epoch 0 → 0, offsets 0-2, batch 0-1, control 2-2; ShareAcknowledge epoch 1, types 1 1 2 for "
        "0-2 → 0; "
        "ShareFetch epoch 2 → 0",
        right="ShareFetch epoch 0 → 0, offsets 0-2, batch 0-1, control 2-2; ShareAcknowledge epoch 1, types 1 1 0 for "
        "0-2 → 0; "
        "ShareFetch epoch 2 → 0",
        source="Kafka: ShareCompletedFetch.fetchRecords",
        machine=IN_FLIGHT,
        checks=(Check(not_passed_over, trigger=LACKING, about=Acknowledging),),
    ),
)
