"""CRC-32C (Castagnoli) in hardware: the checksum of record batches. Source: KIP-98; RFC 3720, appendix B.4."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


@cache
def crc32c() -> Callable[[bytes | memoryview], int]:
    """The function; imported when it is first asked for, because the import takes 20 ms."""
    from crc32c import crc32c as checksum

    return checksum
