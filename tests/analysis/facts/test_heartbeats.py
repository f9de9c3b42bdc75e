"""Heartbeats as they are read: what they ask, what was answered, and how that is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET

from kshark.analysis.facts.calls import FINAL, INITIAL, NEGATIVE, SUBSEQUENT
from kshark.analysis.facts.heartbeats import ACCEPTED, ELSEWHERE, FENCED, UNANSWERED, UNCLEAR, Beat, beat_of
from kshark.api_keys import SHARE_GROUP_HEARTBEAT
from tests.analysis.plain import connection

GREATER = "The share group member has a greater member epoch (8) than the one known by the group coordinator (3)."
SMALLER = "The share group member has a smaller member epoch (1) than the one known by the group coordinator (3)."


def message(packet: int, body: dict[str, Any] | None, weird: Any = UNSET) -> Any:
    told = {
        "detail": UNSET,
        "api": "ShareGroupHeartbeat",
        "version": 1,
        "time_ns": packet,
        "correlation_id": 7,
        "client_id": "c",
        "knows": UNSET,
        "weird": weird,
    }
    return SimpleNamespace(
        packet=packet, api_key=SHARE_GROUP_HEARTBEAT, body=None if body is None else SimpleNamespace(**body), **told
    )


def asked(epoch: Any, **fields: Any) -> Any:
    body = {"group_id": "g", "member_id": "m", "member_epoch": epoch, "rack_id": None, "subscribed_topic_names": None}
    return message(10, body | fields)


def answered(error: int = 0, weird: Any = UNSET, **fields: Any) -> Any:
    body = {
        "error_code": error,
        "error_message": None,
        "member_epoch": 3,
        "heartbeat_interval_ms": 5000,
        "assignment": None,
    }
    return message(11, body | fields, weird)


def beat(request: Any, response: Any = None) -> Beat:
    found = beat_of(request, response, connection())
    assert found is not None
    return found


def topics(*told: tuple[str, list[int] | None]) -> Any:
    return SimpleNamespace(
        topic_partitions=[SimpleNamespace(topic_id=name, partitions=partitions) for name, partitions in told]
    )


def test_what_it_asks() -> None:
    joining = beat(asked(0, rack_id="r", subscribed_topic_names=["t", "u"]))
    assert (joining.group_id, joining.member_id, joining.rack_id, joining.topics) == ("g", "m", "r", ("t", "u"))
    assert (joining.kind, beat(asked(5)).kind, beat(asked(-1)).kind, beat(asked(-2)).kind) == (
        INITIAL,
        SUBSEQUENT,
        FINAL,
        NEGATIVE,
    )
    assert (beat(asked(0)).topics, beat(asked(0, subscribed_topic_names=[])).topics) == (None, ())


@pytest.mark.parametrize("request_", [asked(UNSET), message(10, None)])
def test_one_that_could_not_be_read_is_none(request_: Any) -> None:
    assert beat_of(request_, answered(), connection()) is None


def test_what_was_answered() -> None:
    told = beat(asked(2), answered(assignment=topics(("t", [1, 2]), ("u", None))))
    assert (told.given, told.interval_ns, told.assigned) == (3, 5_000_000_000, {("t", 1), ("t", 2)})
    assert beat(asked(2), answered(assignment=SimpleNamespace(topic_partitions=None))).assigned == frozenset()
    assert beat(asked(2), answered()).assigned is None


def test_of_an_answer_that_was_cut_nothing_is_told() -> None:
    cut = beat(asked(2), answered(weird=["BODY_TOO_SHORT"], assignment=topics(("t", [1]))))
    assert (cut.given, cut.assigned, cut.any_doubt) == (None, None, "cut")
    assert beat(asked(2), message(11, None)).given is None


def test_what_an_answer_says_of_the_member() -> None:
    replies = [beat(asked(2), answered(error)).reply for error in (0, 110, 14, 15, 16, 30)]
    assert replies == [ACCEPTED, FENCED, ELSEWHERE, ELSEWHERE, ELSEWHERE, UNCLEAR]
    assert beat(asked(2)).reply is UNANSWERED


@pytest.mark.parametrize(
    ("text", "told"), [(GREATER, "greater"), (SMALLER, "smaller"), ("Fenced.", None), (None, None)]
)
def test_how_the_broker_says_that_an_epoch_stands(text: str | None, told: str | None) -> None:
    assert beat(asked(2), answered(110, error_message=text)).fenced_as == told


def test_stories() -> None:
    here = "ShareGroupHeartbeat #7"
    assert beat(asked(0), answered()).story == f"{here} asked to join and got member epoch 3 (packets 10, 11)"
    assert beat(asked(2)).story == f"{here} (member epoch 2) was not answered (packet 10)"
    assert (
        beat(asked(2), answered(110)).story
        == f"{here} (member epoch 2) was refused with FENCED_MEMBER_EPOCH (packets 10, 11)"
    )
    assert beat(asked(2), answered(999)).story == f"{here} (member epoch 2) was refused with error 999 (packets 10, 11)"
    assert beat(asked(-1), answered()).story == f"{here} left the group (packets 10, 11)"
