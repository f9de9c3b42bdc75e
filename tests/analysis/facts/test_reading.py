"""Messages read as steps: what of them later rules ask for, and whether it can be relied on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET

from kshark.analysis.facts.calls import Answer, Call, Leader, Reply
from kshark.analysis.facts.reading import answer_of, call_of, read_as, step_of
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.records import Kept, RecordsField, make_reader
from tests.analysis.plain import connection
from tests.analysis.talks import batch_of

HERE = connection()


def message(body: Any, api_key: Any = SHARE_FETCH, weird: Any = UNSET, **more: Any) -> Any:
    told = {
        "detail": UNSET,
        "api": "ShareFetch",
        "version": 1,
        "packet": 10,
        "time_ns": 11,
        "correlation_id": 7,
        "client_id": "c",
        "knows": UNSET,
        **more,
    }
    return SimpleNamespace(body=None if body is None else SimpleNamespace(**body), api_key=api_key, weird=weird, **told)


def request(**more: Any) -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": "m",
        "share_session_epoch": 4,
        "topics": None,
        "forgotten_topics_data": None,
        **more,
    }


def topic(name: str, *partitions: Any) -> Any:
    return SimpleNamespace(topic_id=name, partitions=list(partitions) or None)


def listed(index: int, *batches: tuple[int, int, list[int]]) -> Any:
    made = [
        SimpleNamespace(first_offset=first, last_offset=last, acknowledge_types=types) for first, last, types in batches
    ]
    return SimpleNamespace(partition_index=index, acknowledgement_batches=made or None)


def test_a_request_is_a_step() -> None:
    step = step_of(message(request()), HERE)
    assert step is not None
    assert (step.connection, step.api_key, step.api, step.version, step.packet, step.time_ns) == (
        HERE,
        SHARE_FETCH,
        "ShareFetch",
        1,
        10,
        11,
    )
    assert (step.correlation_id, step.client_id, step.group_id, step.member_id, step.epoch, step.doubt) == (
        7,
        "c",
        "g",
        "m",
        4,
        None,
    )
    assert (step.listed, step.forgotten, step.settled) == ((), (), False)


def test_what_a_message_does_not_say() -> None:
    step = step_of(message(request(), api=UNSET, version=UNSET, correlation_id=UNSET, client_id=UNSET), HERE)
    assert step is not None
    assert (step.api, step.version, step.correlation_id, step.client_id) == ("", 0, 0, None)
    assert step_of(message(request(), client_id=None), HERE).client_id is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "asked", [message(None), message(request(share_session_epoch=UNSET)), message(request(), api_key=UNSET)]
)
def test_a_request_that_could_not_be_read_is_none(asked: Any) -> None:
    assert step_of(asked, HERE) is None


def test_partitions_of_a_request() -> None:
    topics = [topic("t", listed(1, (0, 4, [1]), (5, 9, [4])), listed(2)), topic("u")]
    step = step_of(message(request(topics=topics, forgotten_topics_data=[topic("t", 3, 5), topic("v")])), HERE)
    assert step is not None
    assert [
        (each.partition, [(one.first, one.last, one.renews) for one in each.acknowledged]) for each in step.listed
    ] == [
        (("t", 1), [(0, 4, False), (5, 9, True)]),
        (("t", 2), []),
    ]
    assert step.forgotten == [("t", 3), ("t", 5)]
    acknowledge = step_of(message(request(forgotten_topics_data=[topic("t", 3)]), SHARE_ACKNOWLEDGE), HERE)
    assert acknowledge is not None
    assert acknowledge.forgotten == ()


@pytest.mark.parametrize(
    ("weird", "doubt"),
    [
        (UNSET, None),
        (["TRAILING_BYTES"], None),
        (["BODY_TOO_SHORT"], "cut"),
        (["TAGS_UNSORTED", "LENGTH_INVALID"], "cut"),
        (["RESYNC"], "resync"),
        (["VERSION_UNKNOWN"], "version_unknown"),
        (["RESYNC", "BODY_TOO_SHORT"], "cut"),
    ],
)
def test_why_a_message_cannot_be_relied_on(weird: Any, doubt: str | None) -> None:
    step = step_of(message(request(topics=[topic("t", listed(1))]), weird=weird), HERE)
    assert step is not None
    assert (step.doubt, bool(step.listed)) == (doubt, doubt != "cut")
    assert call_of(message(request(), weird=weird), None, HERE).doubt == doubt
    assert answer_of(message({"error_code": 0, "throttle_time_ms": 0, "responses": []}, weird=weird)).doubt == doubt


def test_other_calls_as_far_as_they_can_be_read() -> None:
    call = read_as(Call, message(request(), 76), message({"error_code": 42}, 76, packet=20, time_ns=21), HERE, 3)
    assert (call.api_key, call.api, call.version, call.packet, call.time_ns, call.correlation_id) == (
        76,
        "ShareFetch",
        1,
        10,
        11,
        7,
    )
    assert (call.client_id, call.group_id, call.member_id, call.epoch, call.settled, call.end) == (
        "c",
        "g",
        "m",
        3,
        True,
        20,
    )
    unread = call_of(message(None, UNSET, api=UNSET, version=UNSET, correlation_id=UNSET, client_id=UNSET), None, HERE)
    assert (unread.api_key, unread.api, unread.version, unread.correlation_id) == (0, "", 0, 0)
    assert (unread.client_id, unread.group_id, unread.member_id, unread.epoch, unread.answer) == (
        None,
        None,
        None,
        0,
        None,
    )


# -- answers


def fetched(records: Any = None, **more: Any) -> Any:
    ranges = [
        SimpleNamespace(first_offset=first, last_offset=last, delivery_count=count)
        for first, last, count in ((0, 4, 1), (6, 9, 2))
    ]
    one = SimpleNamespace(
        partition_index=1, error_code=0, acknowledge_error_code=121, acquired_records=ranges, records=records
    )
    leader = SimpleNamespace(leader_id=3, leader_epoch=8)
    two = SimpleNamespace(
        partition_index=2, error_code=6, acknowledge_error_code=0, acquired_records=None, current_leader=leader
    )
    nodes = [SimpleNamespace(node_id=3, host="k", port=9093), SimpleNamespace(node_id=4, host=None, port=0)]
    return {
        "error_code": 0,
        "throttle_time_ms": 0,
        "responses": [topic("t", one, two), topic("u")],
        "node_endpoints": nodes,
        **more,
    }


def test_what_an_answer_hands_out() -> None:
    answer = answer_of(message(fetched(acquisition_lock_timeout_ms=2500)))
    assert answer.acquired == [(("t", 1), 0, 4, 1), (("t", 1), 6, 9, 2)]
    assert (answer.acknowledged, answer.failed) == ({("t", 1): 121, ("t", 2): 0}, {("t", 2): 6})
    assert (answer.packet, answer.time_ns, answer.error, answer.doubt, answer.lock_ns) == (
        10,
        11,
        0,
        None,
        2_500_000_000,
    )


def test_which_of_that_has_a_record() -> None:
    """However far the records were opened, and when they come back from tables."""
    spans = [(0, 4, "data"), (5, 5, "control")]
    data = batch_of(0, 4) + batch_of(5, 5, control=True)
    for opened in ("checked", "headers", True):
        assert answer_of(
            message(fetched(make_reader(opened, False)(data, 0, len(data), kept=Kept(spans=True))))
        ).spans == {("t", 1): spans}
    assert answer_of(message(fetched({"size": 9, "spans": spans}))).spans == {("t", 1): spans}
    for unknown in (RecordsField(9), {"size": 9}, UNSET, None, b"unread", RecordsField(0, spans=[])):
        assert answer_of(message(fetched(unknown))).spans == {}


def test_who_leads_what_the_broker_does_not() -> None:
    assert answer_of(message(fetched())).leaders == {("t", 2): Leader(3, "k:9093", 8)}
    assert answer_of(message(fetched(node_endpoints=None))).leaders == {}


def test_what_became_of_acknowledgements() -> None:
    partitions = [SimpleNamespace(partition_index=number, error_code=error) for number, error in ((0, 0), (1, 42))]
    answer = answer_of(message({"error_code": 0, "responses": [topic("t", *partitions)]}, SHARE_ACKNOWLEDGE))
    assert (answer.acknowledged, answer.failed, answer.acquired) == ({("t", 0): 0, ("t", 1): 42}, {}, [])


def test_how_long_records_are_locked_is_not_known_unless_told() -> None:
    told = {lock: answer_of(message(fetched(acquisition_lock_timeout_ms=lock))).lock_ns for lock in (UNSET, -5, 0, 1)}
    assert told == {UNSET: None, -5: None, 0: None, 1: 1_000_000}


def test_answers_that_hand_out_nothing() -> None:
    for told in (
        message(fetched(), 76),
        message(fetched(), weird=["BODY_TOO_SHORT"]),
        message(fetched(responses=None)),
    ):
        assert answer_of(told).acquired == ()
    assert answer_of(message(fetched(error_code=123), weird=["RESYNC"])).acquired


def test_an_answer_that_a_quota_held_back_names_no_partition() -> None:
    told = [fetched(throttle_time_ms=9), fetched(throttle_time_ms=9, responses=None), fetched(responses=None)]
    assert [answer_of(message(one)).throttled for one in told] == [False, True, False]


def test_how_many_records_a_request_wants() -> None:
    told = [
        request(),
        request(share_acquire_mode=0, batch_size=500, max_records=500),
        request(share_acquire_mode=1, batch_size=0, max_records=5),
    ]
    steps = [step_of(message(one), HERE) for one in told]
    assert [(step.most_records, step.wants_no_batch) for step in steps if step] == [
        (None, False),
        (None, False),
        (5, True),
    ]


def test_an_answer_without_an_error_code_is_cut() -> None:
    for body in (None, {"error_code": UNSET}):
        answer = answer_of(message(body))
        assert (answer.packet, answer.time_ns, answer.error, answer.doubt) == (10, 11, None, "cut")
    assert answer_of(message(None, weird=["RESYNC"])).doubt == "resync"
    assert Answer(1, 1, None, None).lock_ns is None
    step = step_of(message(request()), HERE)
    assert step is not None
    step.settle(answer_of(message(None)))
    assert (step.reply, step.any_doubt) == (Reply.UNANSWERED, "cut")
