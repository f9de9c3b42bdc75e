"""Names of captures in the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from itertools import count
from pathlib import PurePath

from kshark.capture.paths import parted


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
