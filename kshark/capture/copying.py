"""Read captures again, and copy the chosen packets as pcapng: the same bytes, times, interfaces and comments.

The packets of a capture of any size are not held: it is read once more, and only the chosen packets are written.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from kshark.capture.batches import chosen
from kshark.capture.captures import Captures
from kshark.capture.files import is_pipe
from kshark.capture.merge import LeftOut
from kshark.capture.origins import Option, Origins
from kshark.capture.pcapng_writer import PcapngWriter, comment_option
from kshark.capture.selection import Selection
from kshark.errors import UsageError
from kshark.link import Link
from kshark.model import PacketBatch, Segments

if TYPE_CHECKING:
    from kshark.model import Int64s

#: Comments to add, by packet number.
Comments = Mapping[int, Sequence[str]]
NO_COMMENTS: Final[Comments] = MappingProxyType({})
#: Restricts a batch to a period.
Clip = Callable[[PacketBatch], PacketBatch | None]

#: Client randoms of TLS connections: a line of a key log names its connection by one.
Randoms = Collection[str]
#: A TLS record with a ClientHello, and the position of its random.
_HANDSHAKE: Final = 0x16
_CLIENT_HELLO: Final = 1
_RANDOM: Final = slice(11, 43)
_LAST: Final = (1 << 62) - 1


class Copy:
    """One file that is written: packets in the order of the capture.

    `selection` None: all packets. `write` gets the bytes. `keys`: lines of a TLS key log, for the file's beginning;
    `randoms`: only secrets of these connections are written. `most`: bytes of packets, beyond which the file is given
    up (`is_too_long`). Afterwards `numbers` are those of the packets written, in order, and the attribute `randoms`
    those of the TLS connections that begin in them.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        selection: Selection | None = None,
        *,
        comments: Comments = NO_COMMENTS,
        keys: bytes = b"",
        randoms: Randoms | None = None,
        most: int | None = None,
    ) -> None:
        self.selection = selection
        self.is_too_long = False
        self._left = _LAST if most is None else most
        self.numbers = array("q")
        self.randoms: set[str] = set()
        self._write = write
        self._comments = comments
        self._keys = keys
        self._only = randoms
        self._writer: PcapngWriter | None = None
        #: True if secrets were written.
        self.has_secrets = False
        if selection is not None:
            selection.begin()

    def feed(
        self, batch: PacketBatch, rows: Int64s, origins: Origins, taken: list[tuple[int, tuple[Option, ...]]]
    ) -> None:
        """Write some rows of a batch, and the secrets that come with it."""
        secrets = own_keys(self._keys + batch.secrets, self._only)
        self._keys = b""
        if self._writer is None:
            self._writer = PcapngWriter(origins)
            self._write(self._writer.begin())
        if secrets:
            self.has_secrets = True
            self._write(self._writer.secrets(secrets))
        self._left -= int(batch.length[rows].sum())
        self.is_too_long = self._left < 0
        if len(rows) and not self.is_too_long:
            self.numbers.frombytes(batch.number[rows].astype(np.int64).tobytes())
            interfaces = np.array([taken[row][0] for row in rows.tolist()], np.int64)
            self._write(self._writer.packets(chosen(batch, rows), interfaces, self._options(batch, rows, taken)))

    def close(self, origins: Origins) -> None:
        """End the file; without packets it is a pcapng file without packets."""
        if self._writer is None:
            self._writer = PcapngWriter(origins)
            self._write(self._writer.begin())
        self._write(self._writer.statistics(origins.dropped))

    def _options(
        self, batch: PacketBatch, rows: Int64s, taken: list[tuple[int, tuple[Option, ...]]]
    ) -> dict[int, Sequence[Option]]:
        """Return the options of the packets that have some, by their place in `rows`, with the comments to add."""
        options: dict[int, Sequence[Option]] = {}
        for place, (row, number) in enumerate(zip(rows.tolist(), batch.number[rows].tolist(), strict=True)):
            added = self._comments.get(number, ())
            if added or taken[row][1]:
                options[place] = [*taken[row][1], *map(comment_option, added)]
        return options


def copy(
    paths: Sequence[str | Path],
    copies: Sequence[Copy],
    *,
    clip: Clip | None = None,
    left_out: LeftOut | None = None,
    chained: bool = False,
) -> None:
    """Read the captures as one, and write all copies. `clip`, `left_out` and `chained` as in the first reading."""
    origins = Origins()
    link = Link(pieces=[])
    last = max((_LAST if it.selection is None else it.selection.last for it in copies), default=0)
    for item in Captures(paths, left_out, origins=origins, chained=chained):
        batch = _clipped(item, clip) if isinstance(item, PacketBatch) else None
        if batch is None or not len(batch.number):
            continue
        segments, pieces = _segments(link, batch)
        taken = origins.take(batch)
        for one in copies:
            rows = (
                np.arange(len(batch.number))
                if one.selection is None
                else np.flatnonzero(one.selection.rows(batch, segments, pieces))
            )
            if (batch.secrets or len(rows)) and not one.is_too_long:
                one.feed(batch, rows, origins, taken)
                one.randoms.update(_randoms(segments, batch.number[rows]))
        if int(batch.number[0]) > last:
            break
    for one in copies:
        one.close(origins)


def need_files(paths: Iterable[str | Path], why: str) -> None:
    """Raise UsageError if a capture is a pipe, which cannot be read twice. `why`: the option that needs it."""
    pipes = [path for path in paths if is_pipe(path)]
    if pipes:
        name = "standard input" if str(pipes[0]) == "-" else f"{pipes[0]}, a pipe,"
        raise UsageError(f"{why} reads the capture twice, and {name} can be read only once; save it to a file first")


def own_keys(key_log: bytes, randoms: Randoms | None) -> bytes:
    """Return the lines of a key log that belong to connections with these client randoms; None: all lines."""
    if randoms is None or not key_log:
        return key_log
    lines = [line for line in key_log.splitlines() if _random_of(line) in randoms]
    return b"".join(line + b"\n" for line in lines)


def _clipped(batch: PacketBatch, clip: Clip | None) -> PacketBatch | None:
    return batch if clip is None else clip(batch)


def _segments(link: Link, batch: PacketBatch) -> tuple[Segments | None, list[int]]:
    """Return the segments of a batch, and the numbers of its packets that are fragments."""
    assert link.pieces is not None
    link.pieces.clear()
    segments, _ = link.feed(batch)
    return segments, link.pieces


def _random_of(line: bytes) -> str:
    words = line.split()
    return words[1].decode("ascii", "replace").lower() if len(words) == 3 else ""


def _randoms(segments: Segments | None, numbers: Int64s) -> Iterator[str]:
    """Yield the client randoms of TLS connections that begin in these packets."""
    if segments is None:
        return
    starts = np.frombuffer(segments.buffer, np.uint8)
    rows = np.flatnonzero((segments.length >= _RANDOM.stop) & np.isin(segments.packet, numbers))
    for row in rows[starts[segments.offset[rows]] == _HANDSHAKE].tolist():
        begin = int(segments.offset[row])
        if segments.buffer[begin + 5] == _CLIENT_HELLO:
            yield segments.buffer[begin + _RANDOM.start : begin + _RANDOM.stop].hex()
