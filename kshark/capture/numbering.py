"""Map packets to their file, and their number there, when several files are read as one capture."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kshark.limits import NUMBERING_RUNS
from kshark.model import Finding, PacketBatch, PacketInFile, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

#: File and number in it, by packet number; None if unknown.
Locate = Callable[[int], tuple[str, int] | None]


class Numbering:
    """Map packet numbers to (file, frame), kept as runs of consecutive packets from one file.

    Files that do not overlap need one run each. Beyond `limit` runs the older half is forgotten.
    """

    def __init__(self, names: Sequence[str], limit: int = NUMBERING_RUNS) -> None:
        self.names = names
        self.forgotten = False
        self.limit = limit
        #: True if packets of a file were sorted by time, so that numbers differ from those in the file.
        self.is_sorted = False
        self._number, self._file, self._frame = array("q"), array("q"), array("q")

    def add(self, number: Int64s, file: Int64s, frame: Int64s) -> None:
        """Add packets in order of `number`: `file` is an index into the names."""
        begins = np.ones(len(number), bool)
        begins[1:] = (file[1:] != file[:-1]) | (number[1:] - frame[1:] != number[:-1] - frame[:-1])
        if self._number and self._file[-1] == file[0] and self._number[-1] - self._frame[-1] == number[0] - frame[0]:
            begins[0] = False
        self.is_sorted = self.is_sorted or bool((number != frame).any())
        for column, values in ((self._number, number), (self._file, file), (self._frame, frame)):
            column.frombytes(values[begins].astype(np.int64).tobytes())
        if len(self._number) > self.limit:
            self.forgotten = True
            for column in (self._number, self._file, self._frame):
                del column[: len(column) // 2]

    def weird(self, batch: PacketBatch) -> Weird:
        """Return the report that packets before this batch were forgotten."""
        detail = f"more than {self.limit} changes from file to file"
        return Weird("FRAME_NUMBERS_FORGOTTEN", "capture", int(batch.number[-1]), int(batch.time_ns[-1]), detail)

    def locate(self, number: int) -> tuple[str, int] | None:
        """Return (file name, frame number in that file) of a packet; None if it is unknown or forgotten."""
        at = bisect_right(self._number, number) - 1
        if at < 0:
            return None
        return self.names[self._file[at]], self._frame[at] + number - self._number[at]


def add_places(findings: Iterable[Finding], locate: Locate, logs: Container[str] = ()) -> None:
    """Set for each finding's witnesses the files that contain their packets; `logs` are those that are request logs."""
    for witness in (witness_of_finding for finding in findings for witness_of_finding in finding.witness):
        packets = [
            packet for packet in (witness.request_packet, witness.response_packet, witness.packet) if packet is not None
        ]
        witness.places = [
            PacketInFile(packet, *location, is_line=location[0] in logs)
            for packet in packets
            if (location := locate(packet)) is not None
        ]
