"""The spool between two processes: what one writes, the other reads, in files that vanish; it is bounded."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kshark.capture.live import child
from kshark.capture.live.spool import SpoolReader

pytestmark = pytest.mark.skipif(not hasattr(os, "writev"), reason="the spool is Linux's")
SEGMENT = 100


class Both(NamedTuple):
    """The two sides of a spool."""

    control: socket.socket
    writer: child.Spool
    reader: SpoolReader


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        yield Both(theirs, child.Spool(theirs, str(tmp_path), SEGMENT, 3), reader := SpoolReader(ours))
    reader.close()


def write(both: Both, *texts: bytes) -> None:
    for text in texts:
        assert list(both.writer.write(child.BLOCK_RECORD, 1, 7, text)) == []


def read(both: Both) -> list[bytes]:
    records = []
    while (record := both.reader.read()) is not None:
        assert (record.kind, record.interface, record.time_ns) == (child.BLOCK_RECORD, 1, 7)
        records.append(record.data)
    return records


def hear(both: Both) -> None:
    """The writer learns which files were read."""
    both.control.setblocking(False)
    while True:
        try:
            assert both.control.recv(1) == b"R"
        except BlockingIOError:
            return
        both.writer.release()


def test_what_is_written_is_read_in_its_order_across_files(both: Both, tmp_path: Path) -> None:
    texts = [bytes([65 + number]) * 60 for number in range(5)]
    write(both, *texts)

    assert both.reader.waiting > 0
    assert read(both) == texts
    assert (read(both), both.reader.waiting) == ([], 0)
    assert [*tmp_path.iterdir()] == [], "the files have no names"


def test_files_that_are_not_read_leave_no_room(both: Both) -> None:
    written = 0
    while both.writer.has_room:
        write(both, b"x" * 60)
        written += 1
    assert written == 6, "two records of a header and 60 bytes in each of three files"

    assert len(read(both)) == written
    hear(both)
    assert both.writer.has_room


def test_a_full_disk_makes_the_writer_wait_and_loses_nothing(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    real, pieces = os.writev, iter([4, OSError(errno.ENOSPC, "full"), OSError(errno.ENOSPC, "full"), 7])

    def writev(file: int, buffers: list[memoryview]) -> int:
        piece = next(pieces, None)
        if isinstance(piece, OSError):
            raise piece
        return os.write(file, b"".join(buffers)[:piece]) if piece else real(file, buffers)

    monkeypatch.setattr(os, "writev", writev)
    waits = []
    for error in both.writer.write(child.BLOCK_RECORD, 1, 7, b"y" * 50):
        waits.append(error.errno)
        assert both.reader.read() is None

    assert waits == [errno.ENOSPC, errno.ENOSPC]
    assert read(both) == [b"y" * 50]


def test_the_end_of_the_writer_is_seen_and_its_files_are_still_read(both: Both) -> None:
    write(both, b"last")
    child.send(both.control, "ended", unwritten=0)
    both.control.close()

    assert both.reader.wait() == {"event": "ended", "unwritten": 0}
    assert both.reader.wait() is None
    assert both.reader.has_ended
    assert read(both) == [b"last"]


def test_a_record_may_be_read_in_part(both: Both) -> None:
    write(both, b"0123456789", b"next")

    record = both.reader.read(4)
    assert record is not None
    assert record.data == b"0123"
    assert read(both) == [b"next"]
