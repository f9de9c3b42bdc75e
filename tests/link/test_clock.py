"""The capture's clock: steps, silences and packets without a time, as TCP timestamps of the hosts show them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random

import pytest

from kshark.link import Link
from kshark.model import ACK, Weird
from tests.examples import as_many
from tests.packets import START_NS, Packet, batch, tcp_packet

MS = 1_000_000
SECOND = 1_000 * MS
CLIENT, BROKER, OTHER = "10.0.0.1:50000", "10.0.0.9:9092", "10.0.0.2:40000"
CLOCK = ("CLOCK_STEP", "CLOCK_STOPPED", "SILENCE_UNPROVED", "SILENCE_PROVED", "TIME_DISORDER")
Told = list[tuple[str, int, int | None, int | None]]


class Hosts:
    """Packets at times that go on; each direction has TCP timestamps that count by its own tick, or none."""

    def __init__(self, tick_ns: int | None = MS, ticks: dict[str, int] | None = None, begin: int = 7_000) -> None:
        self.packets: list[Packet] = []
        self._tick_ns, self._ticks, self._begin = tick_ns, ticks or {}, begin
        self._true_ns = self._off_ns = 0

    def send(self, source: str, target: str = BROKER, after_ns: int = MS) -> int:
        """A packet so long after the one before; returns its number."""
        self._true_ns += after_ns
        time_ns = START_NS + self._true_ns + self._off_ns
        tick_ns = self._ticks.get(source, self._tick_ns)
        packet = tcp_packet(source, target, 0, 0, ACK, time_ns=time_ns)
        if tick_ns is not None:
            tsval = (self._begin + self._true_ns // tick_ns) & 0xFFFFFFFF
            options = struct.pack(">BBBBII", 1, 1, 8, 10, tsval, 0)
            data = packet.data[:46] + bytes([8 << 4]) + packet.data[47:] + options
            data = data[:16] + (52).to_bytes(2, "big") + data[18:]
            packet = Packet(time_ns, data, len(data))
        self.packets.append(packet)
        return len(self.packets)

    def talk(self, seconds: float = 0.3, client: str = CLIENT) -> Hosts:
        for _ in range(int(seconds * 100)):
            self.send(client, BROKER, 5 * MS)
            self.send(BROKER, client, 5 * MS)
        return self

    def step(self, by_ns: int) -> Hosts:
        """The capture's clock is set."""
        self._off_ns += by_ns
        return self


def told(packets: Sequence[Packet], edges: Iterable[int] = ()) -> Told:
    link = Link()
    weirds = [
        weird
        for first, end in pairwise([0, *edges, len(packets)])
        for weird in link.feed(batch(packets[first:end], first + 1))[1]
    ]
    return of_clock(weirds)


def of_clock(weirds: Iterable[Weird]) -> Told:
    return sorted(
        (weird.code, weird.packet, weird.first_packet, weird.by_ns) for weird in weirds if weird.code in CLOCK
    )


def test_a_silence_that_timestamps_prove_says_nothing() -> None:
    hosts = Hosts().talk()
    hosts.send(CLIENT, after_ns=30 * SECOND)
    assert told(hosts.talk().packets) == []


def test_a_silence_without_timestamps_is_unproved() -> None:
    hosts = Hosts(None).talk()
    at = hosts.send(CLIENT, after_ns=30 * SECOND)
    assert told(hosts.talk().packets) == [("SILENCE_UNPROVED", at, at - 1, 30 * SECOND)]


def test_a_silence_is_proved_later_by_a_direction_that_was_seen_before() -> None:
    hosts = Hosts().talk()
    at = hosts.send(OTHER, after_ns=2 * SECOND)
    hosts.send(BROKER, OTHER)
    proof = hosts.send(CLIENT)
    assert told(hosts.packets) == [("SILENCE_PROVED", proof, at, None), ("SILENCE_UNPROVED", at, at - 1, 2 * SECOND)]


def test_one_direction_may_prove_several_silences() -> None:
    hosts = Hosts().talk()
    first = hosts.send(OTHER, after_ns=2 * SECOND)
    second = hosts.send("10.0.0.3:1", after_ns=3 * SECOND)
    proof = hosts.send(CLIENT)
    assert told(hosts.packets) == [
        ("SILENCE_PROVED", proof, first, None), ("SILENCE_PROVED", proof, second, None),
        ("SILENCE_UNPROVED", first, first - 1, 2 * SECOND), ("SILENCE_UNPROVED", second, second - 1, 3 * SECOND),
    ]  # fmt: skip


@pytest.mark.parametrize("by_s", [60.0, 1.5, -3.0])
def test_a_step_in_a_silence_is_known_when_two_directions_agree(by_s: float) -> None:
    by_ns = int(by_s * SECOND)
    hosts = Hosts().talk().step(by_ns)
    at = hosts.send(CLIENT, after_ns=10 * SECOND)
    shown = hosts.send(BROKER, CLIENT)
    assert told(hosts.talk().packets) == [
        ("CLOCK_STEP", shown, at - 1, by_ns), ("SILENCE_UNPROVED", at, at - 1, 10 * SECOND + by_ns)
    ]  # fmt: skip


def test_a_step_without_a_silence() -> None:
    hosts = Hosts().talk().step(20 * SECOND)
    at = hosts.send(CLIENT)
    shown = hosts.send(BROKER, CLIENT)
    assert told(hosts.talk().packets) == [
        ("CLOCK_STEP", shown, at - 1, 20 * SECOND), ("SILENCE_UNPROVED", at, at - 1, 20 * SECOND + MS)
    ]  # fmt: skip


def test_a_step_back_has_the_size_that_timestamps_give() -> None:
    hosts = Hosts().talk().step(-20 * SECOND)
    at = hosts.send(CLIENT, after_ns=5 * SECOND)
    assert told(hosts.talk().packets) == [("CLOCK_STEP", at, at - 1, -20 * SECOND)]


def test_a_step_back_without_timestamps_has_at_least_the_size_seen() -> None:
    hosts = Hosts(None).talk().step(-20 * SECOND)
    at = hosts.send(CLIENT, after_ns=5 * SECOND)
    assert told(hosts.talk().packets) == [("CLOCK_STEP", at, at - 1, -15 * SECOND)]


@pytest.mark.parametrize("tick_ns", [10 * MS, 4 * MS, 100 * MS, MS // 1_000, 17 * MS])
def test_a_host_with_another_tick_makes_no_step(tick_ns: int) -> None:
    hosts = Hosts(tick_ns).talk(1.0)
    hosts.send(CLIENT, after_ns=30 * SECOND)
    assert {code for code, *_ in told(hosts.talk().packets)} <= {"SILENCE_UNPROVED"}


def test_the_tick_is_learned_from_earlier_packets() -> None:
    hosts = Hosts(10 * MS).talk(1.2)
    hosts.send(CLIENT, after_ns=30 * SECOND)
    assert told(hosts.talk().packets) == []


def test_a_host_that_slept_makes_no_step() -> None:
    """The other host's clock went on."""
    hosts = Hosts().talk()
    at = hosts.send(CLIENT, after_ns=30 * SECOND)
    slept = Hosts().talk()
    slept.step(30 * SECOND).send(CLIENT)
    packets = [*hosts.packets[:-1], slept.packets[-1]]
    proof = hosts.send(BROKER, CLIENT)
    packets.append(hosts.packets[-1])
    assert [code for code, *_ in told(packets)] == ["SILENCE_PROVED", "SILENCE_UNPROVED"]
    assert told(packets)[0][1:3] == (proof, at)


def test_timestamps_wrap() -> None:
    hosts = Hosts(begin=(1 << 32) - 5_000).talk()
    hosts.send(CLIENT, after_ns=30 * SECOND)
    assert told(hosts.talk().packets) == []


def test_a_packet_with_a_nonsense_time_is_two_steps_and_no_time() -> None:
    hosts = Hosts(None).talk()
    packets = hosts.packets
    packets[20] = packets[20].at(0)
    found = told(packets)
    assert [(code, packet) for code, packet, *_ in found] == [
        ("CLOCK_STEP", 21),
        ("CLOCK_STEP", 22),
        ("CLOCK_STOPPED", 21),
    ]
    assert (found[0][3], found[1][3]) == (-packets[19].time_ns, packets[21].time_ns)


def test_a_file_without_times() -> None:
    packets = Hosts(None).talk().packets
    assert told([packet.at(0) for packet in packets]) == [("CLOCK_STOPPED", 1, 1, None)]
    assert told([packet.at(START_NS) for packet in packets]) == [("CLOCK_STOPPED", 32, 1, None)]


def test_it_is_the_same_however_packets_are_fed() -> None:
    random = Random(3)
    for _ in range(as_many(12)):
        hosts = Hosts(random.choice([None, MS, MS, 10 * MS]), {OTHER: 4 * MS})
        for _ in range(random.randrange(3, 8)):
            hosts.talk(random.choice([0.1, 0.3, 1.5]), random.choice([CLIENT, OTHER]))
            if random.random() < 0.5:
                hosts.step(random.choice([0, 3 * SECOND, 700 * MS]))
            hosts.send(random.choice([CLIENT, OTHER, "10.0.0.4:4"]), after_ns=random.choice([MS, 2 * SECOND]))
        packets = hosts.packets
        whole = told(packets)
        for _ in range(3):
            edges = sorted(random.sample(range(1, len(packets)), 4))
            assert told(packets, edges) == whole
        assert told(packets, range(1, len(packets))) == whole
