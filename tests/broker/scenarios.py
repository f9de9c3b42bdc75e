"""Conversations that are written once: kshark judges them on paper, and real brokers have to answer them word for word.

Each is a function of a conversation; the answers are written by hand, by release where releases differ. A pause is real
time with a broker. Sources of the answers: KIP-932's session table, and what brokers of the three releases were seen to
do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.broker.setup import UNKNOWN_TOPIC
from tests.broker.table import LAST_EPOCH
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_NOT_FOUND, TOPIC, Asked, Conversation, Member

INVALID_REQUEST: Final = 42
SHARE_SESSION_LIMIT_REACHED: Final = 133
UNKNOWN_SERVER_ERROR: Final = -1
#: A second group, for who has to be in another one.
OTHER_GROUP: Final = "other"
#: Long enough for a broker to have noticed the end of a connection.
NOTICED: Final = 0.8
#: How long a fetch waits that is to be waiting while other things happen.
WAIT: Final = 2.0


def fetch(member: Member, epoch: int, *partitions: int, wait_ms: int = 5, **more: Any) -> Asked:
    """A ShareFetch that waits no longer than it has to."""
    return member.share_fetch(epoch, partitions, max_wait_ms=wait_ms, **more)


def waiting_fetch(talk: Conversation, member: Member, epoch: int) -> Asked:
    """A ShareFetch that finds too little, and has been taken by now."""
    asked = fetch(member, epoch, 0, wait_ms=int(WAIT * 1000), min_bytes=1 << 30)
    talk.pause(WAIT / 4)
    return asked


def opened(talk: Conversation, name: str, upto: int = 0) -> Member:
    """A member on a connection of its own, whose session has had the epochs up to that one accepted."""
    member = talk.member(name)
    for epoch in range(upto + 1):
        fetch(member, epoch).answered()
    return member


def elsewhere(talk: Conversation, member: Member) -> Member:
    """The same member on another connection."""
    return member.on(talk.connection())


def takes_the_old_one_along(talk: Conversation) -> int:
    """What a session answers after the end of an older connection of its member (KAFKA-19950: until 4.1)."""
    return SHARE_SESSION_NOT_FOUND if talk.release == "4.1" else 0


def one_count_for_both_kinds(talk: Conversation) -> None:
    a = opened(talk, "a")
    a.share_acknowledge(1).answered()
    fetch(a, 2).answered()
    a.share_acknowledge(3).answered()
    a.share_acknowledge(4).answered()
    fetch(a, -1).answered()


def every_wrong_epoch(talk: Conversation) -> None:
    a = opened(talk, "a", 3)
    for epoch in (3, 2, 5, LAST_EPOCH, -2, -7):
        fetch(a, epoch).answered(INVALID_SHARE_SESSION_EPOCH)
        a.share_acknowledge(epoch).answered(INVALID_SHARE_SESSION_EPOCH)
    a.share_acknowledge(0).answered(INVALID_SHARE_SESSION_EPOCH)
    fetch(a, 4).answered()


def without_a_session(talk: Conversation) -> None:
    a = talk.member("a")
    for epoch in (1, 7, LAST_EPOCH, -1, -2):
        fetch(a, epoch).answered(SHARE_SESSION_NOT_FOUND)
        a.share_acknowledge(epoch).answered(SHARE_SESSION_NOT_FOUND)
    a.share_acknowledge(0).answered(INVALID_SHARE_SESSION_EPOCH)


def used_after_the_final_epoch(talk: Conversation) -> None:
    a = opened(talk, "a", 1)
    a.share_acknowledge(-1).answered()
    fetch(a, 2).answered(SHARE_SESSION_NOT_FOUND)
    fetch(a, 0).answered()
    fetch(a, 1).answered()


def two_counters(talk: Conversation) -> None:
    a = opened(talk, "a", 1)
    a.share_acknowledge(2).answered()
    fetch(a, 3).answered()
    a.share_acknowledge(3).answered(INVALID_SHARE_SESSION_EPOCH)


def two_connections_write(talk: Conversation) -> None:
    a = opened(talk, "a", 1)
    b = elsewhere(talk, a)
    fetch(b, 2).answered()
    fetch(a, 2).answered(INVALID_SHARE_SESSION_EPOCH)
    fetch(b, 0).answered()
    fetch(a, 3).answered(INVALID_SHARE_SESSION_EPOCH)
    fetch(b, 1).answered()


def acknowledgements_in_the_first_fetch(talk: Conversation) -> None:
    a = opened(talk, "a", 1)
    fetch(a, 0, 0, acks=[(0, 0, 1)]).answered(INVALID_REQUEST)
    fetch(a, 2).answered()


def a_partition_twice(talk: Conversation) -> None:
    a = opened(talk, "a", 1)
    fetch(a, 2, 0, 0).answered()
    fetch(a, 0, 0, 0).answered(UNKNOWN_SERVER_ERROR)
    fetch(a, 3).answered(SHARE_SESSION_NOT_FOUND)


def a_topic_that_does_not_exist(talk: Conversation) -> None:
    """The session goes on all the same; so does every -1, until the topic is forgotten. Who only renews locks asks for
    no records.

    Since 4.4 it is said at the partition.
    """
    error = 0 if talk.release == "4.4" else UNKNOWN_SERVER_ERROR
    a = opened(talk, "a")
    fetch(a, 1, 0, topic=UNKNOWN_TOPIC).answered(error)
    fetch(a, 2).answered(error)
    if talk.release == "4.1":
        a.share_acknowledge(3).answered()
    else:
        fetch(a, 3, version=2, is_renew_ack=True, wait_ms=0, min_bytes=0, max_bytes=0, max_records=0).answered()
    fetch(a, 4, forget=[0], topic=UNKNOWN_TOPIC).answered()
    fetch(a, 0, 0, topic=UNKNOWN_TOPIC).answered(error)
    a.share_acknowledge(1).answered()


def member_ids_that_are_none(talk: Conversation) -> None:
    """Null, too long, no uuid: told apart from 4.2 on; a session of the member is not looked for."""
    a = opened(talk, "a")
    refused = UNKNOWN_SERVER_ERROR if talk.release == "4.1" else INVALID_REQUEST
    null = UNKNOWN_SERVER_ERROR if talk.release in ("4.1", "4.2") else INVALID_REQUEST
    odd = UNKNOWN_SERVER_ERROR if talk.release == "4.1" else SHARE_SESSION_NOT_FOUND
    for member_id, error in ((None, null), ("", refused), ("x" * 37, refused), ("no uuid", odd), ("x" * 36, odd)):
        fetch(a, 1, member_id=member_id).answered(error)
    fetch(a, 1).answered()


def the_connection_closes(talk: Conversation) -> None:
    a = opened(talk, "a", 1)
    b = elsewhere(talk, a)
    a.connection.close()
    talk.pause(NOTICED)
    fetch(b, 2).answered(SHARE_SESSION_NOT_FOUND)


def another_connection_closes(talk: Conversation) -> None:
    """Requests on it were answered; it did not open the session."""
    a = opened(talk, "a", 1)
    b = elsewhere(talk, a)
    fetch(b, 2).answered()
    b.connection.reset()
    talk.pause(NOTICED)
    fetch(a, 3).answered()


def replaced_then_the_first_connection_closes(talk: Conversation) -> None:
    a = opened(talk, "a", 1)
    b = elsewhere(talk, a)
    fetch(b, 0).answered()
    a.connection.close()
    talk.pause(NOTICED)
    fetch(b, 1).answered(takes_the_old_one_along(talk))


def closed_then_the_first_connection_closes(talk: Conversation) -> None:
    """Also a session that was closed in good order leaves its connection behind, until 4.1."""
    a = opened(talk, "a", 1)
    b = elsewhere(talk, a)
    fetch(a, -1).answered()
    fetch(b, 0).answered()
    a.connection.close()
    talk.pause(NOTICED)
    fetch(b, 1).answered(takes_the_old_one_along(talk))


def two_sessions_on_one_connection(talk: Conversation) -> None:
    """It takes only the one with it that was opened last."""
    a = opened(talk, "a")
    b = talk.member("b", connection=a.connection)
    fetch(b, 0).answered()
    later = talk.connection()
    a.connection.close()
    talk.pause(NOTICED)
    fetch(a.on(later), 1).answered()
    fetch(b.on(later), 1).answered(SHARE_SESSION_NOT_FOUND)


def two_sessions_on_one_connection_of_which_the_first_is_closed(talk: Conversation) -> None:
    """From 4.2 on it takes none with it, then."""
    a = opened(talk, "a")
    b = talk.member("b", connection=a.connection)
    fetch(b, 0).answered()
    fetch(a, -1).answered()
    later = talk.connection()
    a.connection.close()
    talk.pause(NOTICED)
    fetch(b.on(later), 1).answered(takes_the_old_one_along(talk))


def a_fetch_is_overtaken(talk: Conversation) -> None:
    a = opened(talk, "a")
    b = elsewhere(talk, a)
    waiting = waiting_fetch(talk, a, 1)
    b.share_acknowledge(2).answered()
    waiting.answered(INVALID_SHARE_SESSION_EPOCH)
    fetch(a, 3).answered()


def a_waiting_fetch_is_replaced(talk: Conversation) -> None:
    """Only the same session is compared with: a new one, or none, lets the fetch through."""
    a = opened(talk, "a")
    b = elsewhere(talk, a)
    waiting = waiting_fetch(talk, a, 1)
    fetch(b, 0).answered()
    waiting.answered()
    fetch(b, 1).answered()
    waiting = waiting_fetch(talk, a, 2)
    fetch(b, -1).answered()
    waiting.answered()


def the_end_is_noticed_after_the_wait(talk: Conversation) -> None:
    """While a fetch waits, a broker does not look at its connection, were it reset."""
    a = opened(talk, "a", 1)
    b = elsewhere(talk, a)
    waiting_fetch(talk, a, 2)
    a.connection.reset()
    talk.pause(0.1)
    b.share_acknowledge(3).answered()
    talk.pause(WAIT + NOTICED)
    b.share_acknowledge(4).answered(SHARE_SESSION_NOT_FOUND)


def s1_final_then_opened_elsewhere_and_closed(talk: Conversation) -> None:
    a = opened(talk, "a", 1)
    fetch(a, -1).answered()
    b = elsewhere(talk, a)
    fetch(b, 0).answered()
    b.connection.close()
    talk.pause(NOTICED)
    fetch(a, 1).answered(SHARE_SESSION_NOT_FOUND)


def s2_opened_elsewhere_and_closed(talk: Conversation) -> None:
    a = talk.member("a")
    b = elsewhere(talk, a)
    fetch(b, 0).answered()
    b.connection.close()
    talk.pause(NOTICED)
    fetch(a, 1).answered(SHARE_SESSION_NOT_FOUND)


def s3_failed_reopen_then_opened_elsewhere_and_closed(talk: Conversation) -> None:
    a = talk.member("a")
    fetch(a, 0, 0, 0).answered(UNKNOWN_SERVER_ERROR)
    b = elsewhere(talk, a)
    fetch(b, 0).answered()
    b.connection.close()
    talk.pause(NOTICED)
    fetch(a, 1).answered(SHARE_SESSION_NOT_FOUND)


def s4_refused_then_opened_elsewhere(talk: Conversation) -> None:
    """The first connection's next epoch fits the new session by chance."""
    a = opened(talk, "a", 1)
    fetch(a, 5).answered(INVALID_SHARE_SESSION_EPOCH)
    b = elsewhere(talk, a)
    fetch(b, 0).answered()
    fetch(b, 1).answered()
    fetch(a, 2).answered()


def s5_a_partition_is_assigned_anew(talk: Conversation) -> None:
    """It goes to another member and comes back; then it is listed with what is still to be acknowledged."""
    a, b = talk.member("a", joined=False), talk.member("b", joined=False)
    beats = a.on(talk.connection())
    epoch, _ = assigned(talk, beats, 0, [0, 1])
    fetch(a, 0, 0, 1).answered()
    fetch(a, 1).answered()
    _, (moved,) = assigned(talk, b, 0, [0])
    epoch, _ = assigned(talk, beats, epoch, [1])
    fetch(a, 2, forget=[moved]).answered()
    b.heartbeat(-1).answered(member_id=b.member_id, member_epoch=-1, heartbeat_interval_ms=5000, assignment=None)
    assigned(talk, beats, epoch, [0, 1])
    fetch(a, 3, moved, acks=[(0, 0, 1)]).answered()
    fetch(a, 4).answered()


def s6_final_then_an_opening_without_an_answer(talk: Conversation) -> None:
    a = opened(talk, "a")
    fetch(a, -1).answered()
    b = elsewhere(talk, a)
    waiting_fetch(talk, b, 0)
    b.connection.reset()
    talk.pause(WAIT + NOTICED)
    fetch(a, 1).answered(SHARE_SESSION_NOT_FOUND)


def s7_replaced_and_both_close(talk: Conversation) -> None:
    a = opened(talk, "a")
    b = elsewhere(talk, a)
    fetch(b, 0).answered()
    b.connection.close()
    talk.pause(0.3)
    a.connection.close()
    talk.pause(NOTICED)
    fetch(elsewhere(talk, a), 1).answered(SHARE_SESSION_NOT_FOUND)


def s8_the_old_connection_dies_late(talk: Conversation) -> None:
    """KAFKA-19950 as it usually happens."""
    a = opened(talk, "a")
    waiting_fetch(talk, a, 1)
    a.connection.close()
    b = elsewhere(talk, a)
    fetch(b, 0).answered()
    fetch(b, 1).answered()
    talk.pause(WAIT + NOTICED)
    fetch(b, 2).answered(takes_the_old_one_along(talk))


def java_finds_no_room(talk: Conversation) -> None:
    """A Java client asks again at once: the broker itself delays each refusal by MaxWait."""
    a = opened(talk, "a")
    b = talk.member("b", group=OTHER_GROUP)
    for _ in range(4):
        refused = fetch(b, 0, wait_ms=200)
        talk.pause(0.2)
        refused.answered(SHARE_SESSION_LIMIT_REACHED)
    fetch(b, 1).answered(SHARE_SESSION_NOT_FOUND)
    a.share_acknowledge(-1).answered()
    fetch(b, 0).answered()
    fetch(b, 1).answered()


def assigned(talk: Conversation, member: Member, epoch: int, on_paper: list[int]) -> tuple[int, list[int]]:
    """Heartbeats until the member is assigned so many partitions: its new epoch, and which they are. On paper the first
    answer says it."""
    for _ in range(60):
        assignment = {"topic_partitions": [{"topic_id": TOPIC, "partitions": on_paper}]}
        told: dict[str, Any] = {
            "member_id": member.member_id,
            "member_epoch": epoch + 1,
            "heartbeat_interval_ms": 5000,
            "assignment": assignment,
        }
        answer = member.heartbeat(epoch, ["t"]).answered(**told).answer  # type: ignore[attr-defined]
        epoch = answer["member_epoch"]
        partitions = [
            index
            for topic in (answer["assignment"] or {"topic_partitions": []})["topic_partitions"]
            for index in topic["partitions"]
        ]
        if len(partitions) == len(on_paper):
            return epoch, sorted(partitions)
        talk.pause(0.25)
    raise AssertionError(f"the member is not assigned {len(on_paper)} partitions: {answer}")


Scenario = Callable[[Conversation], None]
#: What a broker answers that has room for many sessions, and for one.
SCENARIOS: Final[tuple[Scenario, ...]] = (
    one_count_for_both_kinds,
    every_wrong_epoch,
    without_a_session,
    used_after_the_final_epoch,
    two_counters,
    two_connections_write,
    acknowledgements_in_the_first_fetch,
    a_partition_twice,
    a_topic_that_does_not_exist,
    member_ids_that_are_none,
    the_connection_closes,
    another_connection_closes,
    replaced_then_the_first_connection_closes,
    closed_then_the_first_connection_closes,
    two_sessions_on_one_connection,
    two_sessions_on_one_connection_of_which_the_first_is_closed,
    a_fetch_is_overtaken,
    a_waiting_fetch_is_replaced,
    the_end_is_noticed_after_the_wait,
    s1_final_then_opened_elsewhere_and_closed,
    s2_opened_elsewhere_and_closed,
    s3_failed_reopen_then_opened_elsewhere_and_closed,
    s4_refused_then_opened_elsewhere,
    s5_a_partition_is_assigned_anew,
    s6_final_then_an_opening_without_an_answer,
    s7_replaced_and_both_close,
    s8_the_old_connection_dies_late,
)
WITH_ROOM_FOR_ONE: Final[tuple[Scenario, ...]] = (java_finds_no_room,)
