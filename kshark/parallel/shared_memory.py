"""Memory that two processes share: large buffers of what they exchange are copied there once and need not go through a
pipe."""

from __future__ import annotations

import pickle
from itertools import accumulate, pairwise
from mmap import mmap
from typing import Any, Final, NamedTuple

#: Bytes of a slot; only what is used of it becomes real memory. An item with more is sent through the pipe.
SLOT_BYTES: Final = 32 << 20
#: A smaller buffer stays in the pickle.
LEAST_BYTES: Final = 1 << 14


class Stored(NamedTuple):
    """An item for the pipe: pickled without its large buffers, which stand in the ring's `slot` in this order, `sizes`
    in bytes."""

    data: bytes
    slot: int
    sizes: list[int]


class SharedRing:
    """Slots of shared memory for one direction between two processes, used in turn: a slot is overwritten `slots` items
    later.

    With 0 slots nothing is shared and items are pickled whole. A buffer goes to a slot where it is a
    pickle.PickleBuffer, or pickles as one, as numpy's arrays do (PEP 574: out-of-band buffers)."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._next = 0
        self._memory = mmap(-1, slots * SLOT_BYTES) if slots else None

    def store(self, item: Any) -> Stored:
        """Copies the item's large buffers into the next slot; what is returned goes through the pipe."""
        if self._memory is None:
            return Stored(pickle.dumps(item, 5), 0, [])
        buffers: list[pickle.PickleBuffer] = []

        def in_band(buffer: pickle.PickleBuffer) -> bool:
            if buffer.raw().nbytes < LEAST_BYTES:
                return True
            buffers.append(buffer)
            return False

        data = pickle.dumps(item, 5, buffer_callback=in_band)
        sizes = [buffer.raw().nbytes for buffer in buffers]
        if sum(sizes) > SLOT_BYTES:
            return Stored(pickle.dumps(item, 5), 0, [])
        slot, self._next = self._next, (self._next + 1) % self._slots
        at = slot * SLOT_BYTES
        for buffer, size in zip(buffers, sizes, strict=True):
            self._memory[at : at + size] = buffer.raw()
            at += size
        return Stored(data, slot, sizes)

    def load(self, stored: Stored) -> Any:
        """The item again, in the other process; its large buffers are views of the shared memory."""
        view = memoryview(self._memory or b"")
        ends = accumulate(stored.sizes, initial=stored.slot * SLOT_BYTES)
        return pickle.loads(stored.data, buffers=[view[a:z] for a, z in pairwise(ends)])
