"""Promises of kshark.analysis.rules.generations: generations, member epochs and instance ids."""

from __future__ import annotations

from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import UNKNOWN_MEMBER_ID, left
from tests.conversation import Conversation, Member, note, unknown, violation

ILLEGAL_GENERATION = 22
REBALANCE_IN_PROGRESS = 27
FENCED_INSTANCE_ID = 82
UNRELEASED_INSTANCE_ID = 111
STALE_MEMBER_EPOCH = 113


def classic(talk: Conversation, name: str, host: str = "10.0.0.1") -> Member:
    return talk.member(name, connection=talk.connection(host=host), joined=False)


def uses_right_generations(talk: Conversation) -> None:
    """A member of two generations, from its first JoinGroup to its end."""
    a = classic(talk, "a")
    for generation in (1, 2):
        a.join_group(generation)
        a.classic_heartbeat(generation).answered()
        a.commit(generation).committed()
    a.leave_group("the consumer is being closed")


@promise
def a_commit_has_an_older_epoch_than_was_used() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    a.heartbeat(1).given(2)
    a.heartbeat(2).given(2)
    wrong = a.commit(1).committed(STALE_MEMBER_EPOCH)
    return talk, [violation("CONSUMER_EPOCH_STALE", wrong, blame="client", cause="stale")]


@promise
def a_commit_waited_while_a_newer_epoch_came() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    a.heartbeat(1).given(2)
    late = a.commit(1).committed(STALE_MEMBER_EPOCH)
    return talk, [note("CONSUMER_EPOCH_STALE", late, cause="not_yet_used")]


@promise
def a_generation_is_used_again_after_a_newer_one() -> Said:
    talk = Conversation()
    a = classic(talk, "a")
    for generation in (1, 2):
        a.join_group(generation)
        a.classic_heartbeat(generation).answered()
    wrong = a.classic_heartbeat(1).answered(ILLEGAL_GENERATION)
    return talk, [violation("GENERATION_STALE", wrong, blame="client", cause="stale")]


@promise
def a_commit_waited_while_a_newer_generation_came() -> Said:
    talk = Conversation()
    a = classic(talk, "a")
    a.join_group(1)
    a.join_group(2)
    late = a.commit(1).committed(ILLEGAL_GENERATION)
    return talk, [note("GENERATION_STALE", late, cause="not_yet_used")]


@promise
def a_rebalance_overtakes_a_commit() -> Said:
    talk = Conversation()
    a, b = classic(talk, "a"), classic(talk, "b", "10.0.0.2")
    a.join_group(1)
    b.join_group(2)
    late = a.commit(1).committed(ILLEGAL_GENERATION)
    return talk, [note("GENERATION_STALE", late, cause="rebalanced")]


@promise
def an_application_polls_too_late() -> Said:
    talk = Conversation()
    a = classic(talk, "a")
    a.join_group(1)
    a.leave_group("consumer poll timeout has expired.")
    wrong = a.commit(1).committed(UNKNOWN_MEMBER_ID)
    return talk, [violation("GENERATION_STALE", wrong, blame="client", cause="poll_too_late")]


@promise
def a_classic_member_commits_after_it_left() -> Said:
    talk = Conversation()
    a = classic(talk, "a")
    a.join_group(1)
    a.leave_group("the consumer is being closed")
    late = a.commit(1).committed(UNKNOWN_MEMBER_ID)
    return talk, [note("GENERATION_STALE", late, cause="left")]


@promise
def a_classic_member_is_silent_for_too_long() -> Said:
    talk = Conversation()
    a = classic(talk, "a")
    a.join_group(1)
    talk.pause(11)
    late = a.classic_heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    return talk, [note("GENERATION_STALE", late, cause="expired")]


def goes_on_without(talk: Conversation, a: Member, b: Member, seconds: int = 6) -> None:
    """Member a, with a rebalance timeout of 6 s, knows that b joins, and does not join again. Its heartbeats go on."""
    a.joining(rebalance_ms=6000).joined(1, "a")
    joining = b.joining()
    for _ in range(seconds):
        a.classic_heartbeat(1).answered(REBALANCE_IN_PROGRESS)
        talk.pause(1)
    joining.joined(2, "b")


@promise
def a_classic_member_does_not_join_again_in_time() -> Said:
    talk = Conversation()
    a, b = classic(talk, "a"), classic(talk, "b", "10.0.0.2")
    goes_on_without(talk, a, b)
    talk.pause(30)
    late = a.commit(1).committed(UNKNOWN_MEMBER_ID)
    return talk, [note("GENERATION_STALE", late, cause="not_rejoined")]


@promise
def a_client_that_forgot_its_member_id_was_removed() -> Said:
    """As librdkafka does after max.poll.interval.ms."""
    talk = Conversation()
    a, b = classic(talk, "a"), classic(talk, "b", "10.0.0.2")
    goes_on_without(talk, a, b)
    late = Member(a.connection, "g", "").commit(1).committed(UNKNOWN_MEMBER_ID)
    return talk, [note("GENERATION_STALE", late, cause="not_rejoined")]


@promise
def a_client_that_was_silent_for_too_long_has_forgotten_its_member_id() -> Said:
    talk = Conversation()
    a = classic(talk, "a")
    a.join_group(1)
    talk.pause(11)
    late = Member(a.connection, "g", "").classic_heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    return talk, [note("GENERATION_STALE", late, cause="expired")]


@promise
def a_generation_is_refused_for_no_visible_reason() -> Said:
    talk = Conversation()
    odd = classic(talk, "a").commit(1).committed(ILLEGAL_GENERATION)
    return talk, [unknown("GENERATION_REFUSED", odd, because="hidden_traffic", cause="unknown")]


@promise
def two_processes_take_an_instance_id_in_turns() -> Said:
    talk = Conversation()
    a, b = classic(talk, "a"), classic(talk, "b", "10.0.0.2")
    a.join_group(1, instance="i")
    b.join_group(1, instance="i")
    first = a.classic_heartbeat(1, instance="i").answered(FENCED_INSTANCE_ID)
    Member(a.connection, "g", "a2").join_group(1, instance="i")
    second = b.classic_heartbeat(1, instance="i").answered(FENCED_INSTANCE_ID)
    Member(b.connection, "g", "b2").join_group(1, instance="i")
    return talk, [
        note("INSTANCE_ID_TAKEN", first, cause="replaced"),
        violation("INSTANCE_ID_TAKEN", second, blame="client", cause="two_processes"),
    ]


@promise
def an_instance_id_is_not_released() -> Said:
    talk = Conversation()
    talk.consumer("a", joined=False).heartbeat(0, ["t"], instance_id="i").given(1, assignment={"topic_partitions": []})
    b = talk.consumer("b", joined=False)
    early = b.heartbeat(0, ["t"], instance_id="i").answered(UNRELEASED_INSTANCE_ID)
    return talk, [note("INSTANCE_ID_TAKEN", early, cause="not_released")]


@promise
def a_static_member_leaves_for_good() -> Said:
    talk = Conversation()
    a = talk.consumer("a")
    gone = a.heartbeat(-1, instance_id="i").given(-1, interval_ms=0)
    left(talk.consumer("b"))
    return talk, [note("INSTANCE_ID_TAKEN", gone, cause="left_for_good")]
