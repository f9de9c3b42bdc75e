"""Frames that are longer than usual: whether the bytes after a length are those of a request, and the first bytes of
frames that are not collected.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from kshark import limits
from kshark.framing.recognition import HEADER_BYTES, LEAST_REQUEST, Knows, is_name

_KEY: Final = Struct(">h").unpack_from
_HEADER: Final = Struct(">ihhih").unpack_from
#: Length and api key.
_KEY_END: Final = 6


class LongHead(msgspec.Struct, eq=False):
    """The beginning of a frame of `size` bytes that is not collected: its first packet and time, and its first bytes.

    `framed`: its bytes seen so far, with the length prefix. `wants`: more bytes belong to `head`.
    """

    size: int
    first_packet: int
    first_time_ns: int
    head: bytearray = msgspec.field(default_factory=bytearray)
    framed: int = 0
    wants: bool = True

    def add(self, data: bytes) -> None:
        """Take the next bytes of the frame, of which the first four ones are its length."""
        begin = max(0, 4 - self.framed)
        self.head += data[begin : begin + limits.HEAD_BYTES - len(self.head)]
        self.wants = len(self.head) < limits.HEAD_BYTES


def is_request(data: bytes, last_id: int | None, client_id: bytes | None, knows: Knows) -> bool | None:
    """True if the bytes begin with a sound header of a request, however long that request is; None if they are too few
    to decide.

    `last_id`, `client_id`: those of earlier requests of the connection. The API is known, or a request of the same
    client comes next, whose API may be of a vendor or of a newer release.
    """
    if len(data) < HEADER_BYTES:
        is_hopeless = last_id is None and len(data) >= _KEY_END and not knows(_KEY(data, 4)[0], 0)
        return False if is_hopeless else None
    length, key, version, correlation_id, size = _HEADER(data, 0)
    if length < LEAST_REQUEST + 2 or not -1 <= size <= length - 10:
        return False
    if HEADER_BYTES + size > len(data):
        return None
    own = None if size < 0 else data[HEADER_BYTES : HEADER_BYTES + size]
    follows = last_id is not None and own == client_id and 0 < correlation_id - last_id <= limits.IDS_APART
    return follows or (is_name(own) and knows(key, version))
