"""The machine that wrote a capture, as the section header of a pcapng file describes it.

Source: IETF draft-ietf-opsawg-pcapng, section 4.1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from kshark.capture.files import is_pipe
from kshark.capture.formats import MAGIC, ORDERS
from kshark.capture.interfaces import options
from kshark.capture.source import open_capture
from kshark.errors import UnreadableInput

#: Hardware, operating system, comment; and the bytes before the options.
_DESCRIBES: Final = (2, 3, 1)
_HEADER: Final = 24


def host_of(files: Sequence[str]) -> str | None:
    """Return the hardware, the operating system and the comment of the first section that names one of them.

    None if no file does: a pcap, a pipe, or a file that cannot be opened.
    """
    return next((host for file in files if not is_pipe(file) and (host := _host(file))), None)


def _host(file: str) -> str | None:
    try:
        capture = open_capture(file)
    except (OSError, UnreadableInput):
        return None  # the reader of the capture reports it
    capture.close()
    return described(capture.head)


def described(head: bytes) -> str | None:
    """Return the description in the first bytes of a capture."""
    order = ORDERS.get(head[8:12])
    if not head.startswith(MAGIC) or order is None:
        return None
    (size,) = struct.unpack_from(order + "I", head, 4)
    found = dict(reversed([*options(head, _HEADER, min(size - 4, len(head)), order)]))
    texts = [found[code].decode("utf-8", "backslashreplace").rstrip("\0") for code in _DESCRIBES if code in found]
    return "; ".join(filter(None, texts)) or None
