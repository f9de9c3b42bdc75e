"""Conversations that make judging work: what members and brokers do is odd or wrong, message after message, with few
bytes each.

tests/analysis/test_steps.py counts that a message costs no more behind many; `python -m benchmarks.hostile` measures
them as processes."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any, Final

from tests.analysis.talks import handed, unread
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, TOPIC, Connection, Conversation, Member

#: Writes a conversation of about so many exchanges.
Shape = Callable[[Conversation, int], None]

#: Ranges of one answer.
RANGES: Final = 10
#: For how long records are locked; who asks later gets them again.
LOCK_MS: Final = 30_000


def topic_id(number: int) -> str:
    return base64.urlsafe_b64encode(struct.pack(">QQ", 77, number + 1)).decode().rstrip("=")


def gives(*ranges: tuple[int, int], count: int = 1, topic: str = TOPIC) -> dict[str, Any]:
    """An answer that hands out these ranges, delivered so often."""
    (one,) = handed(*((0, first, last, count) for first, last in ranges))
    return {"responses": [{**one, "topic_id": topic}], "acquisition_lock_timeout_ms": LOCK_MS}


def opened(talk: Conversation) -> Member:
    member = talk.member("a")
    member.share_fetch(0, [0]).answered(**gives())
    return member


def another(connection: Connection, number: int) -> Member:
    """A member more of one connection; it has joined."""
    member = Member(connection, "g", f"m{number}".ljust(22, "A"))
    member.join()
    return member


def many_topics(talk: Conversation, count: int) -> None:
    member = opened(talk)
    for number in range(count):
        member.share_fetch(1 + number, [0], topic=topic_id(number)).answered(**gives((0, 9), topic=topic_id(number)))


def never_acknowledged(talk: Conversation, count: int) -> None:
    member = opened(talk)
    for number in range(count):
        member.share_fetch(1 + number).answered(**gives((2 * number, 2 * number)))


def falling_offsets(talk: Conversation, count: int) -> None:
    member = opened(talk)
    for number in range(count):
        member.share_fetch(1 + number).answered(**gives((count - number, count - number)))


def acknowledged_from_the_end(talk: Conversation, count: int) -> None:
    member = talk.member("a")
    member.share_fetch(0, [0]).answered(**gives((0, 2 * count)))
    for number in range(count):
        member.share_acknowledge(1 + number, [(2 * (count - number), 2 * (count - number), 1)]).answered()


def sessions_opened_and_closed(talk: Conversation, count: int) -> None:
    member = talk.member("a")
    for number in range(count):
        member.share_fetch(0, [0]).answered(**gives((number, number)))
        member.share_fetch(-1).answered(**gives())


def members_on_one_connection(talk: Conversation, count: int) -> None:
    """Each is given what the others have."""
    connection = talk.connection()
    for number in range(count):
        another(connection, number).share_fetch(0, [0]).answered(**gives((0, 9), count=1 + number))


def sessions_beside_unread_requests(talk: Conversation, count: int) -> None:
    """On one connection."""
    connection = talk.connection()
    for number in range(count):
        another(connection, number).share_fetch(0, [0]).answered(**gives((10 * number, 10 * number + 9)))
        for _ in range(3):
            unread(connection)


def requests_cut_short(talk: Conversation, count: int) -> None:
    """One session, and requests that end within their body."""
    member = opened(talk)
    for _ in range(count):
        unread(member.connection)


def wrong_epochs(talk: Conversation, count: int) -> None:
    """Each is refused."""
    member = opened(talk)
    for _ in range(count):
        member.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)


def connections_that_end(talk: Conversation, count: int) -> None:
    """Each with a session open, and with records locked."""
    for number in range(count):
        connection = talk.connection()
        another(connection, number).share_fetch(0, [0]).answered(**gives((10 * number, 10 * number + 9)))
        connection.close()


def connections_that_end_with_a_fetch(talk: Conversation, count: int) -> None:
    """Of one member, whose records stay locked."""
    for number in range(count):
        member = Member(talk.connection(), "g", "a".ljust(22, "A"))
        member.share_fetch(0, [0]).answered(**gives((number, number)))
        member.share_fetch(1)
        member.connection.reset()


def lost_packets(talk: Conversation, count: int) -> None:
    """Every other exchange is not in the capture."""
    member = opened(talk)
    for number in range(count):
        before = len(talk.wire.packets)
        member.share_fetch(1 + number).answered(**gives((number, number)))
        if number % 2:
            del talk.wire.packets[before:]


def many_ranges(talk: Conversation, count: int) -> None:
    """Of single records, none beside another."""
    member = opened(talk)
    for number in range(count):
        first = 2 * RANGES * number
        member.share_fetch(1 + number).answered(**gives(*((first + 2 * nth, first + 2 * nth) for nth in range(RANGES))))


def falling_ranges(talk: Conversation, count: int) -> None:
    member = opened(talk)
    for number in range(count):
        first = 2 * RANGES * (count - number)
        member.share_fetch(1 + number).answered(**gives(*((first - 2 * nth, first - 2 * nth) for nth in range(RANGES))))


def same_ranges(talk: Conversation, count: int) -> None:
    """Handed out again while they are locked."""
    member = opened(talk)
    for number in range(count):
        member.share_fetch(1 + number).answered(**gives(*((2 * nth, 2 * nth) for nth in range(RANGES))))


def overlapping_ranges(talk: Conversation, count: int) -> None:
    """Handed out again while they are locked, in part."""
    member = opened(talk)
    for number in range(count):
        member.share_fetch(1 + number).answered(
            **gives(*((3 * nth + number % 3, 3 * nth + 4) for nth in range(RANGES)))
        )


def locks_that_end(talk: Conversation, count: int) -> None:
    """Records handed out again once their lock has ended, up to the last delivery that a broker of defaults makes."""
    member = opened(talk)
    for number in range(count):
        talk.pause(LOCK_MS / 1000 + 1)
        first = 2 * RANGES * (number // 5)
        member.share_fetch(1 + number).answered(
            **gives(*((first + 2 * nth, first + 2 * nth) for nth in range(RANGES)), count=1 + number % 5)
        )


def beside_each_other(talk: Conversation, count: int) -> None:
    """The same without a record between them."""
    member = opened(talk)
    for number in range(count):
        talk.pause(LOCK_MS / 1000 + 1)
        first, kind = RANGES * (number // 5), 1 + number % 5
        given = [
            {"first_offset": first + nth, "last_offset": first + nth, "delivery_count": kind} for nth in range(RANGES)
        ]
        partition = {"partition_index": 0, "acquired_records": given, "records": b""}
        responses = [{"topic_id": TOPIC, "partitions": [partition]}]
        member.share_fetch(1 + number).answered(responses=responses, acquisition_lock_timeout_ms=LOCK_MS)


def records_given_up(talk: Conversation, count: int) -> None:
    """The same without a record between them: the lock of each ends on its own."""
    member = opened(talk)
    for number in range(count):
        talk.pause(LOCK_MS / 1000 + 1)
        member.share_fetch(1 + number).answered(**gives((number // 5, number // 5), count=1 + number % 5))


def released_ranges(talk: Conversation, count: int) -> None:
    """Given back and handed out again, up to the last delivery that a broker of defaults makes."""
    member = opened(talk)
    for number in range(count):
        first = 2 * RANGES * (number // 5)
        given = [(first + 2 * nth, first + 2 * nth) for nth in range(RANGES)]
        member.share_fetch(1 + 2 * number).answered(**gives(*given, count=1 + number % 5))
        member.share_acknowledge(2 + 2 * number, [(one, last, 2) for one, last in given]).answered()


def sessions_on_many_connections(talk: Conversation, count: int) -> None:
    """Of one member: each opens its session anew, and none of them ends."""
    member = talk.member("a")
    for number in range(count):
        member.on(talk.connection()).share_fetch(0, [0]).answered(**gives((number, number)))


def members_of_one_partition(talk: Conversation, count: int) -> None:
    """Each has a connection and records; then they are acknowledged in the order of the members."""
    members = [another(talk.connection(), number) for number in range(count // 2)]
    for number, member in enumerate(members):
        member.share_fetch(0, [0]).answered(**gives((number, number)))
    for number, member in enumerate(members):
        member.share_acknowledge(1, [(number, number, 1)]).answered()


def members_that_come_and_go(talk: Conversation, count: int) -> None:
    connection = talk.connection()
    for number in range(count):
        member = another(connection, number)
        member.share_fetch(0, [0]).answered(**gives((number, number)))
        member.share_fetch(-1).answered(**gives())
        member.heartbeat(-1).given(-1)


def requests_in_a_row(talk: Conversation, count: int) -> None:
    """None waits for an answer, all are answered at the end."""
    member = opened(talk)
    asked = [member.share_fetch(1 + number) for number in range(count)]
    for number, one in enumerate(asked):
        one.answered(**gives((number, number)))


def unanswered_acknowledgements(talk: Conversation, count: int) -> None:
    member = talk.member("a")
    member.share_fetch(0, [0]).answered(**gives((0, 2 * count)))
    for number in range(count):
        member.share_acknowledge(1 + number, [(2 * number, 2 * number, 1)])


def refused_acknowledgements(talk: Conversation, count: int) -> None:
    member = talk.member("a")
    member.share_fetch(0, [0]).answered(**gives((0, 2 * count)))
    for number in range(count):
        member.share_acknowledge(1 + number, [(2 * number, 2 * number, 1)]).answered(acks={0: 121})


def acknowledged_twice(talk: Conversation, count: int) -> None:
    """Records that are not locked any more."""
    member = talk.member("a")
    member.share_fetch(0, [0]).answered(**gives((0, 2 * count)))
    for number in range(count):
        member.share_acknowledge(1 + number, [(2 * (number // 2), 2 * (number // 2), 1)]).answered()


def strangers_acknowledge(talk: Conversation, count: int) -> None:
    """Records that another member has locked."""
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(0, [0]).answered(**gives((0, 2 * count)))
    b.share_fetch(0, [0]).answered(**gives())
    for number in range(count):
        b.share_acknowledge(1 + number, [(2 * number, 2 * number, 1)]).answered(acks={0: 121})


def partitions_added_and_forgotten(talk: Conversation, count: int) -> None:
    member = opened(talk)
    for number in range(count):
        member.share_fetch(1 + number, [1 + number], forget=[number]).answered(**gives())


def many_groups(talk: Conversation, count: int) -> None:
    connection = talk.connection()
    for number in range(count):
        member = Member(connection, f"g{number}", "a".ljust(22, "A"))
        member.join()
        member.share_fetch(0, [0]).answered(**gives((0, 9)))


def many_brokers(talk: Conversation, count: int) -> None:
    """A partition whose leader moves all the time."""
    member = talk.member("a")
    for number in range(count):
        there = member.on(talk.connection(f"10.1.{number // 200 % 250}.{1 + number % 200}:9092"))
        there.share_fetch(0, [0]).answered(**gives((number, number)))


def members_that_leave_many_brokers(talk: Conversation, count: int) -> None:
    """And come back, again and again."""
    many_brokers(talk, count // 2)
    member = Member(talk.connection(), "g", "a".ljust(22, "A"))
    for _ in range(count // 2):
        member.heartbeat(-1).given(-1)
        member.join()


def heartbeats(talk: Conversation, count: int) -> None:
    """Far too many, and with another assignment each."""
    member = opened(talk)
    for number in range(count):
        topics = [{"topic_id": topic_id(number % 7), "partitions": list(range(number % 50))}]
        member.heartbeat(1).given(1, assignment={"topic_partitions": topics})


def members_that_share(talk: Conversation, count: int) -> None:
    """Two that are handed the same records in turn, while the other has them."""
    members = [talk.member("a"), talk.member("b")]
    for member in members:
        member.share_fetch(0, [0]).answered(**gives())
    for number in range(count):
        members[number % 2].share_fetch(1 + number // 2).answered(**gives((number // 2, number // 2 + 20)))


SHAPES: Final[tuple[Shape, ...]] = (
    many_topics,
    never_acknowledged,
    falling_offsets,
    acknowledged_from_the_end,
    sessions_opened_and_closed,
    members_on_one_connection,
    sessions_beside_unread_requests,
    requests_cut_short,
    wrong_epochs,
    connections_that_end,
    connections_that_end_with_a_fetch,
    lost_packets,
    many_ranges,
    falling_ranges,
    same_ranges,
    overlapping_ranges,
    locks_that_end,
    beside_each_other,
    records_given_up,
    released_ranges,
    sessions_on_many_connections,
    members_of_one_partition,
    members_that_come_and_go,
    requests_in_a_row,
    unanswered_acknowledgements,
    refused_acknowledgements,
    acknowledged_twice,
    strangers_acknowledge,
    partitions_added_and_forgotten,
    many_groups,
    many_brokers,
    members_that_leave_many_brokers,
    heartbeats,
    members_that_share,
)
