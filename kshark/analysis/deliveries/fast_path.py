"""The fast path of most records: handed out as they were due, and acknowledged by a member that surely had them.

What is odd about a situation has a sign, a bit for each trigger of the rules' rows (kshark.analysis.rules.triggers): only the rules are
looked at whose trigger's bit is there, and where there is none the situation need not be drawn up. The exact path looks at all of them
and comes to the same (`Analyzer(exact=True)`; tests hold the two together).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kshark.analysis.deliveries.lacking import OUTSIDE, Lacks, between
from kshark.analysis.deliveries.record_situation import Acknowledging
from kshark.analysis.deliveries.records_in_flight import Piece
from kshark.analysis.machines.in_flight import ACQUIRED, AVAILABLE, GAP, USUAL_LIMIT
from kshark.analysis.rules import triggers

#: Each rule is looked at.
ALL: Final = -1
_NOT_HELD: Final = triggers.NOT_HELD.sign
_PASSES_OVER: Final = triggers.PASSES_OVER.sign
_LACKING: Final = triggers.LACKING.sign
_REFUSED_BEFORE: Final = triggers.REFUSED_BEFORE.sign
_UNDUE: Final = triggers.UNDUE.sign | triggers.AGAIN.sign
_AGAIN: Final = triggers.AGAIN.sign
_OUT_OF_REACH: Final = triggers.OUT_OF_REACH.sign
#: How records became available that rules look at when they are handed out again.
_TELLING: Final = frozenset({"stored", "lock_timeout"})


def acknowledged(asked: Acknowledging) -> int:
    """What is odd about acknowledgements that were answered."""
    partition, rate, signs = asked.share_partition, asked.rate, 0
    if asked.error != 0:
        return ALL
    if partition.handed >= asked.step.packet:
        signs = triggers.AHEAD.sign
    if rate is not None and (rate.is_release_storm or rate.is_rejecting):
        signs |= triggers.MANY_BACK.sign
    for run in asked.runs:
        if run.type == GAP:
            signs |= _PASSES_OVER
            break
    for first, last, (record, *others) in asked.pieces:
        hold = record.hold
        if others or hold is None or record.stage is not ACQUIRED:
            signs |= _NOT_HELD
        if hold is not None:
            if partition.refused and hold.before is not None:
                signs |= _REFUSED_BEFORE
            if hold.lacks and between(hold.lacks, first, last):
                signs |= _LACKING
    return signs


def handed_again(number: int, pieces: Sequence[Piece]) -> int:
    """What is odd about records that are handed out and of which something was known before; `number` is that of the delivery."""
    signs = 0 if 0 < number <= USUAL_LIMIT else _UNDUE
    for piece in pieces:
        record, *others = piece.value
        if others or record.stage is not AVAILABLE or record.count != number - 1:
            return _UNDUE
        if record.how in _TELLING:
            signs |= _AGAIN
    return signs


def lacked(lacks: Lacks) -> int:
    """What is odd about what they lack."""
    return _OUT_OF_REACH if any(one.kind == OUTSIDE for one in lacks) else 0
