"""Promises of kshark.analysis.rules.last_deliveries: records that are not delivered again."""

from __future__ import annotations

from tests.analysis.rules.promises.acknowledgements import RELEASE
from tests.analysis.rules.promises.deliveries import given
from tests.analysis.rules.promises.promise import Said, promise
from tests.conversation import Asked, Conversation, note


def released_and_skipped(talk: Conversation, last: int, *, count: int = 5, pause: float = 31) -> Asked:
    """Release the records from 0 to `last` after `count` deliveries, and deliver the rest `pause` seconds later."""
    a = talk.member("a")
    given(a, 0, (0, last, count))
    a.share_acknowledge(1, [(0, last, RELEASE)]).answered()
    talk.pause(pause)
    return given(a, 2, (last + 1, 9, 1))


@promise
def a_record_reaches_the_delivery_limit() -> Said:
    talk = Conversation()
    return talk, [note("POISON_RECORD", released_and_skipped(talk, 0))]


@promise
def records_reach_the_delivery_limit_together() -> Said:
    talk = Conversation()
    at = released_and_skipped(talk, 4)
    return talk, [note("LAST_ATTEMPT_NOT_ALONE", at), note("POISON_RECORD", at)]
