"""How often rules were put to the test: by what was right as well as by what was not."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from kshark.analysis import RULES, Analyzer, Coverage, RuleCoverage
from kshark.analysis.facts.calls import LAST_EPOCH
from tests.analysis.coordinators import leader
from tests.analysis.rules.promises import PROMISES, Promise
from tests.analysis.rules.promises.generations import (
    a_generation_is_used_again_after_a_newer_one,
    classic,
    uses_right_generations,
)
from tests.analysis.talks import FENCED_MEMBER_EPOCH, INVALID_REQUEST, handed, left, opened, unchanged
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation, Thinned, events, everything


def coverage(talk: Conversation | Thinned) -> Coverage:
    analyzer = Analyzer(coverage=True)
    analyzer.page(events(talk))
    analyzer.close()
    assert analyzer.coverage is not None
    return analyzer.coverage


def counted(talk: Conversation | Thinned, code: str) -> tuple[int, ...]:
    """Of one rule: how often it was put to the test, held, was broken, stayed unknown, was worth a note."""
    (row,) = (row for row in coverage(talk).rules() if row.code == code)
    return row[3:]


def put_to_the_test(talk: Conversation) -> set[str]:
    return {row.code for row in coverage(talk).rules() if row.tested}


def test_what_is_right_puts_a_rule_to_the_test() -> None:
    talk = Conversation()
    opened(talk, upto=3)
    assert counted(talk, "EPOCH_REPLAY") == (3, 3, 0, 0, 0)
    assert counted(talk, "EPOCH_NEGATIVE") == (4, 4, 0, 0, 0)
    assert counted(talk, "BROKER_ACCEPTED_WRONG_EPOCH") == (4, 4, 0, 0, 0)
    assert counted(talk, "ACK_WITH_INITIAL_EPOCH") == (1, 1, 0, 0, 0)


def test_nothing_is_said_of_rules_that_nothing_puts_to_the_test() -> None:
    talk = Conversation()
    opened(talk, upto=3)
    never = {
        "EPOCH_WRAP_ERROR",
        "USE_AFTER_FINAL",
        "NO_RECOVERY",
        "FORGET_UNKNOWN",
        "TWO_COUNTERS",
        "ACK_NOT_OWNER",
        "STATE_LOST",
    }
    assert put_to_the_test(talk) & never == set()
    assert put_to_the_test(Conversation()) == set()


def test_every_rule_of_the_catalogue_has_a_row() -> None:
    rows = Coverage().rules()
    assert [(row.rule, row.code) for row in rows] == [
        (rule.number, rule.code) for rule in RULES if rule.number is not None
    ]


def test_every_rule_about_bytes_says_what_puts_it_to_the_test() -> None:
    assert [rule.code for rule in RULES if rule.number is not None and rule.weird and not rule.read] == []


def test_a_mistake_breaks_the_rule_that_explains_it_and_tests_no_other() -> None:
    talk = Conversation()
    opened(talk, upto=3).share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    assert counted(talk, "EPOCH_SKIP_AHEAD") == (4, 3, 1, 0, 0)
    assert counted(talk, "EPOCH_STALE") == (3, 3, 0, 0, 0)


def test_where_no_explanation_is_proved_those_that_came_near_stay_unknown() -> None:
    talk = Conversation()
    opened(talk).share_acknowledge(1, [(3, 1, 1)]).answered(acks={0: INVALID_REQUEST})
    assert counted(talk, "ACK_RANGE_INVERTED") == (1, 0, 1, 0, 0)
    thinned = talk.without_exchange(0)  # what was found behind a gap is likely, not certain
    assert counted(thinned, "ACK_RANGE_INVERTED") == (1, 0, 0, 1, 0)
    assert counted(thinned, "ACK_BATCHES_OVERLAP") == (0, 0, 0, 0, 0)


# -- premises


def test_a_refusal_puts_recovery_to_the_test() -> None:
    talk = Conversation()
    a = opened(talk, upto=1)
    a.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(0).answered()
    assert counted(talk, "NO_RECOVERY") == (1, 1, 0, 0, 0)
    a.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_fetch(8).answered(INVALID_SHARE_SESSION_EPOCH)
    assert counted(talk, "NO_RECOVERY") == (2, 1, 1, 0, 0)


def test_an_early_error_puts_counting_to_the_test() -> None:
    talk = Conversation()
    a = opened(talk, upto=1)
    a.share_fetch(2).answered(INVALID_REQUEST)
    a.share_fetch(2).answered()
    assert counted(talk, "ADVANCED_AFTER_ERROR") == (1, 1, 0, 0, 0)


def test_a_closed_session_that_is_opened_anew() -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_acknowledge(-1).answered()
    a.share_fetch(0).answered()
    assert counted(talk, "USE_AFTER_FINAL") == (1, 1, 0, 0, 0)


def test_the_highest_epoch_is_followed_by_1() -> None:
    """On the fast path, too."""
    talk = Conversation()
    a = talk.member("a")
    for epoch in (LAST_EPOCH, 1, 2):
        a.share_fetch(epoch).answered()
    assert counted(talk, "EPOCH_WRAP_ERROR") == (1, 1, 0, 0, 0)


def test_fetches_and_acknowledgements_by_turns_put_one_count_to_the_test() -> None:
    talk = Conversation()
    a = opened(talk, upto=1)
    a.share_acknowledge(2).answered()
    a.share_acknowledge(3).answered()
    a.share_fetch(4).answered()
    assert counted(talk, "TWO_COUNTERS") == (2, 2, 0, 0, 0)


def test_partitions_that_are_forgotten_and_listed() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1, [], forget=[1]).answered()
    a.share_fetch(2, [0, 0]).answered()
    assert counted(talk, "FORGET_UNKNOWN") == (1, 1, 0, 0, 0)
    assert counted(talk, "DUPLICATE_PARTITION_ENTRY") == (2, 1, 1, 0, 0)


def test_a_session_that_is_closed_before_its_connection() -> None:
    talk = Conversation()
    a, b = opened(talk), opened(talk, name="b")
    a.share_acknowledge(-1).answered()
    a.connection.close()
    b.connection.close()
    assert counted(talk, "SESSION_NOT_CLOSED") == (2, 1, 0, 0, 1)


# -- other machines


def test_acknowledgements() -> None:
    talk = Conversation()
    a = opened(talk)
    a.share_fetch(1, [0]).answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=30_000)
    a.share_acknowledge(2, [(0, 4, 1)]).answered(acks={0: 0})
    assert counted(talk, "ACK_NOT_ACQUIRED") == (1, 1, 0, 0, 0)
    assert counted(talk, "RENEW_REFUSED") == (0, 0, 0, 0, 0)
    renewal = {"first_offset": 5, "last_offset": 9, "acknowledge_types": [4]}
    a.share_acknowledge(3, batches=[renewal], version=2, renew=True).answered(acks={0: 0})
    assert counted(talk, "RENEW_REFUSED") == (1, 1, 0, 0, 0)
    a.share_acknowledge(4, [(0, 4, 1)]).answered(acks={0: 121})
    assert counted(talk, "DOUBLE_ACK") == (3, 2, 1, 0, 0)


def test_records_that_are_handed_out_as_they_should_be() -> None:
    """No rule looks at them one by one."""
    talk = Conversation()
    opened(talk).share_fetch(1, [0, 1]).answered(
        responses=handed((0, 0, 9), (1, 0, 0)), acquisition_lock_timeout_ms=30_000
    )
    assert counted(talk, "OVERLAPPING_ACQUISITION") == (2, 2, 0, 0, 0)
    assert counted(talk, "MAX_RECORDS_EXCEEDED") == (0, 0, 0, 0, 0)  # no strict limit was asked for


def test_members() -> None:
    talk = Conversation()
    a = talk.member("a")
    assert counted(talk, "EPOCH_NOT_ADOPTED") == (0, 0, 0, 0, 0)
    a.heartbeat(1).given(2)
    a.heartbeat(2).given(2)
    assert counted(talk, "EPOCH_NOT_ADOPTED") == (2, 2, 0, 0, 0)  # it was given 1, then 2
    a.heartbeat(8).answered(FENCED_MEMBER_EPOCH)
    a.join()
    unchanged(a)
    left(a)
    assert counted(talk, "MEMBER_EPOCH_AHEAD") == (4, 3, 1, 0, 0)
    assert counted(talk, "NO_REJOIN_AFTER_FENCE") == (1, 1, 0, 0, 0)
    assert counted(talk, "REJOIN_REFUSED") == (1, 1, 0, 0, 0)
    assert counted(talk, "ASSIGNMENT_MISSING") == (2, 2, 0, 0, 0)
    assert counted(talk, "MEMBER_EPOCH_INVALID") == (6, 6, 0, 0, 0)


def test_what_is_told_once_is_not_right_afterwards() -> None:
    talk = Conversation()
    a = talk.member("a")
    for pause in (11, 12, 13, 5):
        talk.pause(pause)
        unchanged(a)
    assert counted(talk, "HEARTBEAT_LATE") == (2, 1, 0, 0, 1)


def test_stored_state_is_put_to_the_test_by_the_requests_that_a_rule_is_about() -> None:
    talk = Conversation()
    stores = leader(talk)
    for start in (5, 6, 7):
        stores.write(start).accepted()
    assert counted(talk, "COMPLETE_COUNT_INVALID") == (3, 3, 0, 0, 0)
    assert counted(talk, "WRITE_BEFORE_READ") == (1, 1, 0, 0, 0)  # only by the first one
    assert counted(talk, "LEADER_EPOCH_FENCED") == (4, 4, 0, 0, 0)
    assert counted(talk, "WRONG_SHARE_COORDINATOR") == (5, 5, 0, 0, 0)


def test_a_rule_of_one_exchange_is_put_to_the_test_by_requests_that_it_is_about() -> None:
    talk = Conversation()
    a = opened(talk, upto=5)
    assert counted(talk, "ACK_IN_INITIAL_FETCH") == (1, 1, 0, 0, 0)
    a.share_fetch(0, [0], acks=[(0, 1, 1)])
    assert counted(talk, "ACK_IN_INITIAL_FETCH") == (1, 1, 0, 0, 0)  # nobody answers it
    assert counted(talk, "FINAL_WITH_PAYLOAD") == (0, 0, 0, 0, 0)
    talk = Conversation()
    opened(talk, upto=1).share_fetch(0, [0], acks=[(0, 1, 1)]).answered(INVALID_REQUEST)
    assert counted(talk, "ACK_IN_INITIAL_FETCH") == (2, 1, 1, 0, 0)


# -- all of them


@pytest.mark.sweep(quick=25)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_what_was_found_is_counted_and_nothing_is_counted_twice(promise: Promise) -> None:
    talk, _ = promise()
    found = Counter((it.code, it.verdict) for it in everything(talk))
    for row in coverage(talk).rules():
        assert row.tested == row.held + row.broken + row.unknown + row.noted
        assert min(row[3:]) >= 0, row
        assert (row.broken, row.noted) == (found[row.code, "violation"], found[row.code, "note"]), row
        assert row.unknown >= found[row.code, "unknown"], row


def test_parts_are_added_and_taken_away() -> None:
    talk = Conversation()
    opened(talk, upto=3).share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    whole, total = coverage(talk), Coverage()
    total.join(pickle.loads(pickle.dumps(whole)))
    assert total == whole
    total.join(whole)
    assert [row.tested for row in total.rules()] == [2 * row.tested for row in whole.rules()]
    assert total.without(whole) == whole
    assert isinstance(whole.rules()[0], RuleCoverage)


def test_who_does_not_ask_gets_none() -> None:
    assert Analyzer().coverage is None


def test_a_right_generation_tests_and_keeps_the_rule() -> None:
    talk = Conversation()
    uses_right_generations(talk)
    assert counted(talk, "GENERATION_STALE") == (4, 4, 0, 0, 0)
    assert "CONSUMER_EPOCH_STALE" not in put_to_the_test(talk)
    assert "INSTANCE_ID_TAKEN" not in put_to_the_test(talk)


def test_a_generation_that_the_capture_does_not_give_tests_nothing() -> None:
    """Its JoinGroup came before the capture, or another generation was accepted."""
    talk = Conversation()
    classic(talk, "a").classic_heartbeat(1).answered()
    b = classic(talk, "b")
    b.join_group(2)
    b.classic_heartbeat(1).answered()
    assert "GENERATION_STALE" not in put_to_the_test(talk)


def test_a_stale_generation_is_broken_once_and_kept_otherwise() -> None:
    talk, _ = a_generation_is_used_again_after_a_newer_one()
    assert counted(talk, "GENERATION_STALE") == (3, 2, 1, 0, 0)


def test_a_commit_with_the_last_member_epoch_keeps_the_rule() -> None:
    talk = Conversation()
    a = talk.consumer("a")
    a.commit(1).committed()
    a.heartbeat(1).given(2)
    a.commit(2).committed()
    assert counted(talk, "CONSUMER_EPOCH_STALE") == (2, 2, 0, 0, 0)
    assert "GENERATION_STALE" not in put_to_the_test(talk)


def test_an_instance_id_of_its_own_keeps_the_rule() -> None:
    talk = Conversation()
    a = classic(talk, "a")
    a.join_group(1, instance="i")
    a.classic_heartbeat(1, instance="i").answered()
    a.classic_heartbeat(1, instance="i").answered()
    assert counted(talk, "INSTANCE_ID_TAKEN") == (2, 2, 0, 0, 0)
