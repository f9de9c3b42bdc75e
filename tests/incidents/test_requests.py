"""Requests whose answers do not come: of one connection, or of a whole broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conversation import Asked, Conversation, Member, note, unknown
from tests.incidents.talks import incidents


class Group:
    """Three members on three hosts, each with a connection for its fetches and one for its heartbeats."""

    def __init__(self, talk: Conversation, *, rounds: int = 8) -> None:
        self.talk = talk
        self.members = [
            talk.member(name, connection=talk.connection(host=f"10.0.0.{number}"))
            for number, name in enumerate("abc", 1)
        ]
        self.beats = [
            member.on(talk.connection(host=f"10.0.0.{number}")) for number, member in enumerate(self.members, 1)
        ]
        self.epochs = [0, 0, 0]
        for _ in range(rounds):
            self.round()

    def fetch(self, number: int, **fields: int) -> Asked:
        epoch = self.epochs[number]
        self.epochs[number] += 1
        return self.members[number].share_fetch(epoch, [0] if epoch == 0 else [], **fields)

    def round(self) -> None:
        for number in range(3):
            self.fetch(number).answered()
            self.beats[number].heartbeat(1).given(1)
            self.talk.pause(0.05)

    def asks(self, seconds: float, *, with_beats: bool = True, **fields: int) -> list[Asked]:
        """Requests without an answer, for a time."""
        asked = [self.fetch(number, **fields) for number in range(3)]
        for number in range(3):
            self.talk.pause(seconds / 4)
            if with_beats:
                asked.append(self.beats[number].heartbeat(1))
        self.talk.pause(seconds / 4)
        return asked


def answer(asked: list[Asked]) -> None:
    for request in asked:
        if request.api == "ShareGroupHeartbeat":
            request.given(1)
        else:
            request.answered()


def test_a_silent_broker() -> None:
    talk = Conversation()
    group = Group(talk)
    last = talk.exchanges[-1]
    asked = group.asks(3)
    answer(asked)
    group.round()
    (found,) = incidents(talk)
    assert found == note("BROKER_SILENT", at=asked[0].sent)
    assert found.blame == "broker"
    assert found.until_packet == asked[0].packet
    assert last.packet < found.packet
    assert "with 6 requests open on 6 connections of 3 hosts" in found.argument
    assert "the process stood still, not the network" in found.argument


def test_requests_that_are_open_when_the_silence_begins() -> None:
    """It begins with the last answer."""
    talk = Conversation()
    group = Group(talk)
    waiting = [group.fetch(number) for number in range(2)]
    talk.pause(0.3)
    last = group.fetch(2).answered()
    beats = [group.beats[0].heartbeat(1)]
    for _ in range(4):
        talk.pause(0.5)
        beats.append(group.beats[1].heartbeat(1))
    answer(waiting + beats)
    assert incidents(talk) == [note("BROKER_SILENT", at=last)]


def test_each_silence_is_an_incident() -> None:
    talk = Conversation()
    group = Group(talk)
    for _ in range(3):
        answer(group.asks(2))
        group.round()
    assert [found.code for found in incidents(talk)] == ["BROKER_SILENT"] * 3


def test_a_silence_that_lasts_when_the_capture_ends() -> None:
    talk = Conversation()
    group = Group(talk)
    asked = group.asks(4)
    group.beats[0].heartbeat(1)
    (found,) = incidents(talk)
    assert found == note("BROKER_SILENT", at=asked[0].sent)
    assert found.until_packet is None


def short(talk: Conversation, group: Group) -> None:
    answer(group.asks(0.9))


def waits_by_right(talk: Conversation, group: Group) -> None:
    answer(group.asks(6, with_beats=False, max_wait_ms=8_000))


def one_connection(talk: Conversation, group: Group) -> None:
    asked = [group.fetch(0)]
    for _ in range(4):
        talk.pause(1)
        talk.connection(host="10.0.0.7", introduced=False)
    answer(asked)


def nobody_sent_anything(talk: Conversation, group: Group) -> None:
    """The capture or its host may have stood still."""
    asked = [group.fetch(number) for number in range(3)]
    talk.pause(5)
    answer(asked)


def another_connection_is_answered(talk: Conversation, group: Group) -> None:
    asked = [group.fetch(number) for number in range(2)]
    for _ in range(6):
        talk.pause(0.6)
        group.beats[0].heartbeat(1).given(1)
    answer(asked)


def throttled(talk: Conversation, group: Group) -> None:
    for number in range(3):
        group.fetch(number).answered(throttle_time_ms=4_000)
    answer(group.asks(3, with_beats=False))


def throttled_afterwards(talk: Conversation, group: Group) -> None:
    for request in group.asks(3, with_beats=False):
        request.answered(throttle_time_ms=3_000)


def joins(talk: Conversation, group: Group) -> None:
    """A join is stored before it is answered."""
    asked = [member.heartbeat(0, ["t"]) for member in group.members]
    for _ in range(3):
        talk.pause(1)
        talk.connection(host="10.0.0.7", introduced=False)
    answer(asked)


@pytest.mark.parametrize(
    "happens",
    [
        short,
        waits_by_right,
        one_connection,
        nobody_sent_anything,
        another_connection_is_answered,
        throttled,
        throttled_afterwards,
        joins,
    ],
)
def test_what_is_no_silence(happens: Callable[[Conversation, Group], None]) -> None:
    talk = Conversation()
    group = Group(talk)
    happens(talk, group)
    group.round()
    assert [found.code for found in incidents(talk) if found.code == "BROKER_SILENT"] == []


def test_a_slow_broker_is_not_silent() -> None:
    """It takes 0.3 s for each answer: ten times as much is usual trouble."""
    talk = Conversation()
    group = Group(talk, rounds=0)
    for _ in range(6):
        for number in range(3):
            beat = group.beats[number].heartbeat(1)
            talk.pause(0.3)
            beat.given(1)
            group.fetch(number).answered()
    answer(group.asks(2.5))
    assert incidents(talk) == []


def test_lost_packets_are_no_silence() -> None:
    """The requests are sent again and not acknowledged: the broker did not receive them."""
    talk = Conversation()
    group = Group(talk)
    asked = [group.fetch(number) for number in range(3)]
    for seconds in (0.2, 0.5, 1.0, 1.5):
        talk.pause(seconds)
        for request in asked:
            talk.wire.add(talk.wire.packets[request.sent - 1])
    answer(asked)
    assert "BROKER_SILENT" not in [found.code for found in incidents(talk)]


def test_answers_that_the_capture_lost_are_no_silence() -> None:
    talk = Conversation()
    group = Group(talk)
    for _ in range(40):
        group.round()
    lost = {packet for asked in talk.exchanges[60:] for packet in asked.answer_packets}
    assert [found for found in incidents(talk.without_packets(lost)) if found.verdict != "unknown"] == []


def test_a_step_of_the_clock_is_no_silence() -> None:
    """No TCP timestamp shows that the time passed."""
    talk = Conversation()
    talk.wire.stamped = False
    group = Group(talk)
    answer(group.asks(3))
    assert [found.verdict for found in incidents(talk)] == ["unknown"]


# -- one request


def overdue(talk: Conversation, member: Member, beats: Member, seconds: float, **fields: int) -> Asked:
    """A fetch that is open while heartbeats are answered."""
    asked = member.share_fetch(1, **fields)
    for _ in range(int(seconds)):
        talk.pause(1)
        beats.heartbeat(1).given(1)
    return asked


def start() -> tuple[Conversation, Member, Member]:
    talk = Conversation()
    member = talk.member("a")
    beats = member.on(talk.connection())
    for _ in range(20):
        beats.heartbeat(1).given(1)
    member.share_fetch(0, [0]).answered()
    return talk, member, beats


def test_a_request_that_is_open_when_the_capture_ends() -> None:
    """KAFKA-20505: the share path of the broker is stuck."""
    talk, member, beats = start()
    asked = overdue(talk, member, beats, 25)
    (found,) = incidents(talk)
    assert found == note("REQUEST_OVERDUE", at=asked)
    assert (found.blame, found.until_packet) == ("broker", None)
    assert "although it allows 0.5 s" in found.argument


def test_a_request_that_is_answered_late() -> None:
    talk, member, beats = start()
    asked = overdue(talk, member, beats, 12).answered()
    (found,) = incidents(talk)
    assert found == note("REQUEST_OVERDUE", at=asked.sent)
    assert found.until_packet == asked.packet


def test_nobody_is_blamed_where_the_host_got_no_other_answer_for_a_while() -> None:
    """An outage of the network: afterwards, the broker sends its answer again, with growing pauses."""
    talk, member, beats = start()
    asked = member.share_fetch(1)
    talk.pause(7)
    beats.heartbeat(1).given(1)
    talk.pause(5)
    asked.answered()
    (found,) = [it for it in incidents(talk) if it.code == "REQUEST_OVERDUE"]
    assert (found.verdict, found.blame) == ("note", "unknown")
    assert "does not show whether the broker or the network" in found.argument


def test_a_silence_that_one_host_saw_may_be_the_networks() -> None:
    """All its requests were acknowledged before it began: no later packet shows whether the network worked."""
    talk = Conversation()
    group = Group(talk)
    asked = [group.fetch(0), group.beats[0].heartbeat(1)]
    talk.pause(4)
    answer(asked)
    found = [it for it in incidents(talk) if it.code == "BROKER_SILENT"]
    assert [it.blame for it in found] in ([], ["unknown"])


def test_a_client_gives_up() -> None:
    talk, member, beats = start()
    asked = overdue(talk, member, beats, 40)
    member.connection.close()
    for _ in range(20):
        talk.pause(1)
        beats.heartbeat(1).given(1)
    (found,) = incidents(talk)
    assert found == note("REQUEST_OVERDUE", at=asked.sent)
    assert found.until_packet is not None
    assert "when its connection ended" in found.argument


def test_a_client_gives_up_with_a_reset() -> None:
    talk, member, beats = start()
    asked = overdue(talk, member, beats, 40)
    reset = member.connection.tcp.reset()
    beats.heartbeat(1).given(1)
    (found,) = incidents(talk)
    assert found == note("REQUEST_OVERDUE", at=asked.sent)
    assert found.until_packet == reset


def test_a_request_that_is_not_long_open() -> None:
    talk, member, beats = start()
    overdue(talk, member, beats, 9)
    assert incidents(talk) == []


def test_a_request_that_may_wait() -> None:
    talk, member, beats = start()
    overdue(talk, member, beats, 40, max_wait_ms=30_000).answered()
    assert incidents(talk) == []


def test_an_api_without_a_wait() -> None:
    for seconds, expected in ((28, []), (31, ["REQUEST_OVERDUE"])):
        talk, member, beats = start()
        asked = member.heartbeat(1)
        for _ in range(seconds):
            talk.pause(1)
            beats.heartbeat(1).given(1)
        asked.given(1)
        assert [found.code for found in incidents(talk)] == expected


def test_a_request_behind_others_counts_from_the_answer_before_it() -> None:
    talk, member, beats = start()
    asked = [member.share_fetch(1, max_wait_ms=8_000), member.share_fetch(2, max_wait_ms=8_000)]
    for request in asked:
        for _ in range(8):
            talk.pause(1)
            beats.heartbeat(1).given(1)
        request.answered()
    assert incidents(talk) == []


def test_a_throttled_client_waits() -> None:
    talk, member, beats = start()
    member.share_fetch(1).answered(throttle_time_ms=20_000)
    asked = member.share_fetch(2)
    for _ in range(22):
        talk.pause(1)
        beats.heartbeat(1).given(1)
    asked.answered()
    assert [found.code for found in incidents(talk)] == ["THROTTLED"]


def test_an_answer_that_a_quota_delayed() -> None:
    talk, member, beats = start()
    overdue(talk, member, beats, 20).answered(throttle_time_ms=20_000)
    assert [found.code for found in incidents(talk)] == ["THROTTLED"]


def test_a_long_answer_counts_from_its_first_byte() -> None:
    """A part of it came at once; the rest takes its time."""
    talk, member, beats = start()
    asked = member.share_fetch(1)
    whole = asked.answered(responses=[{"topic_id": "A" * 22, "partitions": []}] * 200).answer_packets
    rows = dict(talk.packets())
    assert len(whole) > 1
    for packet in whole[1:]:
        talk.wire.packets.remove(rows[packet])
    for _ in range(20):
        talk.pause(1)
        beats.heartbeat(1).given(1)
    for packet in whole[1:]:
        talk.wire.add(rows[packet])
    assert "REQUEST_OVERDUE" not in [found.code for found in incidents(talk)]


def test_the_network_lost_the_request() -> None:
    talk, member, beats = start()
    asked = member.share_fetch(1)
    for _ in range(25):
        talk.pause(1)
        beats.heartbeat(1).given(1)
        talk.wire.add(talk.wire.packets[asked.sent - 1])
    (found,) = incidents(talk)
    assert found == note("REQUEST_OVERDUE", at=asked.sent)
    assert found.blame == "network"


def test_a_hole_in_the_answers_hides_the_answer() -> None:
    talk, member, beats = start()
    asked = member.share_fetch(1)
    lost = asked.answered().answer_packets
    later = member.share_fetch(2)
    for _ in range(25):
        talk.pause(1)
        beats.heartbeat(1).given(1)
    later.answered()
    thinned = talk.without_packets([*lost, *later.answer_packets])
    assert [found for found in incidents(thinned) if found != unknown("REQUEST_OVERDUE", at=found.packet)] == []


def test_a_clock_that_may_have_been_stepped() -> None:
    talk, member, beats = start()
    talk.wire.stamped = False
    member.share_fetch(1)
    talk.pause(25)
    beats.heartbeat(1).given(1)
    (found,) = incidents(talk)
    assert (found.verdict, found.unknown_because) == ("unknown", "clock")


@pytest.mark.parametrize("seconds", [9, 25])
def test_a_capture_of_one_direction_shows_nothing(seconds: int) -> None:
    talk, member, beats = start()
    overdue(talk, member, beats, seconds)
    answers = {packet for asked in talk.exchanges for packet in asked.answer_packets}
    assert incidents(talk.without_packets(answers)) == []


def test_long_polls_are_not_a_slow_broker() -> None:
    """Fetches that wait for records, as they may, say nothing about the usual time."""
    talk = Conversation()
    group = Group(talk, rounds=1)
    for _ in range(6):
        asked = [group.fetch(number) for number in range(3)]
        talk.pause(0.5)
        answer(asked)
    answer(group.asks(3, with_beats=True))
    assert [found.code for found in incidents(talk)] == ["BROKER_SILENT"]
