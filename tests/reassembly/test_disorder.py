"""Packet times that run backwards: told as far as they do, at the packet that shows it."""

from __future__ import annotations

from random import Random

from kshark.model import Weird, disorder_ns
from tests.reassembly.conversation import CLIENT, Heard, Talk


def told(heard: Heard) -> list[tuple[int, int | None]]:
    """Packet, and how far times run backwards from it on."""
    return [(event.packet, disorder_ns(event)) for event in heard.events if isinstance(event, Weird) and event.code == "TIME_DISORDER"]


def sent_at(*times_us: int) -> Talk:
    """Segments with these times, in this order; two connections take turns."""
    talk = Talk().open()
    begin_ns = talk.time_ns
    for number, time_us in enumerate(times_us):
        talk.pair = number % 2
        talk.time_ns = begin_ns + time_us * 1000
        talk.client(b"abc")
    return talk


def test_times_that_go_on_tell_nothing() -> None:
    assert told(sent_at(0, 5, 5, 9).heard()) == []


def test_how_far_times_run_backwards_is_told_when_it_grows_and_rounded_up() -> None:
    heard = sent_at(0, 100, 90, 95, 99, 200, 50, 51, 300, 160).heard()
    assert told(heard) == [(6, 16_384), (10, 262_144)]  # 10 us, later 150 us
    assert [event.time_ns - heard.flows[0].first_time_ns for event in heard.events if isinstance(event, Weird)] == [3_090_000, 3_050_000]


def test_it_never_tells_less_than_there_is_nor_twice_as_much() -> None:
    random = Random(5)
    times = [random.randrange(1_000_000) for _ in range(200)]
    steps = told(sent_at(*times).fed([7, 50]))
    assert len(steps) < 20
    latest, known = times[0], 0
    for packet, time_us in enumerate(times, 4):
        latest = max(latest, time_us)
        known = max([known, *(ns or 0 for at, ns in steps if at == packet)])
        assert (latest - time_us) * 1000 <= known
    most = max((max(times[: at + 1]) - times[at]) * 1000 for at in range(len(times)))
    assert most <= known <= 2 * most


def test_a_copy_in_order_of_time_is_no_disorder() -> None:
    talk = Talk().open()
    for _ in range(5):
        talk.send(CLIENT, b"abc")
    assert told(talk.and_again(0.0025).heard()) == []
