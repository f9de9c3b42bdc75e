"""Captures in the tables: their names, and groups of them that one task writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from itertools import count
from pathlib import PurePath
from typing import Final

from kshark.capture.files import sizes_of
from kshark.capture.paths import parted

#: A capture's name and its files.
Named = tuple[str, Sequence[str]]
#: A task is given about so many bytes of small captures, so that they share files.
TASK_BYTES: Final = 512 << 20


def capture_names(captures: Sequence[Sequence[str]], taken: Set[str] = frozenset()) -> list[str]:
    """A name for each capture, which is one file or several read as one: `a.pcap`, `a.pcap+2`; folders stand before
    names that repeat.

    None is one of those `taken`.

    >>> capture_names([["/x/a.pcap"], ["/y/a.pcap"], ["/x/b.pcap", "/x/c.pcap"]])
    ['x/a.pcap', 'y/a.pcap', 'b.pcap+1']
    """
    parts = [PurePath(parted(files[0])[0]).parts or ("-",) for files in captures]
    others = [f"+{len(files) - 1}" if len(files) > 1 else "" for files in captures]
    kept = [1] * len(captures)

    def names() -> list[str]:
        return [
            "/".join(part[-keep:]).replace("//", "/") + more
            for part, keep, more in zip(parts, kept, others, strict=True)
        ]

    while True:
        times = Counter(names())
        longer = [i for i, name in enumerate(names()) if (times[name] > 1 or name in taken) and kept[i] < len(parts[i])]
        if not longer:
            break
        for i in longer:
            kept[i] += 1
    found: list[str] = []
    used = {*taken}
    for name in names():
        numbered = (name if number == 1 else f"{name}#{number}" for number in count(1))
        found.append(next(one for one in numbered if one not in used))
        used.add(found[-1])
    return found


def grouped(captures: Sequence[Named], parallelism: int) -> list[list[Named]]:
    """The captures of each task: as many tasks as run at a time, more where there is more than TASK_BYTES for each."""
    size = sizes_of([files for _, files in captures])
    share = min(-(-sum(size) // parallelism), TASK_BYTES)
    tasks: list[list[Named]] = []
    filled = share
    for capture, bytes in zip(captures, size, strict=True):
        if filled >= share:
            tasks.append([])
            filled = 0
        tasks[-1].append(capture)
        filled += bytes
    return tasks
