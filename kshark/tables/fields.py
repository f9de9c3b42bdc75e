"""Fields of decoded bodies. A field may be absent in this version, or missing in a damaged body."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import UNSET


def value(body: Any, name: str) -> Any:
    """Return a field's value; None if it is absent or null."""
    content = getattr(body, name, None)
    return None if content is UNSET else content


def each(body: Any, *names: str) -> Iterator[Any]:
    """Return the elements of an array; with several names, of an array inside an array's elements.

    Absent or null: no elements.
    """
    for element in value(body, names[0]) or ():
        if len(names) == 1:
            yield element
        else:
            yield from each(element, *names[1:])


def partitions(topics: Any) -> list[tuple[str | None, int | None]]:
    """Return (topic id, partition) pairs of an array of topics.

    Partitions are numbers or structures. Absent or null: no pairs.
    """
    pairs = []
    for topic in topics or ():
        topic_id = topic.topic_id
        for partition in topic.partitions or ():
            pairs.append((topic_id, partition if type(partition) is int else partition.partition_index))
    return pairs


@lru_cache(maxsize=4096)
def session_key(broker: str, group_id: str | None, member_id: str | None) -> int:
    """Return a signed 64-bit number for a share session (broker, group, member), the same on every engine."""
    text = "\0".join((broker, group_id or "", member_id or ""))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
