"""Records that are handed out: nearly the same as what is wrong, and what the capture has to hold for that."""

from __future__ import annotations

import pytest

from kshark.analysis.rules import deliveries, delivery_counts
from kshark.model import Finding
from tests.analysis.coordinators import leader
from tests.analysis.rules.promises.acknowledgements import ACCEPT, RELEASE, RENEW, holding, refused
from tests.analysis.rules.promises.deliveries import STRICT, continue_session, given
from tests.analysis.talks import BROKER, alone, broker_closes, codes, handed, led_elsewhere, left_in_flight, metadata
from tests.answers import untold
from tests.conversation import SHARE_SESSION_NOT_FOUND, Conversation, Thinned, findings
from tests.shared import CAPTURES

BOTH = ("OVERLAPPING_ACQUISITION", "violation")
OUT = ("NEVER_ACKED", "note")


def found(talk: Conversation | Thinned, code: str) -> list[Finding]:
    return [it for it in findings(talk) if it.code == code]


def twice(talk: Conversation, *, lock_ms: int = 30_000, pause: float = 0) -> tuple[object, object]:
    """Two members who get the same records, so long after each other."""
    a, b = holding(talk, (0, 9), lock_ms=lock_ms), talk.member("b")
    talk.pause(pause)
    given(b, 0, (0, 9, 2), lock_ms=lock_ms)
    return a, b


# -- the lock


@pytest.mark.parametrize(("pause", "told"), [(1.9, [BOTH]), (1.997, [OUT]), (2.0, [OUT]), (3.0, [OUT])])
def test_a_lock_that_may_be_out_is_nobodys(pause: float, told: list[tuple[str, str]]) -> None:
    talk = alone()
    a, _ = twice(talk, lock_ms=2000, pause=pause)
    continue_session(a, 1)  # type: ignore[arg-type]
    assert codes(talk) == told


def test_a_lock_of_unknown_length_lasts_as_long_as_the_shortest() -> None:
    for pause, told in ((0.9, [BOTH]), (1.0, [OUT])):
        talk = alone()
        a, _ = twice(talk, lock_ms=0, pause=pause)
        continue_session(a, 1)  # type: ignore[arg-type]
        assert codes(talk) == told


def test_a_lock_that_was_renewed_is_not_out() -> None:
    talk = alone()
    a, b = holding(talk, (0, 9), lock_ms=2000), talk.member("b")
    talk.pause(1.5)
    a.share_acknowledge(1, [(0, 9, RENEW)], version=2, renew=True).answered(acquisition_lock_timeout_ms=2000)
    talk.pause(1.5)
    given(b, 0, (0, 9, 2), lock_ms=2000)
    continue_session(a, 2)
    assert codes(talk) == [BOTH]


def test_a_fetch_that_waited_longer_than_the_lock_may_have_acquired_first() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    waiting = b.share_fetch(0, [0])
    talk.pause(2.5)
    given(a, 0, (0, 9, 2), lock_ms=2000)
    waiting.answered(responses=handed((0, 0, 9)), acquisition_lock_timeout_ms=2000)
    continue_session(a, 1)
    assert codes(talk) == []


# -- what released them


def test_records_that_are_being_released_may_be_handed_out() -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9)), talk.member("b")
    release = a.share_acknowledge(1, [(0, 9, RELEASE)])
    given(b, 0, (0, 9, 2))
    release.answered()
    continue_session(a, 2)
    assert codes(talk) == []


@pytest.mark.parametrize("end", ["final", "fin", "refused"])
def test_a_session_that_is_over_holds_nothing(end: str) -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9)), talk.member("b")
    if end == "final":
        a.share_acknowledge(-1).answered()
    elif end == "fin":
        broker_closes(a.connection)
    given(b, 0, (0, 9, 2))
    if end == "refused":
        a.share_fetch(1).answered(SHARE_SESSION_NOT_FOUND)
    assert found(talk, "OVERLAPPING_ACQUISITION") == []


def test_what_a_final_epoch_gives_back_may_have_been_handed_out_again_in_a_session_between() -> None:
    talk = Conversation()
    a = holding(talk, (0, 9))
    a.share_acknowledge(-1).answered()
    a.share_fetch(0, [0]).answered()
    refused(a, 1, (0, 9, ACCEPT))
    assert ("ACK_REFUSED", "unknown") in codes(talk)


@pytest.mark.parametrize(("listed", "state"), [([0, 1], "available"), ([1], "unknown")])
def test_the_end_of_a_connection_releases_what_its_session_lists(listed: list[int], state: str) -> None:
    """Records of other partitions stay locked, though their member opened a session on another connection since."""
    talk = Conversation()
    a = holding(talk, (0, 9))
    again = a.on(talk.connection())
    again.share_fetch(0, listed).answered()
    again.connection.close()
    assert [one.state for one in left_in_flight(talk).ranges] == [state]


@pytest.mark.parametrize(("release", "state"), [("4.1", "unknown"), ("4.2", "acquired")])
def test_the_end_of_an_older_connection_may_release_what_the_session_lists(release: str, state: str) -> None:
    """Seen on 4.1.2 (KAFKA-19950): what the member holds is available again, and the number of its next delivery may be
    the same."""
    talk = Conversation(release=release)
    a = holding(talk, (0, 9))
    a.on(talk.connection()).share_fetch(0, [0]).answered()
    a.connection.close()
    assert [one.state for one in left_in_flight(talk).ranges] == [state]


@pytest.mark.parametrize("later", [True, False])
def test_the_end_of_a_connection_with_sessions_of_two_members_may_release_nothing(later: bool) -> None:
    """It takes the one that was opened last, and from 4.2 on none where that one, or the one before, was closed."""
    talk = Conversation()
    a = talk.member("a")
    b = talk.member("b", connection=a.connection)
    if not later:
        b.share_fetch(0, [1]).answered()
    given(a, 0, (0, 9))
    if later:
        b.share_fetch(0, [1]).answered()
    a.connection.close()
    assert [one.state for one in left_in_flight(talk).ranges] == ["unknown"]


def test_a_fetch_that_fails_for_one_topic_may_have_acquired_records_of_another() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    given(b, 0, (0, 9))
    a.share_fetch(0, [0]).answered()
    a.share_fetch(1, [0], topic="zMzMzMzMzMzMzMzMzMzMzA").answered(-1)
    given(b, 1, (10, 19, 2))
    (it,) = found(talk, "STRANDED_ACQUISITION")
    assert "was counted, then failed" in it.argument


def test_an_epoch_left_out_may_have_released_them() -> None:
    talk = Conversation()
    a, _ = twice(talk)
    continue_session(a, 2)  # type: ignore[arg-type]
    assert [code for code, _ in codes(talk)] == ["BROKER_ACCEPTED_WRONG_EPOCH"]


def test_a_session_that_goes_on_elsewhere_may_have_been_closed_and_have_counted_as_far_again() -> None:
    """A third connection closed it and opened another: where the capture lacks that one, all epochs are there."""
    talk = Conversation()
    a = holding(talk, (0, 9))
    third = a.on(talk.connection())
    missing = [packet for epoch in (-1, 0) for packet in third.share_fetch(epoch).answered().all_packets]
    given(talk.member("b"), 0, (0, 9, 2))
    continue_session(a.on(talk.connection()), 1)
    for capture in (talk, talk.without_packets(missing)):
        assert found(capture, "OVERLAPPING_ACQUISITION") == []


def test_a_partition_that_its_leader_is_not_sure_of_may_begin_anew() -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9)), talk.member("b")
    a.share_fetch(1).answered(
        responses=[
            {
                "topic_id": handed()[0]["topic_id"],
                "partitions": [{"partition_index": 0, "error_code": 6, "records": b""}],
            }
        ]
    )
    given(b, 0, (0, 9, 2))
    continue_session(a, 2)
    assert codes(talk) == []


@pytest.mark.sweep
def test_no_missing_packet_accuses_anybody() -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9)), talk.member("b")
    a.share_acknowledge(1, [(0, 4, RELEASE), (5, 9, ACCEPT)]).answered()
    given(b, 0, (0, 4, 2))
    continue_session(a, 2)
    b.share_acknowledge(-1).answered()
    given(a, 3, (0, 4, 3))
    continue_session(a, 4)
    assert codes(talk) == []
    numbers = [number for number, _ in talk.packets()]
    for first in numbers:
        for last in numbers[first - 1 : first + 12]:
            left = talk.without_packets(range(first, last + 1))
            assert [it for it in codes(left) if it[1] == "violation"] == [], (first, last)


# -- acknowledged


def test_released_records_are_handed_out_again() -> None:
    talk = Conversation()
    a = holding(talk, (0, 9))
    a.share_acknowledge(1, [(0, 9, RELEASE)]).answered()
    given(a, 2, (0, 9, 2))
    continue_session(a, 3)
    assert codes(talk) == []


def test_an_acknowledgement_without_an_answer_may_not_have_been_taken() -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9)), talk.member("b")
    a.share_acknowledge(1, [(0, 9, ACCEPT)])
    a.connection.reset()
    given(b, 0, (0, 9, 2))
    assert found(talk, "REDELIVERY_AFTER_TERMINAL") == []


def test_a_fetch_that_waited_while_the_start_offset_moved_may_have_acquired_before() -> None:
    talk = Conversation()
    a = talk.member("a")
    waiting = a.share_fetch(0, [0])
    leader(talk).write(100).accepted()
    waiting.answered(responses=handed((0, 50, 59)))
    given(a, 1, (100, 109, 1))
    assert codes(talk) == []


def test_a_start_offset_that_was_stored_before_the_session_may_have_been_reset() -> None:
    talk = Conversation()
    given(talk.member("b"), 0, (90, 99, 1))
    leader(talk).write(100).accepted()
    given(talk.member("a"), 0, (50, 59, 1))
    assert found(talk, "ACQUIRED_BELOW_SPSO") == []


# -- counts


@pytest.mark.parametrize("release", ["4.1", "4.2"])
def test_4_1_takes_the_deliveries_of_a_session_back(release: str) -> None:
    """KAFKA-17541, KAFKA-19972: when the records come again, the count is the same one more time."""
    talk = Conversation(release=release)
    a = holding(talk, (0, 9))
    a.share_acknowledge(-1).answered()
    given(a, 0, (0, 9, 1 if release == "4.1" else 2))
    assert codes(talk) == []


@pytest.mark.parametrize(("release", "count", "told"), [("4.1", 10, 0), ("4.1", 11, 1), ("4.2", 25, 0), ("4.2", 26, 1)])
def test_limits_that_brokers_can_be_told(release: str, count: int, told: int) -> None:
    talk = Conversation(release=release)
    given(talk.member("a"), 0, (0, 9, count))
    assert len(found(talk, "DELIVERY_COUNT_OVER_LIMIT")) == told


def test_records_that_nobody_saw_before_may_come_with_any_count() -> None:
    talk = Conversation()
    given(talk.member("a"), 0, (0, 9, 3))
    assert codes(talk) == []


@pytest.mark.parametrize("why", ["throttled", "unanswered"])
def test_a_fetch_that_handed_out_nothing_explains_a_delivery_that_nobody_saw(why: str) -> None:
    talk = Conversation()
    a, b = holding(talk, (0, 9)), talk.member("b")
    continue_session(b, 0)
    lost = b.share_fetch(1)
    if why == "throttled":
        lost.answered(throttle_time_ms=100)
    else:
        b.connection.reset()
    talk.pause(40)
    given(a, 1, (0, 9, 3), (10, 14, 2))
    (it,) = found(talk, "STRANDED_ACQUISITION")
    assert (it.verdict, it.first_offset, it.last_offset) == ("note", 0, 9)
    assert ("was throttled" if why == "throttled" else "was not answered") in it.argument
    assert found(talk, "DELIVERY_COUNT_JUMP") == []


# -- ranges


def test_ranges_one_behind_the_other_are_well_formed() -> None:
    talk = Conversation()
    given(talk.member("a"), 0, (0, 4, 1), (5, 9, 2), (20, 20, 1))
    assert codes(talk) == []


def test_a_strict_limit_is_kept_by_each_partition() -> None:
    talk = Conversation()
    given(talk.member("a"), 0, (0, 4, 1), **STRICT)
    loose = {**STRICT, "share_acquire_mode": 0}
    given(talk.member("b"), 0, (10, 19, 1), **loose)
    assert codes(talk) == []


# -- the answer keys

NUMBERS = {54, 55} | {rule.number for rule in (*deliveries.ROWS, *delivery_counts.ROWS)}
NOT_YET = "locked records are not seen before they come again: then rule 86 stands at that answer"
AS_DUE = "the count follows the one before; on 4.1 it would not have"
HANDED = "the records were handed out, though their session is gone"
#: What its maker had in mind, and these packets do not show, by capture and request.
NOT_SHOWN = {
    ("adv-sessions-4.2.1", 213): AS_DUE,
    ("adv-sessions-4.2.1", 257): "these records were never delivered before",
    ("adv-sessions-4.2.1", 386): NOT_YET,
    ("adv-sessions-4.2.1", 399): NOT_YET,
    ("adv-races-4.1.2", 197): HANDED,
    ("adv-races-4.1.2", 209): NOT_YET,
    ("adv-races-4.1.2", 236): HANDED,
    ("adv-races-4.1.2", 251): NOT_YET,
    ("adv-races-4.1.2", 281): HANDED,
    ("adv-races-4.1.2", 299): NOT_YET,
    ("adv-races-4.1.2", 341): NOT_YET,
    ("adv-races-4.1.2", 343): NOT_YET,
    ("adv-races-4.1.2", 362): "a broker may take batches of no record for batches of one",
    ("adv-races-4.1.2", 377): "nothing is handed out",
    ("adv-races-4.1.2", 405): NOT_YET,
    ("adv-races-4.1.2", 407): NOT_YET,
    ("adv-races-4.1.2", 419): "4.1 had taken one delivery back, and the lost one makes up for it: rule 76 says so",
    ("adv-races-4.1.2", 431): NOT_YET,
    ("adv-races-4.1.2", 435): NOT_YET,
}


@pytest.mark.parametrize("name", ["adv-acks", "adv-epochs", "adv-sessions-4.2.1", "adv-races-4.1.2"])
def test_steps_of_the_answer_keys_are_told(name: str) -> None:
    assert untold(CAPTURES / f"{name}.pcap", NUMBERS) == [packet for capture, packet in NOT_SHOWN if capture == name]


# -- settings


@pytest.mark.parametrize(
    ("silent_s", "beats", "verdict"), [(4, False, "violation"), (10, False, "unknown"), (10, True, "violation")]
)
def test_a_silent_member_may_be_out_of_its_group(silent_s: float, beats: bool, verdict: str) -> None:
    """Then the group may be empty, and an administrator may reset its offsets on another host. How long a member may be
    silent is a setting; it is longer than the heartbeat interval."""
    talk = alone()
    a, b = holding(talk, (0, 9), lock_ms=60_000), talk.member("b", joined=False)
    talk.pause(silent_s)
    given(b, 0, (0, 9, 2), lock_ms=60_000)
    if beats:
        a.heartbeat(1).given(1)
    continue_session(a, 1)
    assert [finding.verdict for finding in found(talk, "OVERLAPPING_ACQUISITION")] == [verdict]


# -- a leader that moves away and back


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize("end", ["lock", "close"])
def test_another_leader_may_have_delivered_meanwhile(end: str, is_seen: bool, count: int) -> None:
    """It is on a host outside the capture. Only stored counts come back with the partition."""
    talk = Conversation()
    metadata(talk.connection(), {1: BROKER, 2: "10.0.0.8:9092"})
    a, b = talk.member("a"), talk.member("b")
    b.share_fetch(0, [0]).answered()
    given(a, 0, (0, 9, 2), lock_ms=2000)
    if end == "lock":
        talk.pause(2.5)
    else:
        a.share_fetch(-1).answered()
    if is_seen:
        b.share_fetch(1).answered(**led_elsewhere())
        talk.pause(1)
    for member in (a, b):
        member.heartbeat(1).given(1)
    given(b, 1 + is_seen, (0, 9, count), lock_ms=2000)
    continue_session(b, 2 + is_seen)
    if end == "lock":
        continue_session(a, 1)
    assert "violation" not in [verdict for _, verdict in codes(talk)]
