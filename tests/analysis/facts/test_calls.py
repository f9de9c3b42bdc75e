"""Requests as steps: their kind, what the answer says of the session, and what they are called."""

from __future__ import annotations

import pickle

import pytest

from kshark.analysis.facts.calls import (
    LAST_EPOCH,
    AcknowledgementBatch,
    Answer,
    Call,
    EpochKind,
    Listed,
    Reply,
    has_uuid,
    next_epoch,
    reply_of,
)
from kshark.model import Witness
from tests.analysis.plain import connection, step

UUID = "AAAAAAAAAAAAAAAAAAAA_-"


def test_epochs_wrap_to_one() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, LAST_EPOCH - 1, LAST_EPOCH)] == [1, 2, LAST_EPOCH, 1]


@pytest.mark.parametrize(
    ("member", "is_uuid", "is_named"),
    [
        (UUID, True, True),
        (UUID + "A", False, True),
        (UUID[1:], False, True),
        ("+" + UUID[1:], False, True),
        ("x" * 36, False, True),
        ("x" * 37, False, False),
        ("x", False, True),
        ("", False, False),
        (None, False, False),
    ],
)
def test_names_of_members(member: str | None, is_uuid: bool, is_named: bool) -> None:
    assert has_uuid(member) is is_uuid
    assert step(1, member=member).is_named is is_named


@pytest.mark.parametrize(
    ("epoch", "kind"),
    [
        (0, EpochKind.INITIAL),
        (1, EpochKind.SUBSEQUENT),
        (LAST_EPOCH, EpochKind.SUBSEQUENT),
        (-1, EpochKind.FINAL),
        (-2, EpochKind.NEGATIVE),
        (-9, EpochKind.NEGATIVE),
    ],
)
def test_kinds_of_epochs(epoch: int, kind: EpochKind) -> None:
    assert step(epoch).kind is kind


@pytest.mark.parametrize(
    ("error", "reply"),
    [
        (None, Reply.UNANSWERED),
        (0, Reply.ACCEPTED),
        (122, Reply.SESSION_NOT_FOUND),
        (123, Reply.INVALID_EPOCH),
        (133, Reply.LIMIT_REACHED),
        *((error, Reply.REJECTED_EARLY) for error in (30, 35, 42)),
        *((error, Reply.UNCLEAR) for error in (-1, 1, 16)),
    ],
)
def test_answers(error: int | None, reply: Reply) -> None:
    assert reply_of(error) is reply
    assert error == -1 or step(1, error=error).reply is reply


def listed(*partitions: int, acks: int = 0) -> list[Listed]:
    return [Listed(("t", partition), [AcknowledgementBatch(0, 9, False)] * acks) for partition in partitions]


@pytest.mark.parametrize(
    ("epoch", "fetch", "member", "partitions", "reply"),
    [
        (1, True, UUID, (), Reply.FAILED_LATER),
        (1, False, UUID, (), Reply.FAILED_LATER),
        (1, True, "a", (), Reply.UNCLEAR),
        (0, True, UUID, (1, 2), Reply.FAILED_LATER),
        (0, True, UUID, (1, 1), Reply.FAILED_REOPEN),
        (0, False, UUID, (), Reply.UNCLEAR),
        (-1, True, UUID, (), Reply.UNCLEAR),
        (-2, True, UUID, (), Reply.UNCLEAR),
    ],
)
def test_unknown_server_errors(epoch: int, fetch: bool, member: str, partitions: tuple[int, ...], reply: Reply) -> None:
    asked = step(epoch, 10, None, fetch=fetch, member=member, listed=listed(*partitions))
    asked.settle(Answer(11, 11, -1, None))
    assert asked.reply is reply


def test_an_answer_ends_the_exchange() -> None:
    asked = step(1, 10, None)
    assert (asked.settled, asked.end, asked.end_ns, asked.arrival, asked.reply) == (
        False,
        10,
        10_000_000,
        10,
        Reply.UNANSWERED,
    )
    asked.settle(Answer(15, 15_000_000, 123, None))
    assert (asked.settled, asked.end, asked.end_ns, asked.arrival, asked.reply) == (
        True,
        15,
        15_000_000,
        10,
        Reply.INVALID_EPOCH,
    )


def test_what_became_of_a_step_stays_so_when_it_is_read_back() -> None:
    asked = step(3, 10, answered=14)
    asked.arrival, asked.any_doubt = 12, "race"
    again = pickle.loads(pickle.dumps(asked))
    assert (again.arrival, again.any_doubt, again.end, again.reply) == (12, "race", 14, Reply.ACCEPTED)


def test_none_may_come() -> None:
    asked = step(1, 10, None)
    asked.settle(None)
    assert (asked.settled, asked.end, asked.reply) == (True, 10, Reply.UNANSWERED)


@pytest.mark.parametrize(
    ("doubt", "answers", "any_doubt"), [(None, None, None), ("cut", "gap", "cut"), (None, "gap", "gap")]
)
def test_the_requests_doubt_comes_first(doubt: str | None, answers: str | None, any_doubt: str | None) -> None:
    asked = step(1, 10, None, doubt=doubt)
    assert asked.any_doubt == doubt
    asked.settle(Answer(11, 11, 0, answers))
    assert asked.any_doubt == any_doubt


def test_what_steps_are() -> None:
    opening, zero, fetch, refused = step(0), step(0, fetch=False), step(1), step(1, error=122)
    assert [each.opens for each in (opening, zero, fetch, refused)] == [True, False, False, False]
    assert [each.is_counted for each in (opening, refused, step(1, error=-1), step(1, error=42))] == [
        True,
        False,
        True,
        False,
    ]
    assert [each.refused for each in (opening, refused, step(1, error=123), step(1, error=133))] == [
        False,
        True,
        True,
        False,
    ]
    assert [each.is_trouble for each in (opening, zero, fetch, refused, step(-1))] == [True, True, False, True, False]
    assert [each.acknowledges for each in (fetch, step(1, listed=listed(1)), step(1, listed=listed(1, acks=1)))] == [
        False,
        False,
        True,
    ]


def test_partitions_listed_twice() -> None:
    lists = ((), (1,), (1, 2), (1, 2, 1), (1, 1, 1))
    duplicates = [step(1, listed=listed(*partitions)).duplicates for partitions in lists]
    assert duplicates == [[], [], [], [("t", 1)], [("t", 1), ("t", 1)]]


def test_what_is_not_needed_later_is_let_go() -> None:
    asked = step(1, acquired=[(("t", 1), 0, 9)], listed=listed(1), forgotten=[("t", 2)])
    assert asked.answer is not None
    asked.lighten()
    assert (asked.listed, asked.forgotten, asked.answer.acquired) == ((), (), ())


def test_what_is_said_of_them() -> None:
    on = connection(3)
    asked = step(4, 88, on=on)
    open_ = step(5, 90, None, fetch=False, on=on)
    assert asked.story == "ShareFetch #4 (epoch 4) was accepted (packets 88, 89)"
    assert open_.story == "ShareAcknowledge #5 (epoch 5) was not answered (packet 90)"
    assert (asked.witness, open_.witness) == (Witness(3, 4, 88, 89), Witness(3, 5, 90, None))
    assert (asked.on(open_), asked.on(step(1))) == ("", " on 10.0.0.1:50000")


def test_other_calls_end_with_their_answers_too() -> None:
    beat = Call(connection(), 76, "ShareGroupHeartbeat", 1, 10, 10, 1, None, "g", "m", 0)
    answered = Call(
        connection(), 76, "ShareGroupHeartbeat", 1, 10, 10, 1, None, "g", "m", 0, answer=Answer(12, 13, 0, None)
    )
    assert ((beat.end, beat.end_ns), (answered.end, answered.end_ns)) == ((10, 10), (12, 13))
