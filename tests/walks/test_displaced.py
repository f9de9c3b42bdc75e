"""Packets stamped late, and put into the order of their times: two directions recorded by two clocks, queues that wait.
Nobody is accused of what only the recording did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random

import pytest

from kshark.limits import CLOCKS_NS
from kshark.link.disorder import disorder_ns, overlap
from kshark.model import ACK, SYN, Message, Weird
from kshark.pipeline import JUDGED, Engine, Options
from tests.conversation import registry
from tests.packets import Packet, Tcp, Wire, batch, batches
from tests.property.event_values import event_values
from tests.property.mangled import packets_of
from tests.shared import CAPTURES, sample_of
from tests.thinning import Whole, added, findings_in

#: Captures in which requests follow answers at once, on several connections.
BUSY = (
    "share-java-explicit", "share-java-explicit-4.1.2", "share-java-renew", "share-java-implicit-4.2.1",
    "share-librdkafka", "adv-acks",
    "adv-sessions-4.2.1", "adv-races-4.1.2", "adv-frames", "share-restart", "share-leaders", "share-loss",
)  # fmt: skip
MS = 1_000_000
#: How late packets are stamped: by two clocks of one host, and by those of several.
NEAR = [*product(BUSY, (MS // 20, MS // 3, 2 * MS, 10 * MS))]
FAR = [*product(BUSY, (5 * MS, 40 * MS, 100 * MS, 400 * MS))]
Late = Callable[[int], int]


def one_direction(which: int, by_ns: int) -> Late:
    return lambda path: by_ns if path >= 0 and path & 1 == which else 0


def some(random: Random, share: float, most_ns: int) -> Late:
    return lambda path: random.randrange(most_ns) if random.random() < share else 0


def each_direction(random: Random, most_ns: int) -> Late:
    by: dict[int, int] = {}
    return lambda path: by.setdefault(path, random.randrange(most_ns))


def ways(by_ns: int) -> Iterator[Late]:
    yield one_direction(0, by_ns)
    yield one_direction(1, by_ns)
    for random in (Random(1), Random(2)):
        yield some(random, 1, by_ns)
        yield some(random, 0.05, by_ns)
        yield each_direction(random, by_ns)


def stamped(capture: Path, late: Late) -> list[Packet]:
    rows = zip(packets_of(capture), Whole.load(capture).path.tolist(), strict=True)
    return sorted((packet.at(packet.time_ns + late(path)) for packet, path in rows), key=lambda packet: packet.time_ns)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("case", sample_of(NEAR, 12, seed=6), ids=lambda case: f"{case[0]} {case[1]}")
def test_nobody_is_accused_of_what_clocks_did(case: tuple[str, int]) -> None:
    name, by_ns = case
    capture = CAPTURES / f"{name}.pcap"
    found = findings_in([batch(packets_of(capture))])
    for late in ways(by_ns):
        assert added(found, findings_in([batch(stamped(capture, late))])) == []


def taps(capture: Path, by_ns: int) -> Iterator[Late]:
    """At each client's host a clock of its own, or at each broker's."""
    ends, asked = Whole.load(capture).ends, dict[frozenset[str], tuple[str | None, str]]()
    for page in Engine(JUDGED, registry()).pages([batch(packets_of(capture))]):
        for event in page:
            if isinstance(event, Message) and event.kind == "request":
                asked.setdefault(frozenset((event.client, event.broker)), (event.client_id or None, event.broker))
    for random, which in ((Random(1), 0), (Random(2), 0), (Random(1), 1), (Random(2), 1)):
        by: dict[str | None, int] = {}

        def late(path: int, random: Random = random, which: int = which, by: dict[str | None, int] = by) -> int:
            if path < 0:
                return 0
            return by.setdefault(asked.get(frozenset(ends[path >> 1]), (None, ""))[which], random.randrange(by_ns))

        yield late


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("case", sample_of(FAR, 12, seed=7), ids=lambda case: f"{case[0]} {case[1]}")
def test_nobody_is_accused_of_what_the_clocks_of_several_hosts_did(case: tuple[str, int]) -> None:
    """As captures of several hosts are read together, of which it is said that they overlap."""
    name, by_ns = case
    capture = CAPTURES / f"{name}.pcap"
    found = findings_in([batch(packets_of(capture))])
    for late in taps(capture, by_ns):
        assert added(found, findings_in([overlap(0, 0, CLOCKS_NS), batch(stamped(capture, late))])) == []


def displaced(by_s: float) -> list[Packet]:
    """The broker's packets are stamped so much later than the client's."""
    wire = Wire()
    tcp = Tcp(wire).open()
    for number in range(3):
        tcp.client(b"ask%d" % number)
        tcp.broker(b"say%d" % number)
        wire.pause(0.1)
    late = [packet.data[34:36] == (9092).to_bytes(2, "big") for packet in wire.packets]
    packets = [one.at(one.time_ns + int(by_s * 1e9) * is_late) for one, is_late in zip(wire.packets, late, strict=True)]
    return sorted(packets, key=lambda packet: packet.time_ns)


def test_what_was_acknowledged_before_it_came_is_told_with_how_late_it_is() -> None:
    events = [event for page in Engine().pages(batches(displaced(0.15), [])) for event in page]
    said = [event for event in events if isinstance(event, Weird) and event.code == "ACKED_UNSEEN"]
    assert {event.side for event in said} == {1}
    assert all(event.first_packet is not None and event.first_packet < event.packet for event in said)
    lags = [lag for event in said if (lag := disorder_ns(event)) is not None]
    assert lags == sorted({*lags}), "each time that it grows"
    assert 0.04e9 < lags[0] <= lags[-1] <= 2 * 0.15e9


@pytest.mark.parametrize("by_s", [0.0, 0.000_02, 0.02, 0.15])
def test_it_is_told_the_same_however_packets_are_fed(by_s: float) -> None:
    packets = displaced(by_s)
    whole = event_values(batches(packets, []))
    for size in (1, 2, 3, 5):
        assert event_values(batches(packets, [size] * len(packets))) == whole


def test_what_stands_before_the_handshake_is_not_what_was_sent_last() -> None:
    """A stray segment far ahead, then the answer to a SYN that was missed, and an acknowledgement of what comes behind
    it."""
    wire = Wire()
    tcp = Tcp(wire)
    tcp.seq[0] += 1_000_000
    tcp._send(0, ACK)
    tcp.seq[0] -= 1_000_000
    tcp._send(1, SYN | ACK)
    tcp.seq[0] += 3
    wire.pause(0.01)
    tcp._send(1, ACK)
    tcp.seq[0] -= 3
    wire.pause(0.01)
    for _ in range(9):
        tcp.client(b"abc")
        tcp.broker(b"def")
    fast, exact = (event_values(batches(wire.packets, []), Options(exact=exact)) for exact in (False, True))
    assert fast == exact
    assert any(isinstance(one, bytes) and b"ACKED_UNSEEN" in one for one in exact)
