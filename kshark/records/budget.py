"""Limit on the records that are opened for one message.

Without it, a small message could expand to any number of records or bytes.
"""

from __future__ import annotations

import msgspec

from kshark import limits


class Budget(msgspec.Struct, gc=False, eq=False):
    """The rest of a message's budget.

    `records` counts batches, records and headers of records; `bytes` is the size to which its batches may decompress.
    Each records field adds to both by its `size`, in bytes.
    """

    records: int = 0
    bytes: int = 0
    size: int = 0
    #: Records and bytes granted so far.
    granted: tuple[int, int] = (0, 0)

    def add(self, size: int) -> None:
        """Add the budget for a field of this many bytes."""
        self.size = size = self.size + size
        records, room = (
            limits.ANY_RECORDS + limits.RECORDS_PER_BYTE * size,
            limits.ANY_RECORD_BYTES + limits.RECORD_BYTES_PER_BYTE * size,
        )
        if records > limits.MESSAGE_RECORDS:
            records = limits.MESSAGE_RECORDS
        if room > limits.MESSAGE_RECORD_BYTES:
            room = limits.MESSAGE_RECORD_BYTES
        before = self.granted
        self.granted = records, room
        self.records += records - before[0]
        self.bytes += room - before[1]
