"""The partition of `__share_group_state` that holds a share partition: the hash of its key, modulo their number.

Kafka: ShareCoordinatorService.partitionFor, SharePartitionKey.asCoordinatorKey, String.hashCode.
"""

from __future__ import annotations

from math import gcd
from struct import iter_unpack
from typing import Final

_BITS: Final = 0xFFFF_FFFF
_LEAST: Final = 1 << 31


def key_hash(group_id: str, topic_id: str, partition: int) -> int:
    """Return the hash of a share partition's key, which is not negative."""
    number = 0
    for (unit,) in iter_unpack(">H", f"{group_id}:{topic_id}:{partition}".encode("utf-16-be", "surrogatepass")):
        number = (31 * number + unit) & _BITS
    return number & (_LEAST - 1) if number <= _LEAST else _LEAST * 2 - number


class Placing:
    """The numbers of partitions that fit all keys so far: the divisors of one number, above each partition.

    The topic's number of partitions is not in a log, and a broker's setting (50 by default).
    """

    def __init__(self) -> None:
        #: 0: every number fits.
        self._multiple = 0
        self._highest = 0

    def fits(self, key: int, partition: int) -> bool:
        """Take a key's hash and the partition that holds it; return False if no number fits it and those before."""
        multiple, highest = gcd(self._multiple, key - partition), max(self._highest, partition)
        if 0 < multiple <= highest:
            return False
        self._multiple, self._highest = multiple, highest
        return True
