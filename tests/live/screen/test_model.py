"""What the model of the screen counts, and what it forgets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kshark import limits
from kshark.analysis import Extent
from kshark.live.screen.causes import by_hurt
from kshark.live.screen.columns import Seen, seconds
from kshark.live.screen.holdings import by_member
from kshark.live.screen.rows import Row
from kshark.offset_ranges import OffsetRanges
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_NOT_FOUND, TOPIC, Conversation
from tests.incidents import test_requests
from tests.live.screen.playing import Playing, screen_of, talked
from tests.packets import batch

SECOND_NS = 1_000_000_000


def acquired(first: int, last: int, count: int = 1) -> dict[str, object]:
    """The fields of an answer that delivers records of partition 0."""
    records = [{"first_offset": first, "last_offset": last, "delivery_count": count}]
    partition = {"partition_index": 0, "records": b"", "acquired_records": records}
    return {"responses": [{"topic_id": TOPIC, "partitions": [partition]}], "acquisition_lock_timeout_ms": 5000}


def row_of(playing: Playing, name: str) -> Row:
    picture = playing.model.picture
    assert picture is not None
    (row,) = [row for row in picture.rows if (row.key.member_id or "").startswith(name)]
    return row


def test_requests_and_answers_of_a_member() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(epoch=0).answered()
    a.share_fetch(epoch=3).answered(INVALID_SHARE_SESSION_EPOCH)
    row = row_of(talked(talk), "a")
    assert [(it.api, it.epoch, it.error) for it in row.talks] == [
        ("ShareGroupHeartbeat", 0, 0),
        ("ShareFetch", 0, 0),
        ("ShareFetch", 3, 123),
    ]
    assert (row.client_id, row.epoch, row.refused, row.violations) == ("c1", 3, 1, 1)
    assert row.about == ("apache-kafka-java 4.3.1", "10.0.0.1:50001", "10.0.0.9:9092")


def test_a_request_without_an_answer_has_none() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(epoch=0)
    a.connection.close()
    assert row_of(talked(talk), "a").talks[-1].error is None


def test_an_incident_that_lasts_comes_first() -> None:
    """A broker that answers nobody is no finding until it answers again: the screen says so at once."""
    talk = Conversation()
    test_requests.Group(talk).asks(4)
    playing = talked(talk)
    picture = playing.status(playing.model.picture.now_ns + 2 * SECOND_NS) if playing.model.picture else None
    assert picture is not None
    first, *_ = by_hurt(picture.causes, picture.now_ns)
    assert (first.finding.code, first.lasts) == ("BROKER_SILENT", True)
    assert picture.verdicts.get("violation") is None
    assert "now   BROKER_SILENT" in screen_of(picture, (80, 24))


def test_only_the_last_requests_are_kept() -> None:
    talk = Conversation()
    a = talk.member("a")
    for epoch in range(40):
        a.share_fetch(epoch=epoch).answered()
    assert [it.epoch for it in row_of(talked(talk), "a").talks] == [*range(28, 40)]


def test_an_error_of_a_partition_is_a_refusal() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(epoch=0, partitions=[0]).answered(**acquired(0, 9))
    a.share_acknowledge(epoch=1, acks=[(0, 9, 1)]).answered(acks={0: 121})
    assert row_of(talked(talk), "a").refused == 1


def test_records_held_with_the_time_left_of_their_lock() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(epoch=0, partitions=[0]).answered(**acquired(0, 9))
    a.share_acknowledge(epoch=1, acks=[(0, 3, 1)]).answered()
    picture = talked(talk, after_s=2).model.picture
    assert picture is not None
    (holding,) = picture.holdings
    (held,) = holding.ranges
    assert (held.first_offset, held.last_offset, held.delivery_count) == (4, 9, 1)
    (row,) = picture.rows
    seen = Seen(picture, {}, 80)
    assert seen.held(row).records == picture.held[row.key.group].records == 6
    left_ns = seen.left_ns(row)
    assert left_ns is not None
    assert 2 * SECOND_NS < left_ns < 3 * SECOND_NS


def test_after_the_lock_nothing_is_held_for_certain() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(epoch=0, partitions=[0]).answered(**acquired(0, 9))
    picture = talked(talk, after_s=6).model.picture
    assert picture is not None
    assert by_member(picture.holdings) == {}


def test_records_delivered_again_and_expired_locks() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    a.share_fetch(epoch=0, partitions=[0]).answered(**acquired(0, 9))
    b.share_fetch(epoch=0, partitions=[0]).answered()
    talk.pause(7)
    b.share_fetch(epoch=1).answered(**acquired(0, 9, 2))
    playing = talked(talk)
    assert (row_of(playing, "a").expired, row_of(playing, "b").again) == (10, 10)


@pytest.mark.parametrize(("after_s", "is_late"), [(4, False), (11, False), (14, True)])
def test_a_heartbeat_is_late_after_two_and_a_half_intervals(after_s: int, is_late: bool) -> None:
    talk = Conversation()
    talk.member("a")
    playing = talked(talk, after_s=after_s)
    assert playing.model.picture is not None
    beat = row_of(playing, "a").beat
    assert beat is not None
    assert beat.is_late(playing.model.picture.now_ns) == is_late


def test_a_member_that_left_is_not_late_and_is_forgotten_after_a_minute() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(-1).given(-1)
    talk.member("b")
    playing = talked(talk, after_s=30)
    beat = row_of(playing, "a").beat
    assert beat is not None
    assert beat.left
    assert not beat.is_late(1 << 62)
    playing = talked(talk, after_s=90)
    assert playing.model.picture is not None
    assert [row.key.member_id for row in playing.model.picture.rows] == ["b".ljust(22, "A")]


def test_quiet_members_and_brokers_are_forgotten() -> None:
    talk = Conversation()
    talk.member("a")
    picture = talked(talk, after_s=599).model.picture
    assert picture is not None
    assert (len(picture.rows), picture.brokers) == (1, 1)
    picture = talked(talk, after_s=601).model.picture
    assert picture is not None
    assert (len(picture.rows), picture.brokers) == (0, 0)


def test_beyond_the_limit_the_one_without_a_request_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCREEN_MEMBERS", 2)
    talk = Conversation()
    a = talk.member("a")
    talk.member("b")
    a.share_fetch(epoch=0).answered()
    talk.member("c")
    picture = talked(talk).model.picture
    assert picture is not None
    assert [(row.key.member_id or "")[0] for row in picture.rows] == ["a", "c"]


def test_beyond_the_limit_the_oldest_causes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCREEN_CAUSES", 3)
    talk = Conversation()
    for name in "abcdefg":
        member = talk.member(name)
        member.share_fetch(epoch=0).answered()
        member.share_fetch(epoch=4).answered(INVALID_SHARE_SESSION_EPOCH)
        member.share_fetch(epoch=0).answered()
    picture = talked(talk).model.picture
    assert picture is not None
    assert len(picture.causes) == 3
    assert {(cause.finding.member_id or "")[0] for cause in picture.causes} <= {"e", "f", "g"}
    assert picture.verdicts == {"violation": 7, "note": 7}


def test_the_time_is_that_of_the_packets_judged_so_far() -> None:
    talk = Conversation()
    talk.member("a")
    playing = talked(talk)
    before = playing.model.picture
    assert before is not None
    late = playing.status(before.now_ns + 9 * SECOND_NS, delay_ns=9 * SECOND_NS)
    assert late.now_ns == before.now_ns
    assert playing.status(before.now_ns + 9 * SECOND_NS).now_ns == before.now_ns + 9 * SECOND_NS
    back = playing.status(before.now_ns)  # the computer's clock was set back
    assert back.now_ns == before.now_ns + 9 * SECOND_NS


def test_fetches_a_second() -> None:
    talk = Conversation()
    a = talk.member("a")
    for epoch in range(60):
        a.share_fetch(epoch=epoch).answered()
        talk.pause(0.248)
    playing = talked(talk)
    assert playing.model.picture is not None
    now_ns = playing.model.picture.now_ns
    assert row_of(playing, "a").fetches_per_second(now_ns) == pytest.approx(4, rel=0.1)
    assert row_of(playing, "a").fetches_per_second(now_ns + 60 * SECOND_NS) < 0.05


def test_packets_a_second_are_those_of_the_last_two_seconds() -> None:
    talk = Conversation()
    talk.member("a")
    playing = Playing()
    packets = batch([packet for _, packet in talk.packets()])
    playing.feed(packets)
    for step in range(30):
        playing.seen += 25
        picture = playing.status(int(packets.time_ns[-1]) + step * SECOND_NS // 4)
    assert picture.rate == 100


def test_a_picture_stays_as_it_was() -> None:
    """Pause shows it while the model goes on."""
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(epoch=0).answered()
    packets = batch([packet for _, packet in talk.packets()])
    cut = len(packets.number) // 2
    playing = Playing()
    for rows in (slice(0, cut), slice(cut, None)):
        columns = ("number", "time_ns", "link_type", "offset", "length", "wire_length")
        some: dict[str, np.ndarray] = {name: getattr(packets, name)[rows] for name in columns}
        playing.feed(replace(packets, **some))  # type: ignore[arg-type]
        picture = playing.status(int(packets.time_ns[-1]))
        if rows.start == 0:
            first, text = picture, repr(picture)
    assert repr(first) == text
    assert repr(picture) != text


def test_a_refused_heartbeat_is_a_refusal_and_does_not_leave() -> None:
    talk = Conversation()
    a = talk.member("a")
    a.heartbeat(-1).answered(SHARE_SESSION_NOT_FOUND)
    row = row_of(talked(talk), "a")
    assert row.refused == 1
    assert row.beat is not None
    assert not row.beat.left


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0.0"), (800_000_000, "0.8"), (12 * SECOND_NS, "12"), (119 * SECOND_NS, "119"), (180 * SECOND_NS, "3m"),
     (7_200 * SECOND_NS, "2h"), (400_000 * SECOND_NS, "4d")],
)  # fmt: skip
def test_times_fit_into_four_cells(ns: int, text: str) -> None:
    assert seconds(ns) == text


def test_lag_is_what_producers_appended_and_the_group_has_not_finished() -> None:
    talk = Conversation()
    a, b = talk.member("a"), talk.member("b")
    producer = talk.connection()
    asked = [{"topic_id": TOPIC, "partition_data": [{"index": 0, "records": b""}]}]
    answer = [{"topic_id": TOPIC, "partition_responses": [{"index": 0, "error_code": 0, "base_offset": 29}]}]
    producer.ask(0, "Produce", 13, {"acks": 1, "timeout_ms": 9, "topic_data": asked}).answered(None, responses=answer)
    a.share_fetch(epoch=0, partitions=[0]).answered(**acquired(4, 9))
    playing = talked(talk)
    # The start offset, which a share coordinator shows.
    playing.model._lags.extents = lambda: [Extent("g", 0, TOPIC, 0, 4, 10, 1, OffsetRanges())]
    assert playing.model.picture is not None
    picture = playing.status(playing.model.picture.now_ns + SECOND_NS)
    seen = Seen(picture, {}, 80)
    of_b, of_a = picture.rows
    assert of_b.key.member_id == b.member_id
    assert picture.lags[of_a.key.group, None] == 25
    assert (seen.lag(of_a), seen.lag(of_b)) == (25, None)


def test_without_the_end_of_a_partition_its_lag_is_unknown() -> None:
    talk = Conversation()
    talk.member("a").share_fetch(epoch=0, partitions=[0]).answered(**acquired(0, 9))
    picture = talked(talk).model.picture
    assert picture is not None
    assert Seen(picture, {}, 80).lag(picture.rows[0]) is None
