"""Promises of kshark.analysis.rules.deliveries and delivery_counts: wrong deliveries, and delivery
counts."""

from __future__ import annotations

from tests.analysis.coordinators import ACCEPTED, leader
from tests.analysis.rules.promises.acknowledgements import ACCEPT, RELEASE, holding
from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import alone, batch_of, handed, stranger
from tests.conversation import Asked, Conversation, Member, note, unknown, violation

#: A fetch with a strict limit of five records.
STRICT = {"version": 2, "share_acquire_mode": 1, "is_renew_ack": False, "max_records": 5}


def given(member: Member, epoch: int, *ranges: tuple[int, int, int], lock_ms: int = 30_000, **asked: object) -> Asked:
    """Send a fetch that acquires these records of partition 0: first, last, delivery count."""
    fetch = member.share_fetch(epoch, [0] if epoch == 0 else [], **asked)  # type: ignore[arg-type]
    return fetch.answered(responses=handed(*((0, *range_) for range_ in ranges)), acquisition_lock_timeout_ms=lock_ms)


def continue_session(member: Member, epoch: int) -> None:
    """Send a fetch that proves that no request of the session is missing."""
    member.share_fetch(epoch).answered()


def reaching(member: Member, epoch: int, number: int, records: bytes) -> Asked:
    """Send a fetch that acquires offsets 0 to 9, with these records."""
    fetch = member.share_fetch(epoch, [0][epoch:])
    return fetch.answered(responses=handed((0, 0, 9, number), records=records), acquisition_lock_timeout_ms=30_000)


def come_again(
    member: Member, *, before: bytes = batch_of(0, 4), records: bytes = batch_of(0, 9)
) -> tuple[Asked, Asked]:
    """Acquire offsets with records for half of them, release them, and acquire them again with other records."""
    first = reaching(member, 0, 1, before)
    member.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    return first, reaching(member, 2, 2, records)


def may_be(code: str, *ranges: tuple[int, int, int], **asked: object) -> Said:
    """Acquire these ranges on a connection that began before the capture."""
    talk = Conversation()
    return talk, [unknown(code, given(stranger(talk), 0, *ranges, **asked), because="resync")]


@promise
def records_are_delivered_to_two_members() -> Said:
    talk = alone()
    a, b = holding(talk, (0, 9)), talk.member("b")
    again = given(b, 0, (0, 9, 2))
    continue_session(a, 1)
    return talk, [violation("OVERLAPPING_ACQUISITION", again, blame="broker")]


@promise
def records_may_have_been_released_outside_the_capture() -> Said:
    talk = Conversation()
    holding(talk, (0, 9))
    return talk, [unknown("OVERLAPPING_ACQUISITION", given(talk.member("b"), 0, (0, 9, 2)), because="hidden_traffic")]


@promise
def records_are_delivered_to_their_member_again() -> Said:
    talk = alone()
    a = holding(talk, (0, 9))
    again = given(a, 1, (0, 4, 2))
    continue_session(a, 2)
    return talk, [violation("EARLY_REDELIVERY", again, blame="broker")]


@promise
def records_may_be_delivered_to_their_member_again() -> Said:
    talk = Conversation()
    a = stranger(talk)
    given(a, 0, (0, 9, 1))
    return talk, [unknown("EARLY_REDELIVERY", given(a, 1, (0, 4, 2)), because="resync")]


@promise
def accepted_records_are_delivered_again() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    again = given(a, 2, (0, 4, 2))
    continue_session(a, 3)
    return talk, [violation("REDELIVERY_AFTER_TERMINAL", again, blame="broker")]


@promise
def a_session_without_later_requests_may_have_ended_before_the_answer() -> Said:
    """It may have ended on a connection that is missing in the capture: seen with a fetch that waited for records."""
    talk = Conversation()
    a = holding(talk, (0, 9))
    return talk, [unknown("EARLY_REDELIVERY", given(a, 1, (0, 4, 2)), because="hidden_traffic")]


@promise
def accepted_records_may_be_delivered_again_after_a_reset() -> Said:
    talk = Conversation()
    holding(talk, (0, 9)).share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    return talk, [unknown("REDELIVERY_AFTER_TERMINAL", given(talk.member("b"), 0, (0, 4, 1)), because="hidden_traffic")]


@promise
def a_delivery_is_not_counted() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    again = given(a, 2, (0, 9, 1))
    continue_session(a, 3)
    return talk, [violation("DELIVERY_COUNT_JUMP", again, blame="broker")]


@promise
def deliveries_outside_the_capture_are_counted() -> Said:
    talk = Conversation()
    a = holding(talk, (0, 9))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    return talk, [unknown("DELIVERY_COUNT_JUMP", given(a, 2, (0, 9, 4)), because="hidden_traffic")]


@promise
def a_delivery_count_goes_down() -> Said:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 9, 3))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    again = given(a, 2, (0, 9, 2))
    continue_session(a, 3)
    return talk, [violation("DELIVERY_COUNT_REGRESSION", again, blame="broker")]


@promise
def a_delivery_count_may_go_down() -> Said:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 9, 3))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    return talk, [unknown("DELIVERY_COUNT_REGRESSION", given(talk.member("b"), 0, (0, 9, 2)), because="hidden_traffic")]


@promise
def a_new_leader_knows_the_stored_counts() -> Said:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 9, 3))
    elsewhere = a.on(talk.connection("10.0.0.8:9092"))
    return talk, [note("DELIVERY_COUNT_REGRESSION", given(elsewhere, 0, (0, 9, 1)))]


@promise
def a_delivery_count_is_zero() -> Said:
    talk = Conversation()
    return talk, [violation("DELIVERY_COUNT_INVALID", given(talk.member("a"), 0, (0, 9, 0)), blame="broker")]


@promise
def a_delivery_count_may_be_zero() -> Said:
    return may_be("DELIVERY_COUNT_INVALID", (0, 9, 0))


@promise
def records_are_delivered_more_often_than_any_limit_allows() -> Said:
    talk = Conversation()
    return talk, [violation("DELIVERY_COUNT_OVER_LIMIT", given(talk.member("a"), 0, (0, 9, 26)), blame="broker")]


@promise
def records_may_be_delivered_more_often_than_any_limit_allows() -> Said:
    return may_be("DELIVERY_COUNT_OVER_LIMIT", (0, 9, 26))


@promise
def acquired_offsets_may_lie_outside_the_records_of_the_answer() -> Said:
    talk = Conversation()
    return talk, [
        unknown("ACQUIRED_OUTSIDE_RECORDS", reaching(talk.member("a"), 0, 1, batch_of(0, 4)), because="compaction")
    ]


@promise
def acquired_offsets_lay_outside_the_records_of_an_earlier_answer() -> Said:
    talk = Conversation()
    a = talk.member("a")
    first, again = come_again(a)
    before = unknown("ACQUIRED_OUTSIDE_RECORDS", first, because="compaction")
    return talk, [before, violation("ACQUIRED_OUTSIDE_RECORDS", again, blame="broker")]


@promise
def acquired_offsets_may_have_been_outside_the_records_of_an_earlier_answer() -> Said:
    talk = Conversation()
    first, again = come_again(stranger(talk))
    before = unknown("ACQUIRED_OUTSIDE_RECORDS", first, because="compaction")
    return talk, [before, unknown("ACQUIRED_OUTSIDE_RECORDS", again, because="resync")]


@promise
def ranges_overlap() -> Said:
    talk = Conversation()
    return talk, [violation("ACQUIRED_MALFORMED", given(talk.member("a"), 0, (0, 9, 1), (5, 14, 1)), blame="broker")]


@promise
def ranges_may_overlap() -> Said:
    return may_be("ACQUIRED_MALFORMED", (0, 9, 1), (5, 14, 1))


@promise
def a_member_asks_for_batches_without_records() -> Said:
    talk = Conversation()
    return talk, [note("ACQUIRED_MALFORMED", given(talk.member("a"), 0, (50, 49, 1), (50, 59, 1), batch_size=0))]


@promise
def a_strict_limit_is_exceeded() -> Said:
    talk = Conversation()
    return talk, [
        violation("MAX_RECORDS_EXCEEDED", given(talk.member("a"), 0, (0, 2, 1), (3, 5, 1), **STRICT), blame="broker")
    ]


@promise
def a_strict_limit_may_be_exceeded() -> Said:
    return may_be("MAX_RECORDS_EXCEEDED", (0, 5, 1), **STRICT)


@promise
def records_were_acquired_for_a_throttled_fetch() -> Said:
    talk = Conversation()
    a = talk.member("a")
    given(a, 0, (0, 4, 1))
    a.share_fetch(1).answered(throttle_time_ms=2000)
    talk.pause(40)
    return talk, [note("STRANDED_ACQUISITION", given(a, 2, (5, 9, 2)))]


def below(talk: Conversation, member: Member) -> Asked:
    """Send a fetch that acquires records below the start offset."""
    given(member, 0, (90, 99, 1))
    leader(talk).write(100, (100, 109, ACCEPTED, 1)).accepted()
    return given(member, 1, (50, 59, 1))


@promise
def records_below_the_start_offset_are_delivered() -> Said:
    talk = Conversation()
    return talk, [violation("ACQUIRED_BELOW_SPSO", below(talk, talk.member("a")), blame="broker")]


@promise
def records_below_the_start_offset_may_be_delivered() -> Said:
    talk = Conversation()
    return talk, [unknown("ACQUIRED_BELOW_SPSO", below(talk, stranger(talk)), because="resync")]
