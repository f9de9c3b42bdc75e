"""Promises of kshark.analysis.rules.gaps: records acknowledged as gaps, and gaps as records."""

from __future__ import annotations

from tests.analysis.rules.promises.acknowledgements import ACCEPT, GAP, REJECT
from tests.analysis.rules.promises.deliveries import continue_session
from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import batch_of, handed, stranger
from tests.conversation import Asked, Conversation, Member, unknown, violation

#: Two transactions with the marker between them, and a batch after compacted records.
RECORDS = batch_of(0, 4) + batch_of(5, 5, control=True) + batch_of(8, 9)


def holding(a: Member) -> Member:
    """Acquire offsets 0 to 9: 5 is a marker, and 6 and 7 were compacted."""
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9), records=RECORDS), acquisition_lock_timeout_ms=30_000)
    return a


def acknowledged(a: Member, first: int, *types: int) -> Asked:
    """Acknowledge offsets from `first` on, each with its own type."""
    batch = {"first_offset": first, "last_offset": first + len(types) - 1, "acknowledge_types": [*types]}
    return a.share_acknowledge(1, [(0, 0, ACCEPT)], batches=[batch]).answered()


@promise
def a_record_is_acknowledged_as_a_gap() -> Said:
    talk = Conversation()
    a = holding(talk.member("a"))
    asked = acknowledged(a, 2, ACCEPT, GAP, GAP, GAP)
    continue_session(a, 2)
    return talk, [violation("GAP_ON_REAL_RECORD", asked, blame="client")]


@promise
def a_record_may_have_been_acknowledged_as_a_gap() -> Said:
    talk = Conversation()
    a = holding(stranger(talk))
    return talk, [unknown("GAP_ON_REAL_RECORD", acknowledged(a, 2, GAP), because="resync")]


@promise
def a_marker_is_accepted() -> Said:
    talk = Conversation()
    a = holding(talk.member("a"))
    asked = acknowledged(a, 4, ACCEPT, ACCEPT, GAP, GAP, ACCEPT)
    continue_session(a, 2)
    return talk, [violation("NON_GAP_ON_GAP", asked, blame="client")]


@promise
def a_marker_may_have_been_rejected() -> Said:
    talk = Conversation()
    a = holding(stranger(talk))
    return talk, [unknown("NON_GAP_ON_GAP", acknowledged(a, 5, REJECT), because="resync")]
