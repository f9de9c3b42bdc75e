"""Share groups in figures: what each conversation comes to, counted by hand."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.analysis.results.observed import OTHERS
from kshark.metrics import Counted
from tests.analysis.coordinators import Sender
from tests.analysis.talks import UNKNOWN_MEMBER_ID, assigned, broker_closes, handed, left, sets, unchanged
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation
from tests.metrics.talks import counted, group_of, member_of, produced, told

INVALID_RECORD_STATE = 121
RESET = "share.auto.offset.reset"


def test_a_long_poll_that_runs_out_is_no_slowness() -> None:
    talk = Conversation()
    late = talk.member("a").share_fetch(0, [0])
    talk.pause(0.6)
    late.answered()
    found = member_of(talk)
    assert found.fetches == {"records": 0, "failed": 0, "idle": 1, "empty": 0, "unanswered": 0, "unread": 0}
    assert (found.work_ms, found.metrics["fetch-latency-max"], found.metrics["fetch-idle-time"]) == (None, 601.0, 601.0)


def test_an_answer_without_records_that_did_not_wait_is_empty() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(0, [0]).answered()
    assert member_of(talk).fetches["empty"] == 1


def test_records_that_came_while_the_fetch_waited_took_only_from_then_on() -> None:
    talk = Conversation()
    a, producer = talk.member("a"), talk.connection()
    late = a.share_fetch(0, [0])
    talk.pause(0.3)
    produced(producer, 0)
    late.answered(responses=handed((0, 0, 9)))
    found = member_of(talk).metrics
    assert (found["fetch-latency-max"], found["fetch-work-max"], found["fetch-idle-time"]) == (303.0, 2.0, 301.0)


def test_records_that_were_there_before_took_all_of_it() -> None:
    talk = Conversation()
    a, producer = talk.member("a"), talk.connection()
    produced(producer, 0)
    late = a.share_fetch(0, [0])
    talk.pause(0.3)
    produced(producer, 10)
    late.answered(responses=handed((0, 0, 9)))
    assert member_of(talk).metrics["fetch-work-max"] == 303.0


def test_of_records_that_nobody_was_seen_to_produce_nothing_is_taken_for_waiting() -> None:
    talk = Conversation()
    late = talk.member("a").share_fetch(0, [0])
    talk.pause(0.3)
    late.answered(responses=handed((0, 0, 9)))
    assert member_of(talk).metrics["fetch-work-max"] == 301.0


def test_records_that_another_gave_back_were_there_from_then_on() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 0)))
    late = b.share_fetch(0, [0])
    talk.pause(0.3)
    a.share_acknowledge(1, [(0, 0, 2)]).answered()
    talk.pause(0.02)
    late.answered(responses=handed((0, 0, 0, 2)))
    assert member_of(talk, "b").metrics["fetch-work-max"] == 21.0


def test_a_fetch_that_failed_worked() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(5).answered(INVALID_SHARE_SESSION_EPOCH)
    found = member_of(talk)
    assert (found.fetches["failed"], found.errors, found.metrics["fetch-work-max"]) == (1, {"123": 1}, 1.0)


def test_a_partition_that_could_not_be_fetched_from_is_a_failure_of_both() -> None:
    talk = Conversation()
    partitions = [{"partition_index": 1, "error_code": 6, "records": b""}]
    talk.member("a").share_fetch(0, [0, 1]).answered(responses=[{**handed((0, 0, 0))[0], "partitions": partitions}])
    group = group_of(talk)
    assert group.members[0].errors == {"6": 1}
    assert [(one.topic, one.partition, one.errors) for one in group.partitions] == [("t", 1, {"6": 1})]


def test_records_by_delivery_count_and_acknowledgements_by_type() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0, 1]).answered(responses=handed((0, 0, 9), (1, 5, 6, 3)))
    a.share_fetch(1, [0], acks=[(0, 3, 1), (4, 5, 2), (6, 6, 0)]).answered()
    a.share_acknowledge(2, [(5, 6, 3)], partition=1).answered(acks={1: INVALID_RECORD_STATE})
    group = group_of(talk)
    found = group.members[0].metrics
    assert (found["records-fetched-total"], found["records-redelivered"], found["delivery-count-max"]) == (12, 2, 3)
    assert (found["records-per-request-avg"], found["records-per-request-max"]) == (12, 12)
    assert (found["acknowledgements-send-total"], found["acknowledgements-error-total"]) == (9, 2)
    types = [
        found[f"record-acknowledgement-count{{ack-type={one}}}"] for one in ("accept", "release", "reject", "renew")
    ]
    assert types == [4, 2, 0, 0]
    assert group.metrics["share-acknowledgement-count"] == 6  # a gap is no record
    assert (group.metrics["acknowledgement-requests"], group.metrics["acknowledgement-requests-failed"]) == (2, 1)
    of_partitions = [
        (one.partition, one.metrics["records-acquired"], one.metrics["acknowledgements-refused"])
        for one in group.partitions
    ]
    assert of_partitions == [(0, 10, 0), (1, 2, 2)]


def test_acknowledgements_without_an_answer_are_sent_and_neither_taken_nor_refused() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    a.share_acknowledge(1, [(0, 9, 1)])
    found = member_of(talk).metrics
    assert [found[f"acknowledgements-{what}-total"] for what in ("send", "error")] == [10, 0]
    assert found["record-acknowledgement-count{ack-type=accept}"] == 0


def test_a_lock_that_ran_out_counts_its_records() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=1000)
    a.share_acknowledge(1, [(0, 3, 1)]).answered()
    talk.pause(3)
    a.share_fetch(2).answered(responses=handed((0, 4, 9, 2)), acquisition_lock_timeout_ms=1000)
    group = group_of(talk)
    (partition,), (member,) = group.partitions, group.members
    assert (partition.metrics["lock-timeouts"], member.metrics["lock-timeouts"]) == (6, 6)
    assert (partition.end_offset, partition.held, partition.metrics["records-held"]) == (10, {member.member_id: 6}, 6)


def test_records_that_a_session_took_with_it() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
    broker_closes(a.connection)
    member = member_of(talk)
    assert (member.sessions, member.metrics["session-releases"]) == ({"connection_closed": 1}, 10)


def test_sessions_that_are_open_and_their_partitions() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(0, [0, 1, 2]).answered()
    a.share_fetch(1, forget=[2]).answered()
    b.share_fetch(0, [0]).answered()
    b.share_fetch(-1).answered()
    metrics = group_of(talk).metrics
    assert (metrics["ShareSessionsCount"], metrics["SharePartitionsCount"]) == (1, 2)


def test_heartbeats_assignments_and_epochs() -> None:
    talk = Conversation()
    a = talk.member("a")  # joins: epoch 1, no partitions
    assigned(a, 0, 1)
    assigned(a, 0, 1)
    unchanged(a)
    a.heartbeat(1).given(4)
    a.heartbeat(4).answered(UNKNOWN_MEMBER_ID)
    group = group_of(talk)
    (found,) = group.members
    assert (found.metrics["heartbeat-total"], found.metrics["rebalance-total"], found.heartbeat_errors) == (
        6,
        1,
        {"25": 1},
    )
    assert (group.metrics["rebalance-count"], found.present) == (4, False)
    assert found.metrics["last-heartbeat-seconds-ago"] == 0.001


def test_groups_by_whether_anybody_is_in_them() -> None:
    talk = Conversation()
    talk.member("a", "g1")
    left(talk.member("b", "g2"))
    found = told(talk).metrics
    assert [found[name] for name in ("group-count", "group-count{state=stable}", "group-count{state=empty}")] == [
        2,
        1,
        1,
    ]


def test_a_fetch_that_waits_at_the_end_and_one_that_was_cut_off() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(0, [0])
    broker_closes(a.connection)
    talk.pause(2)
    b.share_fetch(0, [0])
    group = group_of(talk)
    assert group.metrics["NumDelayedOperations{delayedOperation=ShareFetch}"] == 1
    assert [one.fetches["unanswered"] for one in group.members] == [1, 1]


def test_rates_are_of_the_time_that_was_seen() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0]).answered()
    talk.pause(9)
    a.share_fetch(1).answered()
    found = told(talk)
    assert found.first_time_ns is not None
    assert found.last_time_ns is not None
    assert found.groups[0].members[0].metrics["fetch-rate"] == 2 / ((found.last_time_ns - found.first_time_ns) / 1e9)


def test_nothing_of_the_kind() -> None:
    talk = Conversation()
    talk.connection()
    found = told(talk)
    assert (found.groups, found.metrics["group-count"]) == ([], 0)


def test_parts_add_up_to_the_whole() -> None:
    """Each group apart, then both together; and the same part twice."""
    both, one, other = Conversation(), Conversation(), Conversation()
    for groups, talk in ((("g1", "g2"), both), (("g1",), one), (("g2",), other)):
        for group in groups:
            a = talk.member("a", group)
            a.share_fetch(0, [0]).answered(responses=handed((0, 0, 9)))
            a.share_fetch(1, [0], acks=[(0, 3, 1)]).answered()
            a.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    parts, whole = Counted(), counted(both)
    for talk in (one, other):
        parts.update(counted(talk))
    assert (parts.members.keys(), parts.partitions.keys()) == (whole.members.keys(), whole.partitions.keys())
    for key, member in whole.members.items():
        summed = parts.members[key]
        assert (summed.fetches, summed.acquired, summed.acknowledged) == (
            member.fetches,
            member.acquired,
            member.acknowledged,
        )
    twice = counted(one)
    twice.update(counted(one))
    (member,), (alone,) = twice.members.values(), counted(one).members.values()
    assert (member.fetches.total(), member.latency.count) == (2 * alone.fetches.total(), 2 * alone.latency.count)


def test_what_is_beyond_the_limit_counts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STATISTICS_ROWS", 2)
    talk = Conversation()
    for number in range(4):
        talk.member("a", f"g{number}").share_fetch(0, [number]).answered(responses=handed((number, 0, 0)))
    found = [(group.group_id, group.members_metrics["records-fetched-total"]) for group in told(talk).groups]
    assert found == [(OTHERS, 2), ("g0", 1), ("g1", 1)]


def test_a_group_without_a_stored_start_begins_at_the_end_of_the_log() -> None:
    talk = Conversation()
    sets(talk.connection(), RESET, "latest", group="g")
    talk.member("a")
    Sender(talk.connection()).read().given(-1)
    assert group_of(talk).begins == "1 share partition begins at the end of the log: share.auto.offset.reset is latest"


@pytest.mark.parametrize(("value", "start"), [("earliest", -1), ("latest", 100)])
def test_a_group_that_misses_nothing_says_nothing(value: str, start: int) -> None:
    talk = Conversation()
    sets(talk.connection(), RESET, value, group="g")
    talk.member("a")
    Sender(talk.connection()).read().given(start)
    assert group_of(talk).begins is None


@pytest.mark.parametrize("is_late", [True, False])
def test_a_reset_that_the_capture_does_not_show_in_time_is_unknown(is_late: bool) -> None:
    talk = Conversation()
    talk.member("a")
    Sender(talk.connection()).read().given(-1)
    if is_late:
        sets(talk.connection(), RESET, "latest", group="g")
    assert (group_of(talk).begins or "").endswith("the capture does not show share.auto.offset.reset of the group")
