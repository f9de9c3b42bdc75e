"""Settings of groups: their own, those of the brokers, and those that are unknown."""

from __future__ import annotations

import pytest

from kshark.groups import ListedGroup
from tests.analysis.talks import sets, shows
from tests.conversation import Connection, Conversation
from tests.groups.talks import group

LIMIT, ISOLATION = "share.delivery.count.limit", "share.isolation.level"


def begun() -> tuple[Conversation, Connection]:
    """A conversation with a member of group g, and an administrator's connection."""
    talk = Conversation()
    talk.member("a")
    return talk, talk.connection()


def settings(one: ListedGroup) -> dict[str, tuple[str | None, str]]:
    """Value and source by name."""
    return {setting.name: (setting.value, setting.source) for setting in one.settings}


def test_an_administrator_sets_and_removes_a_setting() -> None:
    talk, admin = begun()
    assert group(talk).settings == []
    done = sets(admin, LIMIT, "3", group="g")
    assert settings(group(talk)) == {LIMIT: ("3", "group")}
    assert group(talk).settings[0].packet in done.answer_packets
    sets(admin, ISOLATION, "read_committed", group="g")
    sets(admin, LIMIT, None, group="g")
    assert settings(group(talk)) == {ISOLATION: ("read_committed", "group")}


@pytest.mark.parametrize(("error", "validate"), [(42, False), (0, True)], ids=["refused", "only validated"])
def test_nothing_changes_without_a_change(error: int, validate: bool) -> None:
    talk, admin = begun()
    sets(admin, LIMIT, "3", group="g")
    sets(admin, LIMIT, "9", group="g", error=error, validate=validate)
    assert settings(group(talk)) == {LIMIT: ("3", "group")}


def test_another_group_has_its_own() -> None:
    talk, admin = begun()
    sets(admin, LIMIT, "3", group="other")
    assert group(talk).settings == []


def test_the_brokers_setting_counts_for_groups_without_their_own() -> None:
    """Those that are for other types of group, or only for brokers, are left out."""
    talk, admin = begun()
    shows(admin, f"group.{LIMIT}", 5)
    shows(admin, "group.consumer.session.timeout.ms", 45_000)
    shows(admin, "group.share.max.size", 200)
    assert settings(group(talk)) == {LIMIT: ("5", "broker")}
    sets(admin, LIMIT, "3", group="g")
    assert settings(group(talk)) == {LIMIT: ("3", "group")}


def test_a_description_shows_what_the_group_did_not_set() -> None:
    talk, admin = begun()
    shows(admin, "share.auto.offset.reset", "latest", group="g")
    assert settings(group(talk)) == {"share.auto.offset.reset": ("latest", "default")}


def test_a_change_without_its_answer_leaves_it_unknown() -> None:
    talk, admin = begun()
    shows(admin, f"group.{LIMIT}", 5)
    lost = sets(admin, LIMIT, "3", group="g")
    assert settings(group(talk.without_packets(lost.answer_packets))) == {}
