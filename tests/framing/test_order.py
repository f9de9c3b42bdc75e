"""Events stand among the frames of a batch where the general comparison of positions puts them."""

from __future__ import annotations

import random

import numpy as np

from kshark.framing.timeline import EventPosition, Line, _lines
from kshark.model import Ends, Flow, Frames, Weird

_ON_TIME = 1 << 62


def frames_at(packets: list[int]) -> Frames:
    """One frame of a byte in each of these packets, all of one connection."""
    column, nothing = np.array(packets), np.zeros(len(packets), np.int64)
    position = np.arange(len(packets))
    flow = Flow(3, Ends("10.0.0.1:50000", "10.0.0.2:9092"), 1, 0)
    return Frames(
        bytes(len(packets)), [flow], [True], nothing, position, position + 1, column, column, column, column, nothing,
        nothing.astype(bool), nothing, nothing, nothing.astype(bool),
    )  # fmt: skip


def event_at(packet: int, *, after_frames: bool, late: bool) -> EventPosition:
    """An event that became known in this packet, `late` with a connection that others did not wait for."""
    weird = Weird("CODE", "framing", packet, packet)
    return EventPosition(packet, 3 if late else _ON_TIME, 0 if late else packet, after_frames, 3, weird)


def packets_of(lines: list[Line]) -> list[object]:
    """The packets of each part of the frames, and of each event."""
    return [line.last_packet.tolist() if isinstance(line, Frames) else getattr(line, "packet", None) for line in lines]


def test_where_nothing_waits_events_stand_where_the_comparison_of_positions_puts_them() -> None:
    draw = random.Random(1)
    for _ in range(200):
        frames = frames_at(sorted(draw.choices(range(1, 12), k=draw.randrange(1, 9))))
        due = [
            event_at(packet, after_frames=draw.random() < 0.5, late=draw.random() < 0.3)
            for packet in sorted(draw.choices(range(14), k=draw.randrange(6)))
        ]
        due.sort(key=lambda event: (event.known_at, event.late, event.packet, event.after_frames))

        at_once, compared = _lines(frames, frames.last_packet, due), _lines(frames, frames.last_packet.copy(), due)

        assert packets_of(at_once) == packets_of(compared)


def test_the_end_of_a_connection_stands_after_the_frames_of_its_packet() -> None:
    frames = frames_at([4, 5, 5, 6])

    lines = _lines(frames, frames.last_packet, [event_at(5, after_frames=False, late=False)])
    assert packets_of(lines) == [[4], 5, [5, 5, 6]]

    lines = _lines(frames, frames.last_packet, [event_at(5, after_frames=True, late=False)])
    assert packets_of(lines) == [[4, 5, 5], 5, [6]]
