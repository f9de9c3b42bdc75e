"""Findings that wait for their turn: what comes out is what went in, and it waits as a few bytes."""

from __future__ import annotations

import pickle
import tracemalloc
from random import Random

from kshark.analysis import PackedFindings, in_packet_order
from kshark.model import Finding, Witness


def finding(number: int, packet: int) -> Finding:
    """One of many, with what findings of a share session have."""
    text = (
        f"ShareFetch #{number} (epoch 5) was refused with INVALID_SHARE_SESSION_EPOCH (packets {packet - 1}, {packet})"
    )
    witness = [Witness(3, at, packet - 2, packet - 1) for at in (number - 1, number)]
    witness.insert(1, Witness(4, None, None, None, packet - 1, "closed"))
    return Finding(
        code="EPOCH_SKIP_AHEAD", rule=20, severity="error", verdict="violation", blame="client",
        time_ns=1_795_231_172 * 10**9 + number,
        packet=packet, flow=3, broker="10.0.0.9:9092", client="10.0.0.1:50000", group_id="orders",
        member_id=f"member-{number}",
        topic_id=None, partition=None, cause=(None, "skip_ahead")[number % 2], witness=witness, argument=f"{text}; "
            f"{text}",
        unknown_because=None, first_offset=-(1 << 63), last_offset=(1 << 63) - 1,
    )  # fmt: skip


def test_they_come_back_in_the_order_of_packets() -> None:
    random = Random(1)
    proved = [finding(number, packet) for number, packet in enumerate(random.choices(range(1, 40), k=100))]
    packed = PackedFindings(proved)
    assert [*packed] == in_packet_order(proved)
    assert [*packed] == [*packed]
    assert [*packed.since(60)] == in_packet_order(proved[60:])
    assert len(packed) == 100
    assert [*pickle.loads(pickle.dumps(packed))] == [*packed]
    assert [*PackedFindings()] == []


def test_what_is_changed_outside_stays_outside() -> None:
    packed = PackedFindings([finding(1, 1)])
    (one,) = packed
    one.witness[0].places = []
    assert [*packed] == [finding(1, 1)]


def test_a_finding_that_waits_takes_little_more_than_its_text() -> None:
    packed, count = PackedFindings(), 2_000
    proved = [finding(number, number) for number in range(count)]
    tracemalloc.start()
    try:
        packed.add(proved)
        each = tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
    assert each < len(proved[-1].argument) + 300, f"{each:.0f} bytes each"
