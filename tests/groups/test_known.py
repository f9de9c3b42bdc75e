"""What is held of groups is bounded; what is not held any more is counted."""

from __future__ import annotations

import pytest

from kshark import limits
from kshark.groups import Groups
from tests.analysis.administrators import Administrator
from tests.analysis.talks import unchanged
from tests.conversation import Conversation, events
from tests.groups.talks import group, groups, states


def test_members_not_heard_of_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUP_MEMBERS", 2)
    talk = Conversation()
    a, _ = (talk.member(name) for name in "ab")
    unchanged(a)
    talk.member("c")
    seen = group(talk)
    assert [one.member_id[0] for one in seen.members] == ["a", "c"]
    assert (seen.members_left_out, states(seen)[-1]) == (1, ("Stable", 2))


def test_groups_not_heard_of_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUPS", 2)
    talk = Conversation()
    for name in ("g1", "g2", "g3"):
        talk.member("a", group=name)
    known = Groups()
    for event in events(talk):
        known.feed(event)
    assert [one.group_id for one in known.listed({})] == ["g2", "g3"]
    assert known.left_out == 1


def test_the_last_changes_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUP_CHANGES", 2)
    talk = Conversation()
    for name in "abcd":
        talk.member(name)
    seen = group(talk)
    assert states(seen) == [("Stable", 3), ("Stable", 4)]
    assert seen.history_left_out == 2


def test_groups_are_told_in_the_order_of_their_names() -> None:
    talk = Conversation()
    for name in "cab":
        talk.member("a", group=name)
    assert [one.group_id for one in groups(talk)] == ["a", "b", "c"]


def test_an_event_tells_of_groups() -> None:
    talk = Conversation()
    talk.member("a", group="g7")
    known = Groups()
    told = [known.feed(event) for event in events(talk)]
    assert [each for each in told if each] == [[(0, "g7")]]


def test_what_was_read_does_not_push_out_what_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUP_CHANGES", 2)
    talk = Conversation()
    administrator = Administrator(talk.connection())
    administrator.alter(p0=5).answered(0)
    for _ in range(3):
        administrator.describe().answered(None, groups=[])
    (one,) = groups(talk)
    assert [(operation.operation, operation.outcome) for operation in one.operations] == [
        ("alter_offsets", "done"),
        ("describe", "unfinished"),
        ("describe", "unfinished"),
    ]
    assert (one.type, one.members, one.operations_left_out) == (None, [], 1)
