"""Numbers by key in a fixed room."""

from __future__ import annotations

import pickle

from kshark.ring import Ring


def test_what_was_put_is_taken_once() -> None:
    ring = Ring("qIb", 10)
    ring.put(3, 5, 0xFFFFFFFF, -1)
    ring.put(0, 1, 2, 3)
    assert ring.take(4) is None
    assert ring.take(3) == (5, 0xFFFFFFFF, -1)
    assert ring.take(3) is None
    assert ring.take(0) == (1, 2, 3)


def test_a_key_takes_the_room_of_another() -> None:
    ring = Ring("q", 10)
    ring.put(3, 1)
    ring.put(13, 2)
    assert ring.take(3) is None
    assert ring.take(13) == (2,)


def test_nothing_is_in_an_empty_one_and_a_copy_is_the_same() -> None:
    ring = Ring("q", 10)
    assert ring.take(0) is None
    ring.put(3, 1)
    assert pickle.loads(pickle.dumps(ring)).take(3) == (1,)
