"""Create one input in a separate process: `python -m benchmarks.making NAME BYTES FILE` (for benchmarks.inputs)."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from benchmarks.conversations import OLD_VERSIONS, ZSTD, converse
from benchmarks.inputs import SHARE
from benchmarks.places import CAPTURES
from benchmarks.repeating import continued, replicated
from benchmarks.wire import Wire

#: One segment in ten is late, by up to three places.
LATE: Final = 0.1
LATE_BY: Final = 3


def late(seed: int) -> Callable[[int], list[int]]:
    """Return orders in which one segment in ten is up to three places late; none is lost."""
    draw = random.Random(seed)

    def order(count: int) -> list[int]:
        return sorted(
            range(count), key=lambda place: place + (draw.randint(1, LATE_BY) + 0.5 if draw.random() < LATE else 0)
        )

    return order


def make(name: str, out: BinaryIO, size: int) -> None:
    """Write the input of that name, with about `size` bytes."""
    match name:
        case "old-versions":
            converse(Wire(out), OLD_VERSIONS, size)
        case "share-rpc":
            continued(CAPTURES / SHARE, Wire(out), size)
        case "zstd":
            converse(Wire(out), ZSTD, size)
        case "short-connections":
            replicated(CAPTURES / SHARE, out, size)
        case "one-flow":
            converse(Wire(out), replace(OLD_VERSIONS, connections=1), size)
        case "reordered":
            converse(Wire(out), OLD_VERSIONS, size, late(seed=1))
        case "large":
            wire = Wire(out)
            converse(wire, OLD_VERSIONS, size * 4 // 10)
            continued(CAPTURES / SHARE, wire, size * 5 // 10)
            converse(wire, ZSTD, size)
        case _:
            raise SystemExit(f"no input {name!r}")


def main() -> None:
    name, size, file = sys.argv[1:]
    with Path(file).open("wb") as out:
        make(name, out, int(size))


if __name__ == "__main__":
    main()
