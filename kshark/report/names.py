"""Names of captures and files as a report shows them: without the folders of the machine that made it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import PurePath

from kshark.capture.paths import parted


def base_names(paths: Sequence[str]) -> list[str]:
    """Return the last part of each path, with a number where it repeats. Equal paths have one name.

    >>> base_names(["/home/me/a.pcap", "/tmp/a.pcap", "s3://bucket/b.pcap", "/tmp/a.pcap"])
    ['a.pcap', 'a.pcap#2', 'b.pcap', 'a.pcap#2']
    """
    names: dict[str, str] = {}
    used: set[str] = set()
    for path in paths:
        if path not in names:
            name = PurePath(parted(path)[0]).name or path
            numbered = (name if number == 1 else f"{name}#{number}" for number in count(1))
            names[path] = next(candidate for candidate in numbered if candidate not in used)
            used.add(names[path])
    return [names[path] for path in paths]
