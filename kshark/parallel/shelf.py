"""Memory that a process and the first one both see: the bytes of shares, and of results, are put there and not sent."""

from __future__ import annotations

import pickle
from itertools import accumulate, pairwise
from mmap import mmap
from typing import Any, Final, NamedTuple

#: Bytes of a place on the shelf; only what is used of it becomes real memory. What is larger is sent.
PLACE_BYTES: Final = 32 << 20
#: Bytes from which an object's buffer is put there.
WORTH_IT: Final = 1 << 14


class Lying(NamedTuple):
    """A share or a result, pickled without its large buffers: these lie in that place, one behind the other."""

    data: bytes
    place: int
    sizes: list[int]


class Shelf:
    """One way between two processes. `places` are used in turn: what was put can be looked at until so many more were put; with 0 places
    everything is sent whole.

    A buffer is put there where its owner made it a pickle.PickleBuffer, or pickles as one (numpy's arrays).
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._turn = 0
        self._memory = mmap(-1, places * PLACE_BYTES) if places else None

    def put(self, item: Any) -> Lying:
        """What stands for the item on its way."""
        if self._memory is None:
            return Lying(pickle.dumps(item, 5), 0, [])
        buffers: list[pickle.PickleBuffer] = []

        def lies_inside(buffer: pickle.PickleBuffer) -> bool:
            if buffer.raw().nbytes < WORTH_IT:
                return True
            buffers.append(buffer)
            return False

        data = pickle.dumps(item, 5, buffer_callback=lies_inside)
        sizes = [buffer.raw().nbytes for buffer in buffers]
        if sum(sizes) > PLACE_BYTES:
            return Lying(pickle.dumps(item, 5), 0, [])
        place, self._turn = self._turn, (self._turn + 1) % self._places
        at = place * PLACE_BYTES
        for buffer, size in zip(buffers, sizes, strict=True):
            self._memory[at : at + size] = buffer.raw()
            at += size
        return Lying(data, place, sizes)

    def taken(self, item: Lying) -> Any:
        """What was put, in the other process; its buffers lie on the shelf."""
        view = memoryview(self._memory or b"")
        ends = accumulate(item.sizes, initial=item.place * PLACE_BYTES)
        return pickle.loads(item.data, buffers=[view[a:z] for a, z in pairwise(ends)])
