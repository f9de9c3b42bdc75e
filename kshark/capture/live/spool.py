"""Read the spool of the capture process: its records, and what it says on the socket.

The capture process (kshark.capture.live.child) writes records into files without a name, and passes each file through a
socket. A record is a header (kind, number of the interface, bytes after it, time) and, for a block, the kernel's bytes.
On the socket it sends "S" with a file, or a JSON object with an `event`: `ready`, `full` (the disk; the kernel drops
packets now), `room` (no longer), `ended`, `failed`. It receives "R" (a file was read) and "Q" (the capture ends).
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections import deque
from typing import Any, Final, NamedTuple

from kshark.capture.live.child import NEXT_RECORD, RECORD

#: A file descriptor in an ancillary message.
_FILE: Final = struct.Struct("=i")


class Record(NamedTuple):
    """A record of the spool: what the capture process saw, in its order."""

    kind: int
    interface: int
    time_ns: int
    data: bytes


class SpoolReader:
    """The records so far, and the messages. `read` and `heard` do not wait."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._files: deque[int] = deque()
        self._messages: deque[dict[str, Any]] = deque()
        self._at = 0
        #: True when the capture process has ended, or its end of the socket is closed.
        self.has_ended = False

    def fileno(self) -> int:
        """Return the socket, for `select.poll`."""
        return self._control.fileno()

    @property
    def waiting(self) -> int:
        """Return the bytes that are not read, of all files."""
        self._receive()
        return sum(os.fstat(file).st_size for file in self._files) - self._at

    def read(self, most: int = 1 << 32) -> Record | None:
        """Return the next record, None if it is not complete; of its data only the first `most` bytes."""
        self._receive()
        while self._files:
            header = os.pread(self._files[0], RECORD.size, self._at)
            if len(header) < RECORD.size:
                return None
            kind, interface, length, time_ns = RECORD.unpack(header)
            if kind == NEXT_RECORD:
                self._next()
                continue
            end = self._at + RECORD.size + length
            if os.fstat(self._files[0]).st_size < end:
                return None
            data = os.pread(self._files[0], min(length, most), self._at + RECORD.size)
            self._at = end
            return Record(kind, interface, time_ns, data)
        return None

    def heard(self) -> dict[str, Any] | None:
        """Return the next message, None without one."""
        self._receive()
        return self._messages.popleft() if self._messages else None

    def wait(self) -> dict[str, Any] | None:
        """Wait for a message; None if the capture process has ended."""
        while not self._messages and not self.has_ended:
            self._receive(0)
        return self._messages.popleft() if self._messages else None

    def end(self) -> None:
        """Ask for the end of the capture."""
        self._say(b"Q")

    def close(self) -> None:
        """Close the files that were not read, and the socket: the capture process ends."""
        while self._files:
            os.close(self._files.popleft())
        self._control.close()

    def _next(self) -> None:
        os.close(self._files.popleft())
        self._at = 0
        self._say(b"R")

    def _say(self, what: bytes) -> None:
        try:
            self._control.send(what)
        except OSError:  # it has ended
            self.has_ended = True

    def _receive(self, flags: int = socket.MSG_DONTWAIT) -> None:
        while not self.has_ended:
            try:
                # not socket.recv_fds: before Python 3.13 it ignores the flags
                data, ancillary, _, _ = self._control.recvmsg(1 << 16, socket.CMSG_LEN(_FILE.size), flags)
            except BlockingIOError:
                return
            except OSError:
                data, ancillary = b"", []
            self._files.extend(_FILE.unpack(content)[0] for _, _, content in ancillary)
            if not data:
                self.has_ended = True
            elif data != b"S":
                self._messages.append(json.loads(data))
            if flags == 0:
                return
