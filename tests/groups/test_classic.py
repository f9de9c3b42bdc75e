"""Classic groups: generations, assignments, members that leave, are removed or come back."""

from __future__ import annotations

from tests.analysis.talks import UNKNOWN_MEMBER_ID
from tests.conversation import Conversation
from tests.groups.talks import (
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    Classic,
    assignment,
    group,
    how,
    member,
    states,
)


def test_a_generation_begins_is_assigned_and_ends() -> None:
    talk = Conversation()
    a = Classic(talk.connection(), "a")
    a.join(as_="").answered(MEMBER_ID_REQUIRED, member_id="a", generation_id=-1)
    a.joins(1, a)
    a.syncs(1, 0, 1, a=[0, 1])
    a.beats(1)
    a.leaves()
    seen = group(talk)
    assert (seen.type, seen.protocol_type, seen.assignor, seen.generation) == ("classic", "consumer", "range", 1)
    assert states(seen) == [("CompletingRebalance", 1), ("Stable", 1), ("Empty", 0)]
    one = member(talk)
    assert (one.topics, one.rack_id, one.joins, assignment(one)) == (["orders"], "r1", 1, {"orders": [0, 1]})
    assert how(one) == "left"


def test_the_leader_knows_members_that_were_not_captured_and_what_they_are_assigned() -> None:
    talk = Conversation()
    a, b = Classic(talk.connection(), "a"), Classic(talk.connection(), "b")
    a.joins(1, a, b)
    a.syncs(1, 0, a=[0], b=[1])
    _, other = group(talk).members
    assert (other.member_id, other.present, other.client_id, assignment(other)) == ("b", True, None, {"orders": [1]})
    a.joins(2, a)
    _, other = group(talk).members
    assert how(other) == "unknown"


def test_a_rebalance_is_seen_when_a_member_is_told() -> None:
    talk = Conversation()
    a = Classic(talk.connection(), "a")
    a.joins(1, a)
    a.syncs(1, 0, error=REBALANCE_IN_PROGRESS)
    a.joins(2, a)
    a.syncs(2, 0)
    a.beats(2, REBALANCE_IN_PROGRESS)
    assert states(group(talk)) == [
        ("CompletingRebalance", 1),
        ("PreparingRebalance", 1),
        ("CompletingRebalance", 1),
        ("Stable", 1),
        ("PreparingRebalance", 1),
    ]
    assert member(talk).rejected == {"27": 2}


def test_a_heartbeat_shows_a_generation_that_began_before_the_capture() -> None:
    talk = Conversation()
    Classic(talk.connection(), "a").beats(4)
    seen = group(talk)
    assert (seen.state, seen.generation, seen.members[0].present, seen.members[0].joined) == ("Stable", 4, True, None)


def test_a_heartbeat_while_the_leader_thinks_changes_nothing() -> None:
    talk = Conversation()
    a = Classic(talk.connection(), "a")
    a.joins(1, a)
    a.beats(1)
    assert group(talk).state == "CompletingRebalance"


def test_a_static_member_comes_back_under_another_id() -> None:
    talk = Conversation()
    Classic(talk.connection(), "a", instance_id="i").joins(1)
    Classic(talk.connection(), "b", instance_id="i").joins(1)
    first, second = group(talk).members
    assert (how(first), first.instance_id) == ("replaced", "i")
    assert second.present


def test_an_administrator_removes_a_member() -> None:
    talk = Conversation()
    a = Classic(talk.connection(), "a")
    a.joins(1, a)
    Classic(talk.connection(host="10.0.0.5"), "").leaves(a)
    assert how(member(talk)) == "removed"


def test_an_instance_is_removed_by_its_name() -> None:
    talk = Conversation()
    a = Classic(talk.connection(), "a", instance_id="i")
    a.joins(1, a)
    Classic(talk.connection(host="10.0.0.5"), "").leaves(Classic(a.connection, "", instance_id="i"))
    assert not member(talk).present


def test_a_member_that_was_expelled_finds_out() -> None:
    talk = Conversation()
    a = Classic(talk.connection(), "a")
    a.joins(1, a)
    a.beats(1, UNKNOWN_MEMBER_ID)
    assert how(member(talk)) == "unknown"
