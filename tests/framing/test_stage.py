"""Frames come out the same wherever a batch ends."""

from __future__ import annotations

import pytest

from kshark.model import Weird
from kshark.pipeline import Engine
from tests.packets import Tcp, Wire, batches
from tests.test_exchange import answer, metadata


@pytest.mark.parametrize("sizes", [[], [5], [5, 1], [5, 2], [5, 4], [5, 5], [1] * 20])
def test_an_impossible_length_is_told_once(sizes: list[int]) -> None:
    wire = Wire()
    tcp = Tcp(wire).open()
    tcp.client(metadata(1))
    tcp.broker(answer(1))
    tcp.client(b"\x7f\xff\xff\xff" * 5, mss=8)
    tcp.close()
    engine = Engine()
    pages = [page for part in batches(wire.packets, sizes) for page in engine.feed(part)] + list(engine.close())
    weirds = [event for page in pages for event in page if isinstance(event, Weird)]
    assert [(weird.code, weird.packet, weird.size) for weird in weirds] == [("FRAME_LENGTH_INVALID", 6, 4), ("BYTES_SKIPPED", 10, 20)]
