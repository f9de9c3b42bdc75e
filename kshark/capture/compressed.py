"""gzip and zstd as streams: compressed pieces in, a limited number of bytes out, never a whole file in memory."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

from kshark.errors import UnreadableInput

READ_BYTES: Final = 1 << 18
#: Bytes decompressed at once; up to this many before damage may be lost.
STEP_BYTES: Final = 1 << 17


class Input(Protocol):
    """The source of a capture's bytes."""

    #: After the end, the fault of the bytes: a code of the catalogue and a sentence.
    fault: tuple[str, str] | None

    @property
    def bytes_read(self) -> int:
        """Bytes read from the file so far, as stored."""

    def read(self, size: int) -> bytes:
        """Return 1 to `size` bytes that are here without waiting for more; nothing at the end."""

    def is_idle(self, wait_ms: int) -> bool:
        """True if it is a pipe that gets no bytes for that time."""

    def close(self) -> None: ...


#: Returns a decompressor of one stream (gzip: member, zstd: frame), and the exception it raises on damage.
Make = Callable[[], tuple[Any, type[Exception]]]


class Gunzip:
    """zlib with the interface of the standard library's newer decompressors."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._has_more = False

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._has_more

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self._has_more = len(piece) == max_length
        return piece


def unzip() -> tuple[Any, type[Exception]]:
    """Return a decompressor of one gzip member, and its exception. RFC 1952."""
    return Gunzip(), zlib.error


def unzstd() -> tuple[Any, type[Exception]]:
    """Return a decompressor of one zstd frame, and its exception. RFC 8878; in the standard library from Python 3.14
    on.
    """
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise UnreadableInput("zstd-compressed, which needs a package here: pip install backports.zstd") from None
    return zstd.ZstdDecompressor(), zstd.ZstdError


#: First bytes of a compressed file, the format's name, its decompressor.
COMPRESSIONS: Final[dict[bytes, tuple[str, Make]]] = {
    b"\x1f\x8b": ("gzip", unzip),
    b"\x28\xb5\x2f\xfd": ("zstd", unzstd),
}


class Decompressed:
    """An input that decompresses another one, whose first bytes are `head`. Several streams in a row are read
    as one.
    """

    def __init__(self, compressed: Input, head: bytes, make: Make) -> None:
        self.fault: tuple[str, str] | None = None
        self._compressed = compressed
        self._make = make
        self._stream, self._error = make()
        self._head = head
        self._over = False

    @property
    def bytes_read(self) -> int:
        return self._compressed.bytes_read

    def read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        left = size
        while left > 0 and (piece := self._step(min(left, STEP_BYTES), wait=not pieces)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces) if len(pieces) != 1 else pieces[0]

    def is_idle(self, wait_ms: int) -> bool:
        return self._compressed.is_idle(wait_ms)

    def close(self) -> None:
        self._compressed.close()

    def _step(self, size: int, wait: bool) -> bytes:
        """Return at least one byte; nothing at the end, or if more input is needed and waiting is not allowed."""
        while not self._over:
            if self._stream.eof and not (wait and self._next_stream()):
                break
            data = b""
            if self._stream.needs_input:
                if not wait:
                    break
                data = self._input()
                if not data:
                    self._end("COMPRESSED_CUT", "the compressed data ends early")
                    break
            try:
                piece: bytes = self._stream.decompress(data, size)
            except self._error as error:
                self._end(
                    "COMPRESSED_INVALID", f"{error}; reading stops before byte {self.bytes_read} of the compressed file"
                )
                break
            if piece:
                return piece
        return b""

    def _input(self) -> bytes:
        data, self._head = self._head, b""
        return data or self._compressed.read(READ_BYTES)

    def _next_stream(self) -> bool:
        """Begin the next stream after the finished one; zero bytes between them are padding."""
        data = self._stream.unused_data.lstrip(b"\0")
        while not data:
            piece = self._compressed.read(READ_BYTES)
            if not piece:
                self._over = True
                return False
            data = piece.lstrip(b"\0")
        self._stream, self._error = self._make()
        self._head = data
        return True

    def _end(self, code: str, detail: str) -> None:
        self._over = True
        self.fault = (code, detail)
