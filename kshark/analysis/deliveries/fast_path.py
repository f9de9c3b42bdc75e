"""The fast path of most acknowledgements: all were taken, of records that the member surely had, delivered once or never lost on the way.

No rule has anything to say of them: none was done with before (58), nor had by another member (88), nor handed out again between the
request and its answer (60); none is passed over (61), nor is one that was no record (62); the answer says what became of them (63), and
the member neither gives back nor rejects too many (69). The exact path comes to the same (`Analyzer(exact=True)` takes no other; tests
hold the two together).
"""

from __future__ import annotations

from kshark.analysis.deliveries.lacking import between
from kshark.analysis.deliveries.record_situation import Acknowledging
from kshark.analysis.machines.in_flight import ACQUIRED, GAP


def is_plain(asked: Acknowledging) -> bool:
    """Whether rules need not look at what was acknowledged, and answered."""
    partition, rate = asked.share_partition, asked.rate
    if asked.error != 0 or partition.handed >= asked.step.packet or (rate is not None and (rate.is_release_storm or rate.is_rejecting)):
        return False
    for run in asked.runs:
        if run.type == GAP:
            return False
    for first, last, (record, *others) in asked.pieces:
        if others or record.stage is not ACQUIRED:
            return False
        hold = record.hold
        if hold is None or (partition.refused and hold.before is not None):
            return False
        if hold.lacks and between(hold.lacks, first, last):
            return False
    return True
