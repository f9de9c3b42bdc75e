"""Contents of records: keys and values of real producers, from two bundled captures, joined to larger values."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import kshark
from benchmarks.inputs import CONTENTS
from benchmarks.places import CAPTURES
from kshark.records.batch import Record

#: Bytes of text and of random bytes in turn: zstd halves them, as it halves the second capture's values.
TEXT: Final = 60
NOISE: Final = 30
START_MS: Final = 1_790_000_000_000


class Contents:
    """A deterministic source of records."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        found = [record for name in CONTENTS for record in _records(name)]
        self._keys = sorted({record["key"] for record in found if record["key"]})
        self._text = b"".join(sorted({record["value"] for record in found if record["value"]}))

    def records(self, count: int, value_bytes: Sequence[int]) -> list[Record]:
        """Create `count` records, 3 ms apart, with values of these sizes.

        Every tenth has a header, every twentieth no key.
        """
        draw, out = self._draw, []
        for n in range(count):
            headers = (("trace-id", b"%016x" % draw.getrandbits(64)),) if draw.random() < 0.1 else ()
            key = None if draw.random() < 0.05 else draw.choice(self._keys)
            out.append(Record(n, START_MS + n * 3, key, self._value(draw.choice(value_bytes)), headers))
        return out

    def _value(self, size: int) -> bytes:
        """Return pieces of different real values, with random bytes between them."""
        text, draw = self._text, self._draw
        pieces: list[bytes] = []
        held = 0
        while held < size:
            at = draw.randrange(len(text) - TEXT)
            pieces += (text[at : at + TEXT], draw.randbytes(NOISE))
            held += TEXT + NOISE
        return b"".join(pieces)[:size]

    def choose(self, options: Sequence[str]) -> str:
        return self._draw.choice(options)

    def between(self, low: int, high: int) -> int:
        return self._draw.randint(low, high)


def _records(name: str) -> Iterator[dict[str, Any]]:
    """Return the records of all Produce requests of a capture."""
    for message in kshark.read(CAPTURES / name):
        if message.api == "Produce" and message.kind == "request":
            for topic in message.body["topic_data"]:
                for partition in topic["partition_data"]:
                    for batch in partition["records"]["batches"]:
                        yield from batch["records"]
