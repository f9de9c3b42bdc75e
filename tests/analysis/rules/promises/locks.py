"""Promises of kshark.analysis.rules.locks: locks that block a partition or last longer than before."""

from __future__ import annotations

from tests.analysis.rules.promises.acknowledgements import holding
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.rules.promises.promise import Said, promise
from tests.conversation import Conversation, note


@promise
def the_limit_of_records_in_flight_is_reached() -> Said:
    talk = Conversation()
    holding(talk, (0, 499), (500, 1999))
    return talk, [note("WINDOW_SATURATED", talk.member("b").share_fetch(0, [0]).answered())]


@promise
def locks_last_longer_than_before() -> Said:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 4, 1))
    return talk, [note("LOCK_DURATION_CHANGED", given(a, 1, (5, 9, 1), lock_ms=60_000))]
