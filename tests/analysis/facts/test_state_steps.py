"""Requests to a share coordinator as steps, one a share partition."""

from __future__ import annotations

from typing import Any

from kshark.analysis.facts.state_steps import FAILED, UNANSWERED, StateStep, state_steps
from kshark.model import Exchange
from tests.analysis.coordinators import ACCEPTED, Sender
from tests.analysis.plain import connection
from tests.conversation import TOPIC, Conversation, events


def steps(talk: Conversation) -> list[StateStep]:
    exchanges = [
        event
        for event in events(talk)
        if isinstance(event, Exchange) and event.request is not None and event.request.api_key != 18
    ]
    return [
        step
        for it in exchanges
        if it.request is not None
        for step in state_steps(it.request, it.response, connection())
    ]


def test_a_step_tells_its_story() -> None:
    talk = Conversation()
    a = Sender(talk.connection())
    a.initialize(2, 7).accepted()
    a.read().given(7, (7, 9, ACCEPTED, 1))
    a.write(7, (7, 9, ACCEPTED, 1)).refused(74)
    a.delete().refused(3)
    a.summary()
    a.connection.close()
    assert [step.story for step in steps(talk)] == [
        "InitializeShareGroupState #2 with state epoch 2 and start offset 7 was accepted (packets 6, 7)",
        "ReadShareGroupState #3 with leader epoch 0 was answered with state epoch 2 and start offset 7 (packets 8, 9)",
        "WriteShareGroupState #4 with state epoch 2, leader epoch 0 and start offset 7 was refused with "
        "FENCED_LEADER_EPOCH "
        "(packets 10, 11)",
        "DeleteShareGroupState #5 failed with UNKNOWN_TOPIC_OR_PARTITION (packets 12, 13)",
        "ReadShareGroupStateSummary #6 with leader epoch 0 was not answered (packet 14)",
    ]
    assert [step.reply for step in steps(talk)][-2:] == [FAILED, UNANSWERED]


def test_each_partition_has_its_own_answer() -> None:
    talk = Conversation()
    on = talk.connection()
    topics = [{"topic_id": TOPIC, "partitions": [{"partition": number, "leader_epoch": 3} for number in (0, 1, 2)]}]
    results: list[dict[str, Any]] = [
        {"partition": 2, "error_code": 42},
        {"partition": 0, "error_code": 0, "state_epoch": 5},
    ]
    asked = on.ask(84, "ReadShareGroupState", 0, {"group_id": "g", "topics": topics})
    asked.answered(None, results=[{"topic_id": TOPIC, "partitions": results}])
    found = steps(talk)
    assert [(step.partition[1], step.error) for step in found] == [(0, 0), (1, None), (2, 42)]
    assert [None if step.given is None else step.given.state_epoch for step in found] == [5, None, None]


def test_what_no_broker_takes() -> None:
    talk = Conversation()
    a, b = Sender(talk.connection()), Sender(talk.connection(), -1)
    for asked in (
        a.write(0),
        a.write(0, state_epoch=-1, leader_epoch=-1),
        a.write(0, state_epoch=-2),
        a.read(-2),
        b.delete(),
    ):
        asked.accepted()
    assert [step.negative for step in steps(talk)] == [None, None, "state epoch", "leader epoch", "partition"]
