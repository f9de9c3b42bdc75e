"""How much of one message's records is opened: what came in small is not made large without end."""

from __future__ import annotations

from kshark import limits


class Budget:
    """What is left for a message: `records` (batches, records and headers of records) and `bytes` that its batches may decompress to.

    Each records field adds to both by its `size`. (A class with slots: a struct's fields take four times as long to set.)
    """

    __slots__ = ("_bytes_given", "_records_given", "bytes", "records", "size")

    def __init__(self) -> None:
        self.size = self.records = self.bytes = self._records_given = self._bytes_given = 0

    def add(self, size: int) -> None:
        """The message has a field of so many bytes."""
        self.size = size = self.size + size
        records, room = limits.ANY_RECORDS + limits.RECORDS_PER_BYTE * size, limits.ANY_RECORD_BYTES + limits.RECORD_BYTES_PER_BYTE * size
        if records > limits.MESSAGE_RECORDS:
            records = limits.MESSAGE_RECORDS
        if room > limits.MESSAGE_RECORD_BYTES:
            room = limits.MESSAGE_RECORD_BYTES
        self.records += records - self._records_given
        self.bytes += room - self._bytes_given
        self._records_given = records
        self._bytes_given = room
