"""Settings that the capture shows, and what they change: a value that may have changed since is no proof."""

from __future__ import annotations

from typing import Any

import pytest

from kshark import limits
from tests.analysis.rules.promises.acknowledgements import RELEASE, holding
from tests.analysis.rules.promises.deliveries import continue_session, given
from tests.analysis.talks import BROKER, alone, broker_closes, metadata, sets, shows
from tests.conversation import Connection, Conversation, Thinned, everything, findings

LIMIT, MOST = "group.share.delivery.count.limit", "group.share.max.delivery.count.limit"
LOCKS, OF_GROUP = "group.share.partition.max.record.locks", "share.partition.max.record.locks"
OVER = "DELIVERY_COUNT_OVER_LIMIT"


def verdicts(talk: Conversation | Thinned, code: str) -> list[tuple[str, str | None]]:
    return [(it.verdict, it.unknown_because) for it in findings(talk) if it.code == code]


# -- the limit of deliveries


def delivered_again(talk: Conversation, name: str, value: int, count: int, *, when: str = "before", **how: Any) -> None:
    """A member releases records in a delivery, and receives them again with the next count."""
    a = talk.member("a")
    if when == "before":
        shows(talk.connection(), name, value, **how)
        a = a.on(talk.connection())
    given(a, 0, (0, 9, count - 1))
    if when == "between":
        shows(talk.connection(), name, value, **how)
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    if when == "after":
        shows(talk.connection(), name, value, **how)
    given(a, 2, (0, 9, count))
    continue_session(a, 3)


@pytest.mark.parametrize(
    ("release", "name", "value", "count", "told"),
    [
        ("4.1", LIMIT, 6, 6, []),
        ("4.1", LIMIT, 6, 7, [("violation", None)]),
        ("4.1", MOST, 6, 7, []),
        ("4.2", LIMIT, 6, 7, []),  # a group may have another one
        ("4.2", MOST, 6, 7, [("violation", None)]),
        ("4.4", MOST, 10, 10, []),
        ("4.4", MOST, 10, 11, [("violation", None)]),
    ],
)
def test_a_delivery_above_the_limit_that_the_broker_shows(
    release: str, name: str, value: int, count: int, told: list[tuple[str, str | None]]
) -> None:
    for when in ("between", "after"):  # the member's connection is older, so the broker did not restart
        talk = alone(release=release)
        delivered_again(talk, name, value, count, when=when)
        assert verdicts(talk, OVER) == told


def test_a_limit_that_may_have_changed_proves_nothing() -> None:
    talk = alone(release="4.1")
    delivered_again(talk, LIMIT, 6, 7, when="before")  # the broker may have restarted before the member connected
    assert verdicts(talk, OVER) == [("unknown", "setting_unknown")]
    talk = alone(release="4.1")
    delivered_again(talk, LIMIT, 6, 7, when="after", read_only=False)
    assert verdicts(talk, OVER) == [("unknown", "setting_unknown")]


OWN = "share.delivery.count.limit"


@pytest.mark.parametrize(
    ("release", "when", "count", "told"),
    [
        ("4.4", "before", 4, [("unknown", "setting_unknown")]),
        ("4.4", "before", 3, []),
        ("4.4", "between", 4, []),  # records that were available are delivered once more
        ("4.1", "before", 4, []),  # there a group has none of its own
    ],
)
def test_a_delivery_above_the_groups_own_limit(
    release: str, when: str, count: int, told: list[tuple[str, str | None]]
) -> None:
    """Unknown: an administrator outside the capture may have raised it."""
    talk = alone(release=release)
    delivered_again(talk, OWN, 3, count, when=when, group="g")
    assert verdicts(talk, OVER) == told


def test_another_groups_limit_says_nothing() -> None:
    talk = alone(release="4.4")
    delivered_again(talk, OWN, 3, 4, when="before", group="other")
    assert verdicts(talk, OVER) == []


def test_another_leader_may_have_a_higher_limit() -> None:
    talk = Conversation(release="4.1")
    delivered_again(talk, LIMIT, 6, 7, when="after")
    assert ("violation", None) not in verdicts(talk, OVER)


def test_a_lost_packet_never_proves_a_limit() -> None:
    talk = alone(release="4.1")
    delivered_again(talk, LIMIT, 7, 7, when="between")
    assert verdicts(talk, OVER) == []
    for number, _ in talk.packets():
        assert verdicts(talk.without_packets({number}), OVER) == []


# -- offsets in flight


def saturated(talk: Conversation) -> list[str]:
    talk.member("b").share_fetch(0, [0]).answered()
    return [it.argument for it in findings(talk) if it.code == "WINDOW_SATURATED"]


@pytest.mark.parametrize(("value", "full"), [(2_001, False), (2_000, True), (500, True), (10_000, False)])
@pytest.mark.parametrize("group", ["", "g"])
def test_the_window_that_the_capture_shows(value: int, full: bool, group: str) -> None:
    talk = Conversation()
    shown = shows(talk.connection(), OF_GROUP if group else LOCKS, value, group=group)
    holding(talk, (0, 1_999))
    told = saturated(talk)
    assert len(told) == full
    assert all(f"the limit is {value} (packet {shown.answer_packets[-1]})" in it for it in told)


def test_a_group_replaces_the_limit_of_its_broker() -> None:
    talk = Conversation()
    shows(talk.connection(), LOCKS, 500)
    shows(talk.connection(), OF_GROUP, 3_000, group="g")
    shows(talk.connection(), OF_GROUP, 700, group="h")
    holding(talk, (0, 1_999))
    assert saturated(talk) == []


def test_a_change_makes_a_setting_unknown() -> None:
    for value, error, validate, full in [
        (None, 0, False, True), ("3000", 0, False, False), (None, 42, False, False), ("500", 0, True, False),
        ("500", 0, False, True),
    ]:  # fmt: skip
        talk = Conversation()
        shows(talk.connection(), OF_GROUP, 3_000, group="g")
        sets(talk.connection(), OF_GROUP, value, group="g", error=error, validate=validate)
        holding(talk, (0, 1_999))
        assert len(saturated(talk)) == full
    talk = Conversation()
    shows(talk.connection(), LOCKS, 3_000, read_only=False)
    sets(talk.connection(), LOCKS, "10000")
    holding(talk, (0, 1_999))
    (it,) = saturated(talk)
    assert "the default limit is 2000" in it


def test_a_group_of_another_cluster_has_its_own_setting() -> None:
    talk, other = Conversation(), "10.0.0.8:9092"
    metadata(talk.connection(), {1: BROKER}, "one")
    elsewhere = talk.connection(other)
    metadata(elsewhere, {1: other}, "two")
    shows(elsewhere, OF_GROUP, 3_000, group="g")
    holding(talk, (0, 1_999))
    assert len(saturated(talk)) == 1


# -- the longest request


@pytest.mark.parametrize(("value", "told"), [(limits.REQUEST_BYTES, 1), (2 * limits.REQUEST_BYTES, 0)])
def test_a_broker_that_shows_a_higher_limit_closed_for_another_reason(value: int, told: int) -> None:
    talk = Conversation()
    shows(talk.connection(), "socket.request.max.bytes", value)
    connection: Connection = talk.connection()
    connection.tcp.client((limits.REQUEST_BYTES + 1).to_bytes(4, "big") + b"\0\3\0\0\0\0\0\2\0\2c1")
    broker_closes(connection)
    assert len([it for it in everything(talk) if it.code == "FRAME_LENGTH_INVALID"]) == told
