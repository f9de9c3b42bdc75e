"""Names of captures in the tables, and groups of captures that one task writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from itertools import count
from pathlib import PurePath
from typing import Final

from kshark.capture.files import sizes_of
from kshark.capture.paths import parted
from kshark.errors import UnreadableInput

#: A capture's name and its files.
Named = tuple[str, Sequence[str]]
#: Bytes of small captures for one task, so that they share Parquet files.
TASK_BYTES: Final = 512 << 20


def capture_names(captures: Sequence[Sequence[str]], taken: Set[str] = frozenset()) -> list[str]:
    """Return a name for each capture: `a.pcap`, or `a.pcap+2` for a capture of three files.

    Folders precede names that repeat. No name is one of those `taken`.

    >>> capture_names([["/x/a.pcap"], ["/y/a.pcap"], ["/x/b.pcap", "/x/c.pcap"]])
    ['x/a.pcap', 'y/a.pcap', 'b.pcap+1']
    """
    parts = [PurePath(parted(files[0])[0]).parts or ("-",) for files in captures]
    suffixes = [f"+{len(files) - 1}" if len(files) > 1 else "" for files in captures]
    kept = [1] * len(captures)

    def names() -> list[str]:
        return [
            "/".join(part[-keep:]).replace("//", "/") + suffix
            for part, keep, suffix in zip(parts, kept, suffixes, strict=True)
        ]

    while True:
        times = Counter(names())
        longer = [i for i, name in enumerate(names()) if (times[name] > 1 or name in taken) and kept[i] < len(parts[i])]
        if not longer:
            break
        for i in longer:
            kept[i] += 1
    chosen: list[str] = []
    used = {*taken}
    for name in names():
        numbered = (name if number == 1 else f"{name}#{number}" for number in count(1))
        chosen.append(next(candidate for candidate in numbered if candidate not in used))
        used.add(chosen[-1])
    return chosen


def grouped(captures: Sequence[Named], parallelism: int) -> list[list[Named]]:
    """Return the captures of each task: `parallelism` tasks, or more if each would get more than TASK_BYTES."""
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


def name_of_fault(error: UnreadableInput) -> str:
    """Return the name of the file that was left out, with which the message begins."""
    return PurePath(error.file or str(error).partition(": ")[0]).name
