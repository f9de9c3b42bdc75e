"""Promises of kshark.analysis.rules.last_deliveries: records that nobody gets any more."""

from __future__ import annotations

from tests.analysis.rules.promises.acknowledgements import RELEASE
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.rules.promises.promise import Said, promise
from tests.conversation import Asked, Conversation, note


def passed_over(talk: Conversation, last: int, *, count: int = 5, pause: float = 31) -> Asked:
    """The records from 0 on are released after so many deliveries, and so much later those behind them are handed
    out."""
    a = talk.member("a")
    given(a, 0, (0, last, count))
    a.share_acknowledge(1, [(0, last, RELEASE)]).answered()
    talk.pause(pause)
    return given(a, 2, (last + 1, 9, 1))


@promise
def a_record_reaches_the_delivery_limit() -> Said:
    talk = Conversation()
    return talk, [note("POISON_RECORD", passed_over(talk, 0))]


@promise
def records_reach_the_delivery_limit_together() -> Said:
    talk = Conversation()
    at = passed_over(talk, 4)
    return talk, [note("LAST_ATTEMPT_NOT_ALONE", at), note("POISON_RECORD", at)]
