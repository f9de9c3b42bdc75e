"""Packet times that run backwards: disorder as far as they do, at the packet that shows it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from random import Random

from kshark.link import Link
from kshark.link.disorder import disorder_ns
from kshark.model import ACK
from tests.packets import START_NS, batch, tcp_packet


def disorder(times_us: Iterable[int], *, edges: Iterable[int] = ()) -> list[tuple[int, int | None]]:
    """Packet, and how far times run backwards from it on; the packets come in batches with these edges."""
    packets = [
        tcp_packet("10.0.0.1:1", "10.0.0.2:2", 0, 0, ACK, time_ns=START_NS + time_us * 1000) for time_us in times_us
    ]
    link, weirds = Link(), []
    for first, end in pairwise([0, *edges, len(packets)]):
        weirds += link.feed(batch(packets[first:end], first + 1))[1]
    return [(weird.packet, disorder_ns(weird)) for weird in weirds if weird.code == "TIME_DISORDER"]


def test_times_that_go_on_tell_nothing() -> None:
    assert disorder([0, 5, 5, 9]) == []


def test_how_far_times_run_backwards_is_told_when_it_grows_and_rounded_up() -> None:
    assert disorder([0, 100, 90, 95, 99, 200, 50, 51, 300, 160]) == [(3, 16_384), (7, 262_144)]  # 10 us, later 150 us


def test_it_never_tells_less_than_there_is_nor_twice_as_much() -> None:
    random = Random(5)
    times = [random.randrange(100_000) for _ in range(200)]
    steps = disorder(times, edges=[7, 50])
    assert steps == disorder(times)
    assert len(steps) < 20
    latest, known = times[0], 0
    for packet, time_us in enumerate(times, 1):
        latest = max(latest, time_us)
        known = max([known, *(ns or 0 for at, ns in steps if at == packet)])
        assert (latest - time_us) * 1000 < known or time_us == latest
    most = max((max(times[: at + 1]) - times[at]) * 1000 for at in range(len(times)))
    assert most < known <= 2 * most
