"""Compare the records of batches by their headers and checksums."""

from __future__ import annotations

from struct import Struct
from typing import Final

from kshark.records.batch import CHECKED_FROM, ProducedBatch
from kshark.records.crc import crc32c

#: The part of a header that the CRC-32C covers: attributes to count.
_CHECKED: Final = Struct(">hiqqqhii")
#: Fields that batches with the same records share: size, attributes, last offset delta, timestamps; and the count.
_ALIKE: Final = slice(3, 7)


def same_records(one: ProducedBatch, other: ProducedBatch) -> bool:
    """True if two batches with correct checksums hold the same records, as far as 32 bits show it.

    A CRC is linear: of two inputs that differ in the header alone, the checksums differ as those of the headers with
    zeros after them.
    """
    if one[1] != other[1] or one[_ALIKE] != other[_ALIKE] or one[10] != other[10]:
        return False
    checksum = crc32c()
    zeros = bytes(one[1] - CHECKED_FROM - _CHECKED.size)
    headers = (checksum(_CHECKED.pack(*batch[3:]) + zeros) for batch in (one, other))
    first, second = headers
    return first ^ second == one[2] ^ other[2]
