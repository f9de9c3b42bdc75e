"""Promises of kshark.analysis.rules.stored: stored state of a share partition, and state that a coordinator loses."""

from __future__ import annotations

from tests.analysis.coordinators import ACCEPTED, Sender, leader
from tests.analysis.rules.promises.persister import likely
from tests.analysis.rules.promises.promise import Said, promise
from tests.analysis.talks import INVALID_REQUEST
from tests.conversation import Conversation, note, unknown, violation

TEN = (100, 109, ACCEPTED, 1)
NEXT_TEN = (110, 119, ACCEPTED, 1)


@promise
def a_leader_lowers_its_start_offset() -> Said:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    wrong = a.write(90, TEN).accepted()
    return talk, [violation("START_OFFSET_REGRESSION", wrong, blame="client")]


@promise
def another_leader_lowers_the_start_offset() -> Said:
    talk = Conversation()
    leader(talk).write(100, TEN).accepted()
    wrong = Sender(talk.connection()).write(90, TEN).accepted()
    return talk, [unknown("START_OFFSET_REGRESSION", wrong, because="hidden_traffic")]


@promise
def a_coordinator_keeps_the_higher_start_offset() -> Said:
    """Kafka 4.4 keeps it."""
    talk = Conversation(release="4.4")
    a = leader(talk)
    a.write(100, TEN).accepted()
    return talk, [note("START_OFFSET_REGRESSION", a.write(90, TEN).accepted())]


@promise
def a_coordinator_reports_an_older_start_offset() -> Said:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    a.write(105, NEXT_TEN).accepted()
    wrong = a.read().given(100, (105, 119, ACCEPTED, 1))
    return talk, [violation("START_OFFSET_REGRESSION", wrong, blame="broker")]


@promise
def a_batch_ends_before_it_begins() -> Said:
    talk = Conversation()
    wrong = leader(talk).write(0, (9, 5, 7, -3)).accepted()
    return talk, [violation("STATE_BATCH_INVALID", wrong.sent, blame="client")]


@promise
def a_batch_may_end_before_it_begins() -> Said:
    talk = Conversation()
    wrong = likely(talk).write(0, (9, 5, 7, -3)).accepted()
    return talk, [unknown("STATE_BATCH_INVALID", wrong.sent, because="resync")]


@promise
def a_partition_is_negative() -> Said:
    talk = Conversation()
    wrong = Sender(talk.connection(), -1).write(0, TEN).refused(INVALID_REQUEST)
    return talk, [violation("STATE_BATCH_INVALID", wrong, blame="client", cause="negative")]


@promise
def a_count_is_negative() -> Said:
    talk = Conversation()
    wrong = leader(talk).write(100, TEN, complete=-2).accepted()
    return talk, [violation("COMPLETE_COUNT_INVALID", wrong.sent, blame="client")]


@promise
def more_is_finished_than_was_stored() -> Said:
    talk = Conversation()
    wrong = leader(talk).write(100, TEN, complete=10_001).accepted()
    return talk, [unknown("COMPLETE_COUNT_INVALID", wrong.sent, because="hidden_traffic")]


@promise
def a_coordinator_loses_a_batch() -> Said:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    a.write(100, NEXT_TEN).accepted()
    wrong = a.read().given(100, TEN)
    return talk, [violation("STATE_LOST", wrong, blame="broker")]


@promise
def a_coordinator_may_have_lost_everything() -> Said:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    wrong = a.read(leader_epoch=1).given(-1)
    return talk, [unknown("STATE_LOST", wrong, because="hidden_traffic")]
