"""Generations, member epochs and instance ids: what only looks like a mistake, and what cannot be told."""

from __future__ import annotations

from tests.analysis.rules.promises.generations import (
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    STALE_MEMBER_EPOCH,
    a_generation_is_used_again_after_a_newer_one,
    classic,
    goes_on_without,
    uses_right_generations,
)
from tests.analysis.talks import FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, codes
from tests.conversation import Conversation, Member, Thinned, findings, note, unheard


def test_right_generations_are_no_findings() -> None:
    talk = Conversation()
    uses_right_generations(talk)
    assert findings(talk) == []


def test_a_generation_whose_answer_was_lost_is_no_violation() -> None:
    """Without any one of its exchanges, and without acknowledgements."""
    talk, _ = a_generation_is_used_again_after_a_newer_one()
    for index in range(len(talk.exchanges)):
        found = codes(talk.without_exchange(index))
        # The first generation may be missing: it is not what the refused one is compared with.
        assert ("GENERATION_STALE", "violation") not in found or index < 3, index
    assert ("GENERATION_STALE", "violation") not in codes(unheard(talk))


def test_other_partitions_of_a_commit_may_be_refused() -> None:
    """An error of a topic is none of the generation."""
    talk = Conversation()
    a = classic(talk, "a")
    a.join_group(1)
    a.commit(1).committed(3)
    assert findings(talk) == []


def causes(talk: Conversation | Thinned) -> list[tuple[str, str, str | None]]:
    return [(it.code, it.verdict, it.cause) for it in findings(talk)]


def test_a_group_that_went_on_earlier_does_not_prove_why_a_member_is_out() -> None:
    talk = Conversation()
    a, b = classic(talk, "a"), classic(talk, "b", "10.0.0.2")
    goes_on_without(talk, a, b, seconds=4)
    a.commit(1).committed(UNKNOWN_MEMBER_ID)
    assert causes(talk) == [("GENERATION_STALE", "note", "rebalanced")]


def test_a_member_whose_session_ran_out_did_not_only_miss_a_rebalance() -> None:
    talk = Conversation()
    a, b = classic(talk, "a"), classic(talk, "b", "10.0.0.2")
    a.joining(rebalance_ms=6000).joined(1, "a")
    joining = b.joining()
    a.classic_heartbeat(1).answered(REBALANCE_IN_PROGRESS)
    talk.pause(11)
    joining.joined(2, "b")
    a.commit(1).committed(UNKNOWN_MEMBER_ID)
    assert causes(talk) == [("GENERATION_STALE", "note", "expired")]


def test_refused_heartbeats_of_a_rebalance_keep_a_session() -> None:
    talk = Conversation()
    a = classic(talk, "a")
    a.join_group(1)
    for _ in range(6):
        talk.pause(2)
        a.classic_heartbeat(1).answered(REBALANCE_IN_PROGRESS)
    a.commit(1).committed(UNKNOWN_MEMBER_ID)
    assert causes(talk) == [("GENERATION_REFUSED", "unknown", "unknown")]


def test_lost_packets_of_a_member_that_did_not_join_again_prove_nothing() -> None:
    talk = Conversation()
    a, b = classic(talk, "a"), classic(talk, "b", "10.0.0.2")
    goes_on_without(talk, a, b)
    late = a.commit(1).committed(UNKNOWN_MEMBER_ID)
    for index, asked in enumerate(talk.exchanges[3:-1], 3):
        if asked.connection is a.connection:
            thinned = talk.without_packets(asked.packets)
            assert ("GENERATION_STALE", "note", "not_rejoined") not in causes(thinned), index
    assert late.packets


def test_a_static_member_that_names_its_instance_id_alone_had_left() -> None:
    talk = Conversation()
    a = Member(talk.connection(), "g", "")
    leaving = {"members": [{"member_id": "", "group_instance_id": "i"}], "group_id": "g"}
    a.connection.ask(13, "LeaveGroup", 3, leaving).answered(members=[{**leaving["members"][0], "error_code": 0}])
    a.classic_heartbeat(1, instance="i").answered(UNKNOWN_MEMBER_ID)
    a.classic_heartbeat(1, instance="j").answered(UNKNOWN_MEMBER_ID)
    assert causes(talk) == [("GENERATION_STALE", "note", "left"), ("GENERATION_REFUSED", "unknown", "unknown")]


def test_a_connection_of_two_members_does_not_tell_whose_a_request_without_a_member_is() -> None:
    talk = Conversation()
    a = classic(talk, "a")
    b = Member(a.connection, "g", "b")
    for _ in range(2):
        a.join_group(1)
        b.join_group(1)
    talk.pause(11)
    Member(a.connection, "g", "").classic_heartbeat(1).answered(UNKNOWN_MEMBER_ID)
    assert causes(talk) == [("MEMBER_UNNAMED", "note", None)]


def test_a_commit_without_a_member_is_of_no_generation() -> None:
    talk = Conversation()
    nobody = Member(talk.connection(), "g", "")
    nobody.commit(-1).committed(ILLEGAL_GENERATION)
    assert findings(talk) == []


def test_one_host_that_joins_again_is_not_two_processes() -> None:
    talk = Conversation()
    a, again = classic(talk, "a"), classic(talk, "b")
    a.join_group(1, instance="i")
    again.join_group(1, instance="i")
    a.classic_heartbeat(1, instance="i").answered(FENCED_INSTANCE_ID)
    a.join_group(1, instance="i")
    again.classic_heartbeat(1, instance="i").answered(FENCED_INSTANCE_ID)
    again.join_group(1, instance="i")
    assert [verdict for _, verdict in codes(talk)] == ["unknown", "unknown"]


def test_a_process_that_moves_to_another_host_is_fenced_once() -> None:
    talk = Conversation()
    a, b = classic(talk, "a"), classic(talk, "b", "10.0.0.2")
    a.join_group(1, instance="i")
    b.join_group(1, instance="i")
    fenced = [a.classic_heartbeat(1, instance="i").answered(FENCED_INSTANCE_ID) for _ in range(3)]
    assert findings(talk) == [note("INSTANCE_ID_TAKEN", one, cause="replaced") for one in fenced]


def test_a_static_member_leaves_for_a_while_and_comes_back() -> None:
    talk = Conversation()
    talk.consumer("a").heartbeat(-2, instance_id="i").given(-2, interval_ms=0)
    talk.consumer("b").heartbeat(1, instance_id="i").given(1)
    assert findings(talk) == []


def test_a_coordinator_takes_the_epoch_before_once_its_answer_was_lost() -> None:
    talk = Conversation()
    a = talk.consumer("a")
    a.heartbeat(1)
    a.connection.reset()
    again = a.on(talk.connection())
    again.heartbeat(1).given(2)
    again.heartbeat(2).given(2)
    assert [code for code, verdict in codes(talk) if verdict == "violation"] == []


def test_a_group_that_is_gone_is_of_no_other_type() -> None:
    """OffsetCommit 9 with a generation of a group that was deleted."""
    talk = Conversation()
    a = talk.consumer("a")
    a.commit(1).committed(GROUP_ID_NOT_FOUND)
    assert findings(talk) == []


def test_a_stale_epoch_of_a_member_that_began_before_the_capture_is_not_told() -> None:
    talk = Conversation()
    a = talk.consumer("a", joined=False)
    a.commit(1).committed(STALE_MEMBER_EPOCH)
    a.heartbeat(3).answered(FENCED_MEMBER_EPOCH)
    assert {verdict for _, verdict in codes(talk)} == {"unknown"}
