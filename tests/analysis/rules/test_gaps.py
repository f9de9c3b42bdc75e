"""Records acknowledged as gaps, gaps as records, offsets outside of the records: nearly the same, and what the capture
has to hold."""

from __future__ import annotations

import pytest

from tests.analysis.rules.promises.acknowledgements import ACCEPT, GAP, REJECT, RELEASE, RENEW
from tests.analysis.rules.promises.deliveries import come_again, continue_session
from tests.analysis.rules.promises.gaps import RECORDS, acknowledged, holding
from tests.analysis.talks import batch_of, codes, handed
from tests.conversation import Conversation, Member

PASSED_OVER = ("GAP_ON_REAL_RECORD", "violation")
TAKEN_FOR_A_RECORD = ("NON_GAP_ON_GAP", "violation")
OUTSIDE = ("ACQUIRED_OUTSIDE_RECORDS", "unknown")
WERE_THERE = ("ACQUIRED_OUTSIDE_RECORDS", "violation")


def given(talk: Conversation, *ranges: tuple[int, int], records: bytes) -> Member:
    """A member that was handed these offsets by an answer with these records."""
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(
        responses=handed(*((0, *one) for one in ranges), records=records), acquisition_lock_timeout_ms=30_000
    )
    return a


# -- a record is passed over


def test_markers_and_what_compaction_took_are_gaps() -> None:
    talk = Conversation()
    a = holding(talk.member("a"))
    acknowledged(a, 0, *[ACCEPT] * 5, GAP, GAP, GAP, RELEASE, REJECT)
    continue_session(a, 2)
    assert codes(talk) == []


def test_one_type_for_all_of_them_passes_over_records_too() -> None:
    talk = Conversation()
    a = holding(talk.member("a"))
    a.share_acknowledge(1, [(4, 9, GAP)]).answered()
    continue_session(a, 2)
    assert codes(talk) == [PASSED_OVER]


def test_what_was_refused_is_not_lost() -> None:
    talk = Conversation()
    a = holding(talk.member("a"))
    a.share_acknowledge(1, [(0, 4, GAP)]).answered(acks={0: 42})
    continue_session(a, 2)
    assert PASSED_OVER not in codes(talk)


@pytest.mark.parametrize("records", [b"", batch_of(0, 9, without=[3]), batch_of(0, 9, crc=1), batch_of(0, 9)[:-1]])
def test_whether_there_was_a_record_has_to_be_known(records: bytes) -> None:
    talk = Conversation()
    a = given(talk, (0, 9), records=records)
    acknowledged(a, 3, GAP)
    continue_session(a, 2)
    assert PASSED_OVER not in codes(talk)


def test_a_record_may_be_gone_when_it_comes_again() -> None:
    talk = Conversation()
    a = given(talk, (0, 9), records=batch_of(0, 9))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    a.share_fetch(2).answered(
        responses=handed((0, 0, 9, 2), records=batch_of(0, 9, without=[3])), acquisition_lock_timeout_ms=30_000
    )
    a.share_acknowledge(3, [(3, 3, GAP)]).answered()
    continue_session(a, 4)
    assert PASSED_OVER not in codes(talk)


def test_it_is_meant_only_by_who_knows_the_answer() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    waiting = a.share_fetch(1)
    late = a.share_acknowledge(2, [(3, 3, GAP)])
    waiting.answered(responses=handed((0, 0, 9), records=batch_of(0, 9)), acquisition_lock_timeout_ms=30_000)
    late.answered()
    continue_session(a, 3)
    assert PASSED_OVER not in codes(talk)


def test_a_renewed_lock_is_of_the_same_delivery() -> None:
    talk = Conversation()
    a = holding(talk.member("a"))
    a.share_acknowledge(1, [(0, 4, RENEW)], version=2, renew=True).answered()
    a.share_acknowledge(2, [(3, 3, GAP)]).answered()
    continue_session(a, 3)
    assert codes(talk) == [PASSED_OVER]


def test_behind_a_hole_it_may_have_been_handed_out_anew() -> None:
    talk = Conversation()
    a = given(talk, (0, 9), records=batch_of(0, 9))
    lost = a.share_fetch(1).answered()
    a.share_acknowledge(2, [(3, 3, GAP)]).answered()
    continue_session(a, 3)
    assert codes(talk) == [PASSED_OVER]
    assert PASSED_OVER not in codes(talk.without_packets(lost.all_packets))


# -- a gap is taken for a record


def test_one_type_for_a_whole_batch_says_nothing_of_the_marker_in_it() -> None:
    talk = Conversation()
    a = holding(talk.member("a"))
    a.share_acknowledge(1, [(0, 9, ACCEPT)]).answered()
    continue_session(a, 2)
    assert codes(talk) == []


def test_alone_it_has_a_type_of_its_own() -> None:
    talk = Conversation()
    a = holding(talk.member("a"))
    a.share_acknowledge(1, [(6, 6, RELEASE)]).answered()
    continue_session(a, 2)
    assert codes(talk) == [TAKEN_FOR_A_RECORD]


@pytest.mark.parametrize(
    "records", [b"", batch_of(0, 9, without=[5]), batch_of(0, 4) + batch_of(5, 5, control=True, crc=1), RECORDS[:-1]]
)
def test_whether_there_was_none_has_to_be_known(records: bytes) -> None:
    """Who gets a batch with a wrong checksum rejects all of its offsets. Kafka:
    ShareCompletedFetch.rejectRecordBatch."""
    talk = Conversation()
    a = given(talk, (0, 9), records=records)
    acknowledged(a, 6, REJECT)
    continue_session(a, 2)
    assert TAKEN_FOR_A_RECORD not in codes(talk)


# -- outside of the records


def test_ranges_reach_from_the_first_batch_to_the_last_and_over_what_lies_between() -> None:
    talk = Conversation()
    given(talk, (0, 9), records=RECORDS)
    assert codes(talk) == []


@pytest.mark.parametrize("records", [batch_of(1, 9), batch_of(0, 8), batch_of(20, 29)])
def test_one_offset_too_many_is_outside(records: bytes) -> None:
    talk = Conversation()
    given(talk, (0, 4), (5, 9), records=records)
    assert codes(talk) == [OUTSIDE]


@pytest.mark.parametrize(
    "records", [b"", batch_of(0, 5)[:-1], batch_of(0, 4) + batch_of(5, 9)[:-1], batch_of(0, 5, crc=1)]
)
def test_what_the_answer_holds_has_to_be_known_to_its_end(records: bytes) -> None:
    talk = Conversation()
    given(talk, (0, 9), records=records)
    assert OUTSIDE not in codes(talk)


@pytest.mark.parametrize(("most", "said"), [(9, []), (10, []), (11, [OUTSIDE])])
def test_leaders_count_offsets_that_compaction_has_taken(most: int, said: list[tuple[str, str]]) -> None:
    talk = Conversation()
    fetch = talk.member("a").share_fetch(0, [0], max_records=most)
    fetch.answered(responses=handed((0, 0, 9), records=batch_of(0, 4)), acquisition_lock_timeout_ms=30_000)
    assert codes(talk) == said


@pytest.mark.parametrize("records", [batch_of(0, 3) + batch_of(8, 9), batch_of(0, 2) + batch_of(6, 8)])
def test_a_log_with_gaps_is_compacted(records: bytes) -> None:
    talk = Conversation()
    given(talk, (0, 19), records=records)
    assert OUTSIDE not in codes(talk)


@pytest.mark.parametrize(("number", "said"), [(1, [OUTSIDE]), (2, [])])
def test_what_was_counted_for_another_delivery(number: int, said: list[tuple[str, str]]) -> None:
    talk = Conversation()
    fetch = talk.member("a").share_fetch(0, [0])
    fetch.answered(responses=handed((0, 0, 9, number), records=batch_of(0, 4)), acquisition_lock_timeout_ms=30_000)
    assert codes(talk) == said


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (batch_of(0, 9), [OUTSIDE, WERE_THERE]),
        (batch_of(0, 4) + batch_of(9, 9), [OUTSIDE, WERE_THERE]),
        (batch_of(0, 4), [OUTSIDE]),  # compaction has taken them
        (batch_of(0, 4) + batch_of(5, 9, control=True), [OUTSIDE]),
        (batch_of(0, 4) + batch_of(5, 9)[:-1], [OUTSIDE]),
        (b"", [OUTSIDE]),
    ],
)
def test_whether_there_are_records_shows_when_they_come_again(records: bytes, said: list[tuple[str, str]]) -> None:
    talk = Conversation()
    come_again(talk.member("a"), records=records)
    assert codes(talk) == said


@pytest.mark.parametrize(
    "before",
    [batch_of(0, 9, without=[7]), batch_of(0, 4) + batch_of(5, 9, control=True), batch_of(0, 4) + batch_of(7, 9)],
)
def test_what_lies_within_the_records_is_in_their_reach(before: bytes) -> None:
    talk = Conversation()
    come_again(talk.member("a"), before=before)
    assert codes(talk) == []


def test_no_missing_packet_shows_records_that_were_not_there() -> None:
    talk = Conversation()
    come_again(talk.member("a"), records=batch_of(0, 4))
    for number, _ in talk.packets():
        assert WERE_THERE not in codes(talk.without_packets([number])), number


def test_who_passes_over_what_the_answer_does_not_reach_is_not_to_blame() -> None:
    talk = Conversation()
    a = given(talk, (0, 9), records=batch_of(0, 4))
    acknowledged(a, 4, ACCEPT, GAP, GAP)
    continue_session(a, 2)
    assert codes(talk) == [OUTSIDE]
