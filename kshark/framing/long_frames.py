"""Frames that are longer than usual: whether the bytes after a length are those of a message."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from kshark import limits
from kshark.framing.recognition import HEADER_BYTES, LEAST_REQUEST, Knows, is_name

_KEY: Final = Struct(">h").unpack_from
_ID: Final = Struct(">i").unpack_from
_HEADER: Final = Struct(">ihhih").unpack_from
#: Ends of the api key and of the correlation id.
_KEY_END: Final = 6
_ID_END: Final = 12


def is_request(data: bytes, last_id: int | None, client_id: bytes | None, knows: Knows) -> bool | None:
    """True if the bytes begin with a sound header of a request, however long that request is; None if they are too few
    to decide.

    `last_id`, `client_id`: those of earlier requests of the connection. The API is known and the client id is text; or
    a request of the same client comes next, whose API may be of a vendor or of a newer release.
    """
    if len(data) < HEADER_BYTES:
        return _may_be_request(data, last_id, knows)
    length, key, version, correlation_id, size = _HEADER(data, 0)
    own = data[HEADER_BYTES : HEADER_BYTES + max(size, 0)]
    is_same = (
        _follows(correlation_id, last_id)
        and size == (-1 if client_id is None else len(client_id))
        and (client_id or b"").startswith(own)
    )
    is_named = size > 0 and knows(key, version) and own.decode("utf-8", "replace").isprintable()
    if length < LEAST_REQUEST + 2 or size > length - 10 or not (is_same or is_named):
        return False
    if len(own) < size:
        return None
    return is_same or is_name(own)


def _may_be_request(data: bytes, last_id: int | None, knows: Knows) -> bool | None:
    """Return None if these bytes may be the beginning of a header, else False."""
    if len(data) < _KEY_END or knows(_KEY(data, 4)[0], 0):
        return None
    if len(data) < _ID_END:
        return False if last_id is None else None
    return None if _follows(_ID(data, 8)[0], last_id) else False


def _follows(correlation_id: int, last_id: int | None) -> bool:
    """True if a client that counts up uses this correlation id soon after the last one."""
    return last_id is not None and 0 < correlation_id - last_id <= limits.IDS_APART


def is_answer(data: bytes, open_ids: Iterable[int]) -> bool | None:
    """True if the bytes begin with the header of an answer to one of the requests, however long that answer is; None
    if they are too few to decide.
    """
    own = data[4:8]
    if not any(number.to_bytes(4, "big", signed=True).startswith(own) for number in open_ids):
        return False
    return True if len(own) == 4 else None
