"""Names of captures in the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath


def capture_names(captures: Sequence[Sequence[str]]) -> list[str]:
    """A name for each capture, which is one file or several read as one: `a.pcap`, `a.pcap+2`; folders stand before names that repeat.

    >>> capture_names([["/x/a.pcap"], ["/y/a.pcap"], ["/x/b.pcap", "/x/c.pcap"]])
    ['x/a.pcap', 'y/a.pcap', 'b.pcap+1']
    """
    parts = [PurePath(files[0]).parts or ("-",) for files in captures]
    others = [f"+{len(files) - 1}" if len(files) > 1 else "" for files in captures]
    kept = [1] * len(captures)

    def names() -> list[str]:
        return ["/".join(part[-keep:]).replace("//", "/") + more for part, keep, more in zip(parts, kept, others, strict=True)]

    while True:
        times = Counter(names())
        longer = [i for i, name in enumerate(names()) if times[name] > 1 and kept[i] < len(parts[i])]
        if not longer:
            break
        for i in longer:
            kept[i] += 1
    found, seen = [], Counter[str]()
    for name in names():
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return found
