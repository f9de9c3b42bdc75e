"""What a filter says of fields and values that no message has."""

from __future__ import annotations

from typing import Any

import pytest

from kshark.conditions.fields import Fields
from kshark.conditions.filter import Filter
from tests.output.messages import REGISTRY, request, response, unreadable

GROUPS = [
    request("ShareFetch", 1, group_id=group, share_session_epoch=epoch) for epoch, group in enumerate(("g1", "g12"))
]
REFUSED = response("ShareFetch", 1, error_code=123)
BARE = request("Metadata", 12, topics=[{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "name": None}])


def sentences(text: str, *messages: Any, names: dict[str, str] | None = None) -> list[str]:
    fields = Fields(REGISTRY)
    fields.topics.name_of = lambda topic_id, packet: (names or {}).get(topic_id)
    wanted = Filter(text, fields)
    wanted.passing(messages)
    return [*wanted.unmatched()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka.group_id == g11", "no message has group g11; the nearest are g1, g12"),
        ("kafka.group_id == billing", "no message has group billing; messages have g1, g12"),
        ("kafka.group_id in {g1 g13}", "no message has group g13; the nearest are g1, g12"),
        ("kafka.request && kafka.group_id == g11", "no message has group g11; the nearest are g1, g12"),
        ("kafka.group_id == g1 || kafka.group_id == g11", "no message has group g11; the nearest are g1, g12"),
        ("kafka.api == ShareAcknowledge", "no message has API ShareAcknowledge; messages have ShareFetch"),
        ("kafka.share_session_epoch == 7", "no message has share session epoch 7; the nearest are 0, 1"),
        (
            "kafka.error_code == SHARE_SESSION_NOT_FOUND",
            "no message has error code SHARE_SESSION_NOT_FOUND; the nearest is INVALID_SHARE_SESSION_EPOCH",
        ),
        ("kafka.protocol_type", "no message has kafka.protocol_type (4 APIs have it)"),
        (
            "kafka.api == ShareFetch && kafka.group_id == g11",
            "no message of ShareFetch has group g11; the nearest are g1, g12",
        ),
        ("kafka.error_message", "no message has kafka.error_message: it is null or empty in all"),
    ],
)
def test_what_no_message_has_is_said_with_the_nearest(text: str, expected: str) -> None:
    assert sentences(text, *GROUPS, REFUSED) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "kafka.group_id == g1",
        "kafka.group_id in {g1 g12}",
        "kafka.error_code == 123",
        "kafka.error_code == INVALID_SHARE_SESSION_EPOCH",
        "kafka.api == 78",
        "kafka.group_id != g11",
        "kafka.group_id not in {g11}",
        "kafka.group_id contains z",
        "kafka.share_session_epoch > 70",
        "kafka",
    ],
)
def test_nothing_is_said_of_what_messages_have_or_a_test_leaves_out(text: str) -> None:
    assert sentences(text, *GROUPS, REFUSED) == []


def test_of_a_capture_without_messages_nothing_is_said() -> None:
    assert sentences("kafka.group_id == g11") == []


def test_messages_that_cannot_be_read_have_nothing() -> None:
    assert sentences("kafka.group_id == g11", unreadable()) == ["no message has kafka.group_id (29 APIs have it)"]


def test_a_topic_that_no_packet_names_may_be_the_one() -> None:
    assert sentences("kafka.topic == orders", BARE) == [
        "no message has topic orders; of 1 topic id no earlier packet shows the name"
    ]
    assert sentences("kafka.topic == ordrs", BARE, names={"AAAAAAAAAAAAAAAAAAAABw": "orders"}) == [
        "no message has topic ordrs; the nearest is orders"
    ]


def test_each_capture_begins_anew() -> None:
    wanted = Filter("kafka.group_id == g1", Fields(REGISTRY))
    wanted.passing(GROUPS)
    assert not [*wanted.unmatched()]
    wanted.begin()
    wanted.passing(GROUPS[1:])
    assert [*wanted.unmatched()] == ["no message has group g1; the nearest is g12"]
