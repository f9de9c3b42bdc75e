"""Who may store the state of a share partition, and what is no reason to accuse anybody."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kshark
from tests.analysis.coordinators import ACCEPTED, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, Sender, leader
from tests.analysis.rules.promises import PROMISES, Promise
from tests.analysis.rules.promises.persister import TEN, find_coordinator
from tests.analysis.talks import INVALID_REQUEST, codes
from tests.conversation import TOPIC, Conversation, findings, note, unknown, violation
from tests.shared import CAPTURES
from tests.thinning import added

COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NEXT_TEN = (110, 119, ACCEPTED, 1)


def test_a_share_partition_in_good_order() -> None:
    """Initialized, read, written, led by another broker, described, set back by an administrator, deleted and made
    anew."""
    talk = Conversation()
    group, a, b = (Sender(talk.connection()) for _ in range(3))
    group.initialize(2).accepted()
    a.read(0).given(-1)
    a.write(100, TEN, complete=10).accepted()
    a.write(110, NEXT_TEN, complete=10).accepted()
    b.read(1).given(110, NEXT_TEN)
    b.write(110, (120, 129, 0, 1), leader_epoch=1).accepted()
    group.summary().summed_up(110, leader_epoch=1)
    group.initialize(6, 0).accepted()
    b.read(1).given(0, state_epoch=6)
    b.write(0, (0, 9, ACCEPTED, 1), leader_epoch=1, state_epoch=6).accepted()
    group.delete().accepted()
    group.initialize(2).accepted()
    a.read(1).given(-1)
    a.write(0, (0, 4, ACCEPTED, 1), leader_epoch=1).accepted()
    assert findings(talk) == []


@pytest.mark.parametrize("error", [COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_starts_is_ordinary(error: int) -> None:
    talk = Conversation()
    a = Sender(talk.connection())
    not_yet = {"key": f"g:{TOPIC}:0", "node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": ""}
    find_coordinator(a.connection, f"g:{TOPIC}:0").answered(None, coordinators=[not_yet])
    for asked in (a.initialize(), a.read(), a.write(0), a.delete(), a.summary()):
        asked.refused(error)
    assert findings(talk) == []


@pytest.mark.parametrize("key", [f"g:{TOPIC}:0", f"a:b:c:{TOPIC}:12", f"ä\n:{TOPIC}:1"])
def test_what_follows_the_group_id_makes_a_key(key: str) -> None:
    talk = Conversation()
    refused = {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": INVALID_REQUEST, "error_message": ""}
    find_coordinator(talk.connection(), key).answered(None, coordinators=[refused])
    assert findings(talk) == []


@pytest.mark.parametrize(
    "key", ["", TOPIC, f":{TOPIC}:0", f"g:{TOPIC}", f"g:{TOPIC}:", f"g:{TOPIC}:x", f"g:{TOPIC[1:]}:0"]
)
def test_a_key_that_is_none(key: str) -> None:
    talk = Conversation()
    refused = {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": INVALID_REQUEST, "error_message": ""}
    wrong = find_coordinator(talk.connection(), f"g:{TOPIC}:0", key).answered(None, coordinators=[refused])
    assert findings(talk) == [violation("SHARE_KEY_MALFORMED", wrong)]


def test_a_transaction_may_be_looked_for_by_any_key() -> None:
    talk = Conversation()
    asked = talk.connection().ask(10, "FindCoordinator", 6, {"key_type": 1, "coordinator_keys": ["x"]})
    asked.answered(
        None, coordinators=[{"key": "x", "node_id": -1, "host": "", "port": -1, "error_code": INVALID_REQUEST}]
    )
    assert findings(talk) == []


def test_a_new_leadership_on_one_connection_begins_anew() -> None:
    """A group that was deleted and made again has low epochs; the leader was told by its Read."""
    talk = Conversation()
    a = Sender(talk.connection())
    a.read().given(0, state_epoch=6)
    a.write(100, TEN, state_epoch=6).accepted()
    a.read().given(-1, state_epoch=2)
    a.write(0, TEN, state_epoch=2).accepted()
    assert {(code, verdict) for code, verdict in codes(talk)} == {
        ("STATE_EPOCH_REGRESSION", "unknown"),
        ("STATE_LOST", "unknown"),
    }


def test_who_was_fenced_had_not_stored_with_that_epoch_itself() -> None:
    talk = Conversation()
    a, b = leader(talk), Sender(talk.connection())
    b.write(100, TEN, state_epoch=3).accepted()
    late = a.write(100, TEN).refused(FENCED_STATE_EPOCH)
    assert findings(talk) == [note("STATE_EPOCH_FENCED", late, "newer_state")]


def test_an_initialize_that_is_late_is_a_note() -> None:
    talk = Conversation()
    Sender(talk.connection()).initialize(6).accepted()
    late = Sender(talk.connection()).initialize(2).refused(FENCED_STATE_EPOCH)
    assert findings(talk) == [note("STATE_EPOCH_FENCED", late, "newer_state")]


def test_a_group_coordinator_goes_back() -> None:
    talk = Conversation()
    group = Sender(talk.connection())
    group.initialize(6).accepted()
    wrong = group.initialize(2).refused(FENCED_STATE_EPOCH)
    assert findings(talk) == [violation("STATE_EPOCH_FENCED", wrong, "client", "went_back")]


def test_a_hole_between_both_writes() -> None:
    talk = Conversation()
    a = leader(talk)
    a.write(100, TEN).accepted()
    lost = a.read().given(100, TEN)
    late = a.write(100, TEN, state_epoch=1).refused(FENCED_STATE_EPOCH)
    assert findings(talk.without_packets(lost.all_packets)) == [unknown("STATE_EPOCH_FENCED", late, "gap", "went_back")]


def test_a_leader_of_which_nothing_else_is_seen() -> None:
    talk = Conversation()
    late = Sender(talk.connection()).write(100, TEN).refused(FENCED_LEADER_EPOCH)
    other = Sender(talk.connection()).write(100, TEN).refused(FENCED_STATE_EPOCH)
    assert findings(talk) == [
        note("LEADER_EPOCH_FENCED", late, "newer_leader"),
        note("STATE_EPOCH_FENCED", other, "newer_state"),
    ]


def test_a_leader_that_read_the_state_may_write_when_it_is_gone() -> None:
    talk = Conversation()
    a = leader(talk)
    late = a.write(100, TEN).refused(INVALID_REQUEST)
    assert findings(talk) == [
        unknown("STATE_LOST", late, "hidden_traffic"),
        unknown("WRITE_UNINITIALIZED", late, "hidden_traffic", "not_initialized"),
    ]


def test_what_was_given_before_is_void_when_a_read_is_refused() -> None:
    talk = Conversation()
    a, again = leader(talk), Sender(talk.connection())
    again.read().refused(INVALID_REQUEST)
    wrong = again.write(100, TEN).refused(INVALID_REQUEST)
    assert violation("WRITE_UNINITIALIZED", wrong, "client", "not_initialized") in findings(talk)
    assert a.connection is not again.connection


def test_a_state_that_was_there_and_went_again() -> None:
    """The Read was refused, then a Write accepted: what came in between is not seen, nor what took the state away."""
    talk = Conversation()
    a = Sender(talk.connection())
    a.read().refused(INVALID_REQUEST)
    a.write(100, TEN).accepted()
    a.write(100, TEN).refused(INVALID_REQUEST)
    assert "violation" not in {verdict for _, verdict in codes(talk)}


def test_a_refused_read_and_a_write_that_is_taken() -> None:
    talk = Conversation()
    a = Sender(talk.connection())
    a.read().refused(INVALID_REQUEST)
    Sender(talk.connection()).initialize().accepted()
    taken = a.write(100, TEN).accepted()
    assert unknown("WRITE_BEFORE_READ", taken.sent, "hidden_traffic") in findings(talk)


def test_a_read_without_an_answer_may_have_been_granted() -> None:
    talk = Conversation()
    a = leader(talk)
    a.read(leader_epoch=1)
    a.connection.close()
    Sender(talk.connection()).write(100, TEN, leader_epoch=1).accepted()
    assert findings(talk) == []


def test_a_capture_that_begins_behind_the_read() -> None:
    talk = Conversation()
    Sender(talk.connection()).write(100, TEN).accepted()
    assert findings(talk) == []


def test_an_older_broker_takes_the_epochs_of_a_write() -> None:
    """KAFKA-19456: until 4.1 a Write raises the stored epochs, later ones only compare."""
    for release, told in (("4.1", [("STATE_EPOCH_REGRESSION", "unknown")]), ("4.2", []), (None, [])):
        talk = Conversation(release=release)
        leader(talk).write(100, TEN, state_epoch=9).accepted()
        Sender(talk.connection()).initialize(6).accepted()
        assert codes(talk) == told


ABOUT_STATE = [made for made in PROMISES if made.__module__.endswith((".persister", ".stored"))]


@pytest.mark.sweep(quick=8)
@pytest.mark.parametrize("promise", ABOUT_STATE, ids=lambda promise: promise.__name__)
def test_missing_packets_accuse_nobody(promise: Promise) -> None:
    talk, _ = promise()
    whole = findings(talk)
    missing = [{number} for number, _ in talk.packets()] + [set(asked.all_packets) for asked in talk.exchanges]
    assert [(lost, it.code) for lost in missing for it in added(whole, findings(talk.without_packets(lost)))] == []


#: Steps at which nobody broke the rule that the maker had in mind: the broker took what he sent, or refused a Read,
#: which is no Write.
NO_BREACH = {386: 110, 400: 109, 404: 110, 380: 116}


def test_what_a_raw_writer_did_to_a_share_coordinator() -> None:
    capture = CAPTURES / "adv-members.pcap"
    steps: list[dict[str, Any]] = json.loads(capture.with_suffix(".expected.json").read_text())["steps"]
    about = [
        (step, rule)
        for step in steps
        for rule in step["rules"]
        if 109 <= rule <= 123 and step["request_packet"] is not None
    ]
    found = {(finding.packet, finding.rule) for finding in kshark.check(capture)}
    missed = [
        (step["request_packet"], rule)
        for step, rule in about
        if not found & {(step["request_packet"], rule), (step["response_packet"], rule)}
        and NO_BREACH.get(step["request_packet"]) != rule
    ]
    assert len(about) > 15
    assert missed == []
