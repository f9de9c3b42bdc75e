"""Promises of kshark.analysis.rules.persister: the right to store the state of a share partition."""

from __future__ import annotations

from typing import Any

from tests.analysis.coordinators import (
    ACCEPTED,
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    NOT_COORDINATOR,
    Sender,
    leader,
)
from tests.analysis.rules.promises.promise import ROOM, Said, promise
from tests.analysis.talks import INVALID_REQUEST
from tests.conversation import TOPIC, Connection, Conversation, note, unknown, violation

NON_EMPTY_GROUP = 68
TEN = (100, 109, ACCEPTED, 1)


def likely(talk: Conversation) -> Sender:
    """Return a sender whose connection began before the capture: its first boundaries are likely, not certain."""
    return Sender(talk.connection(from_syn=False, introduced=False))


def find_coordinator(connection: Connection, *keys: str, version: int = 6) -> Any:
    return connection.ask(10, "FindCoordinator", version, {"key_type": 2, "coordinator_keys": list(keys)})


def refused(key: str) -> dict[str, Any]:
    return {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": INVALID_REQUEST, "error_message": ""}


def alter_offsets(connection: Connection) -> Any:
    topics = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 0}]}]
    return connection.ask(91, "AlterShareGroupOffsets", 0, {"group_id": "g", "topics": topics})


@promise
def a_state_epoch_is_negative() -> Said:
    talk = Conversation()
    wrong = leader(talk).write(100, TEN, state_epoch=-5).refused(FENCED_STATE_EPOCH)
    return talk, [violation("STATE_EPOCH_FENCED", wrong, blame="client", cause="negative")]


@promise
def a_leader_stores_with_a_lower_state_epoch_than_before() -> Said:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    wrong = a.write(110, state_epoch=1).refused(FENCED_STATE_EPOCH)
    return talk, [violation("STATE_EPOCH_FENCED", wrong, blame="client", cause="went_back")]


@promise
def offsets_are_reset_while_a_leader_writes() -> Said:
    talk = Conversation()
    a = leader(talk)
    Sender(talk.connection()).initialize(6, 0).accepted()
    late = a.write(100, TEN).refused(FENCED_STATE_EPOCH)
    return talk, [note("STATE_EPOCH_FENCED", late, cause="newer_state")]


@promise
def a_state_epoch_may_be_too_low() -> Said:
    talk = Conversation()
    late = likely(talk).write(100, TEN, state_epoch=-5).refused(FENCED_STATE_EPOCH)
    return talk, [unknown("STATE_EPOCH_FENCED", late, because="resync", cause="negative")]


@promise
def a_leader_was_replaced() -> Said:
    talk = Conversation()
    a = leader(talk)
    Sender(talk.connection()).read(leader_epoch=1).given(-1)
    late = a.write(100, TEN).refused(FENCED_LEADER_EPOCH)
    return talk, [note("LEADER_EPOCH_FENCED", late, cause="newer_leader")]


@promise
def a_leader_epoch_is_negative() -> Said:
    talk = Conversation()
    wrong = leader(talk).read(leader_epoch=-2).refused(FENCED_LEADER_EPOCH)
    return talk, [note("LEADER_EPOCH_FENCED", wrong, cause="negative")]


@promise
def a_lower_state_epoch_of_the_same_leader_is_accepted() -> Said:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN, state_epoch=3).accepted()
    wrong = a.write(110, state_epoch=2).accepted()
    return talk, [violation("STATE_EPOCH_REGRESSION", wrong, blame="client")]


@promise
def a_lower_state_epoch_is_accepted() -> Said:
    talk = Conversation()
    coordinator = Sender(talk.connection())
    coordinator.initialize(6).accepted()
    wrong = Sender(talk.connection()).initialize(2).accepted()
    return talk, [unknown("STATE_EPOCH_REGRESSION", wrong, because="hidden_traffic")]


@promise
def a_leader_reads_before_there_is_a_state() -> Said:
    talk = Conversation()
    early = Sender(talk.connection()).read().refused(INVALID_REQUEST)
    return talk, [note("WRITE_UNINITIALIZED", early, cause="not_initialized")]


@promise
def a_group_is_deleted_while_a_leader_writes() -> Said:
    talk = Conversation()
    a = leader(talk)
    Sender(talk.connection()).delete().accepted()
    late = a.write(100, TEN).refused(INVALID_REQUEST)
    return talk, [note("WRITE_UNINITIALIZED", late, cause="deleted")]


@promise
def a_leader_stores_state_after_a_refused_read() -> Said:
    talk = Conversation()
    a = Sender(talk.connection())
    early = a.read().refused(INVALID_REQUEST)
    wrong = a.write(100, TEN).refused(INVALID_REQUEST)
    return talk, [
        note("WRITE_UNINITIALIZED", early, cause="not_initialized"),
        violation("WRITE_BEFORE_READ", wrong.sent, blame="client"),
        violation("WRITE_UNINITIALIZED", wrong, blame="client", cause="not_initialized"),
    ]


@promise
def a_leader_tries_once_more() -> Said:
    talk = Conversation()
    a = Sender(talk.connection())
    late = a.write(100, TEN).refused(INVALID_REQUEST)
    again = a.write(100, TEN).refused(INVALID_REQUEST)
    return talk, [
        unknown("WRITE_UNINITIALIZED", late, because="beginning_not_seen", cause="not_initialized"),
        note("WRITE_UNINITIALIZED", again, cause="refused_before"),
    ]


@promise
def a_leader_stores_and_the_state_may_be_missing() -> Said:
    talk = Conversation()
    late = Sender(talk.connection()).write(100, TEN).refused(INVALID_REQUEST)
    return talk, [unknown("WRITE_UNINITIALIZED", late, because="beginning_not_seen", cause="not_initialized")]


@promise
def a_leader_stores_without_a_read_in_the_capture() -> Said:
    talk = Conversation()
    a = leader(talk)
    wrong = a.write(100, TEN, leader_epoch=1).accepted()
    return talk, [unknown("WRITE_BEFORE_READ", wrong.sent, because="hidden_traffic")]


@promise
def a_share_coordinator_key_is_malformed() -> Said:
    talk = Conversation()
    connection = talk.connection()
    wrong = find_coordinator(connection, f"g:{TOPIC}:0", "badkey").answered(None, coordinators=[refused("badkey")])
    older = find_coordinator(connection, f"g:{TOPIC}:0", version=5).answered(
        None, coordinators=[refused(f"g:{TOPIC}:0")]
    )
    return talk, [violation("SHARE_KEY_MALFORMED", asked, blame="client") for asked in (wrong, older)]


@promise
def a_share_coordinator_key_may_be_malformed() -> Said:
    talk = Conversation()
    connection = talk.connection(from_syn=False, introduced=False)
    wrong = find_coordinator(connection, "badkey").answered(None, coordinators=[refused("badkey")])
    return talk, [unknown("SHARE_KEY_MALFORMED", wrong, because="resync")]


@promise
def a_share_coordinator_has_moved() -> Said:
    talk = Conversation()
    late = leader(talk).write(100, TEN).refused(NOT_COORDINATOR)
    return talk, [note("WRONG_SHARE_COORDINATOR", late, cause="coordinator_moved")]


@promise
def offsets_of_a_live_group_are_altered() -> Said:
    talk = Conversation()
    wrong = alter_offsets(talk.connection()).answered(NON_EMPTY_GROUP, responses=[])
    return talk, [violation("OFFSETS_ADMIN_NON_EMPTY", wrong, blame="client")]


@promise
def offsets_of_a_live_group_may_be_altered() -> Said:
    talk = Conversation()
    wrong = alter_offsets(talk.connection(from_syn=False, introduced=False)).answered(NON_EMPTY_GROUP, responses=[])
    return talk, [unknown("OFFSETS_ADMIN_NON_EMPTY", wrong, because="resync")]


@promise
def more_share_partitions_than_kshark_keeps() -> Said:
    talk = Conversation()
    a = leader(talk)
    others = [Sender(a.connection, partition).write(0).accepted() for partition in range(1, ROOM + 2)]
    return talk, [note("STATES_FORGOTTEN", others[-2].sent)]
