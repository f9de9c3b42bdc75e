"""How much of one message's records is opened: what came in small is not made large without end."""

from __future__ import annotations

import msgspec

from kshark import limits


class Budget(msgspec.Struct, gc=False, eq=False):
    """What is left for a message: `records` (batches, records and headers of records) and `bytes` that its batches may
    decompress to.

    Each records field adds to both by its `size`.
    """

    records: int = 0
    bytes: int = 0
    size: int = 0
    #: Records and bytes given so far.
    given: tuple[int, int] = (0, 0)

    def add(self, size: int) -> None:
        """The message has a field of so many bytes."""
        self.size = size = self.size + size
        records, room = (
            limits.ANY_RECORDS + limits.RECORDS_PER_BYTE * size,
            limits.ANY_RECORD_BYTES + limits.RECORD_BYTES_PER_BYTE * size,
        )
        if records > limits.MESSAGE_RECORDS:
            records = limits.MESSAGE_RECORDS
        if room > limits.MESSAGE_RECORD_BYTES:
            room = limits.MESSAGE_RECORD_BYTES
        before = self.given
        self.given = records, room
        self.records += records - before[0]
        self.bytes += room - before[1]
