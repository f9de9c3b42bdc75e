"""Recognise a connection by its bytes: Kafka or not, which side is the client, where messages begin. Ports are not
used.

A request begins with a header that rarely matches by chance: a length in range, an api key and version that exist, a
client id that ends inside the frame. An answer has only a correlation id, so it is recognised by the requests of the
other direction. A response may look like a Produce request of a low version (its correlation id read as key and
version), so such a header alone proves nothing. Sources: Kafka protocol guide, "Request and Response Headers"; for
other protocols RFC 8446 section 5.1 and RFC 9112 section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple, Protocol

from kshark import limits
from kshark.model import Service

Knows = Callable[[int, int], bool]


class BodyChecker(Protocol):
    """Checks against Kafka's message definitions.

    `knows` is True if an api key and version exist. `asks` checks whether the frame between two positions has the body
    of a request, `answers` whether it has the body of an answer to a request of that key and version: 1 for, -1
    against.
    """

    def knows(self, key: int, version: int, /) -> bool: ...

    def asks(self, data: bytes, start: int, end: int, /) -> int: ...

    def answers(self, key: int, version: int, data: bytes, start: int, end: int, /) -> int: ...


_LENGTH: Final = Struct(">i").unpack_from
_HEADER: Final = Struct(">ihhih").unpack_from
_ANSWER: Final = Struct(">ii").unpack_from
_API: Final = Struct(">hh").unpack_from
#: Length, api key, version, correlation id and the client id's length.
HEADER_BYTES: Final = 14
#: The shortest request: ControlledShutdown v0 has no client id.
LEAST_REQUEST: Final = 8
LEAST_ANSWER: Final = 4
#: The length prefix, and what identifies a message: correlation id; of a request also api key and version.
REQUEST_HEAD: Final = 12
ANSWER_HEAD: Final = 8
_HTTP: Final = (
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"HTTP/",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"PRI * ",
)
_LONGEST_MARK: Final = max(map(len, _HTTP))
#: Content types of TLS records, and the bytes of a record's header. RFC 8446, section 5.1.
_TLS_TYPES: Final = (20, 21, 22, 23)
_TLS_HEADER: Final = 5
#: The number of requests whose bodies are checked.
BODIES: Final = 4
#: A shorter Produce request hardly has room for a batch; an answer full of zeros easily looks like one.
LEAST_PRODUCE: Final = 80
#: The api key that a correlation id below 65536 of an answer looks like.
_PRODUCE: Final = 0


class Header(NamedTuple):
    """A plausible request header; its frame ends at `end`, which may lie beyond the bytes."""

    end: int
    key: int
    version: int
    correlation_id: int
    client_id: bytes | None

    @property
    def telling(self) -> bool:
        """True if no answer looks like this header by chance."""
        return self.key != _PRODUCE


class Chain(NamedTuple):
    """Consecutive frames with plausible headers.

    `whole` is the number of whole frames; `consistent` is True if the bytes after them may still belong to a frame.
    """

    headers: Sequence[Header]
    whole: int
    consistent: bool


def foreign(head: bytes) -> Service | None:
    """Return the other protocol that begins with these bytes; None if they do not show it."""
    if (
        len(head) >= _TLS_HEADER
        and head[0] in _TLS_TYPES
        and head[1] == 3
        and head[2] <= 4
        and int.from_bytes(head[3:5], "big") <= 16640
    ):
        return "tls"
    if head.startswith(_HTTP):
        return "http"
    return "other" if _is_zookeeper(head) else None


def may_be_foreign(head: bytes) -> bool:
    """True if further bytes decide whether another protocol begins with these."""
    return len(head) < _LONGEST_MARK and (
        (head[0] in _TLS_TYPES and head[1:2] == b"\3" and len(head) < _TLS_HEADER)
        or any(mark.startswith(head) for mark in _HTTP)
    )


def _is_zookeeper(head: bytes) -> bool:
    """True if the bytes begin with ZooKeeper's ConnectRequest, which reads as a Produce request of version 0.

    Its fields: protocol version 0, last zxid, timeout, session id, a password of 16 bytes, and since 3.4 a read-only
    flag. Source: zookeeper.jute.
    """
    return len(head) >= 32 and _LENGTH(head)[0] in (44, 45) and head[4:8] == bytes(4) and _LENGTH(head, 28)[0] == 16


def header_at(data: bytes, at: int, knows: Knows) -> Header | None:
    """Return the request header at `at`; None if it is not plausible or not whole.

    A very long request must have a client id in plain text.
    """
    if at + HEADER_BYTES > len(data):
        return None
    length, key, version, correlation_id, size = _HEADER(data, at)
    if length < LEAST_REQUEST + 2 or not -1 <= size <= length - 10 or not knows(key, version):
        return None
    client_id = None if size < 0 else data[at + HEADER_BYTES : at + HEADER_BYTES + size]
    if length > limits.REQUEST_BYTES and not is_name(client_id):
        return None
    return Header(at + 4 + length, key, version, correlation_id, client_id)


def begins_request(data: bytes, size: int, knows: Knows, client_id: bytes | None = None) -> bool:
    """True if these bytes begin a request of `size` bytes, with its length prefix; the rest was cut off.

    `client_id`: the connection's, if it is known.
    """
    if len(data) < REQUEST_HEAD or _LENGTH(data)[0] + 4 != size or not knows(*_API(data, 4)):
        return False
    name = data[HEADER_BYTES:]
    if len(data) < HEADER_BYTES:
        return True
    length = int.from_bytes(data[HEADER_BYTES - 2 : HEADER_BYTES], "big", signed=True)
    if not -1 <= length <= size - HEADER_BYTES:
        return False
    name = name[: max(0, length)]
    return name.isascii() and (client_id is None or client_id.startswith(name))


def begins_answer(data: bytes, size: int, open_ids: Collection[int]) -> bool:
    """True if these bytes begin an answer of `size` bytes, with its length prefix, to one of these requests."""
    return len(data) >= ANSWER_HEAD and _LENGTH(data)[0] + 4 == size and _ANSWER(data)[1] in open_ids


def is_name(client_id: bytes | None) -> bool:
    """True if a client id is printable text, as nearly all clients send it, and none of other bytes does by chance."""
    try:
        return bool(client_id) and client_id is not None and client_id.decode().isprintable()
    except UnicodeDecodeError:
        return False


def requests_from(data: bytes, at: int, knows: Knows, most: int = 64) -> Chain:
    """Return the requests that follow each other from `at`; the last may end beyond the bytes."""
    headers: list[Header] = []
    whole = 0
    while len(headers) < most and at != len(data):
        header = header_at(data, at, knows)
        if header is None:
            return Chain(headers, whole, _may_begin_request(data[at : at + HEADER_BYTES], knows))
        headers.append(header)
        if header.end > len(data):
            return Chain(headers, whole, True)
        whole += 1
        at = header.end
    return Chain(headers, whole, True)


def _may_begin_request(rest: bytes, knows: Knows) -> bool:
    """True if fewer than HEADER_BYTES bytes may be the beginning of a request."""
    if len(rest) >= HEADER_BYTES:
        return False
    if len(rest) >= 4 and _LENGTH(rest)[0] < LEAST_REQUEST:
        return False
    return len(rest) < 8 or knows(*Struct(">hh").unpack_from(rest, 4))


def answers_from(data: bytes, at: int, open_ids: Collection[int], most: int = 64) -> tuple[int, bool, bool]:
    """Return how many whole answers to requests with these ids follow from `at`.

    Also True if nothing contradicts them, and True if the bytes end with them.
    """
    expected = set(open_ids)
    whole = 0
    while whole < most:
        if at + 8 > len(data):
            return (
                whole,
                at + 4 > len(data) or LEAST_ANSWER <= _LENGTH(data, at)[0] <= limits.ANSWER_BYTES,
                at == len(data),
            )
        length, correlation_id = _ANSWER(data, at)
        if not LEAST_ANSWER <= length <= limits.ANSWER_BYTES or correlation_id not in expected:
            return whole, False, False
        if at + 4 + length > len(data):
            return whole, True, False
        expected.discard(correlation_id)
        whole += 1
        at += 4 + length
    return whole, True, at == len(data)


def body_score(chain: Chain, at: int, data: bytes, other: bytes, checker: BodyChecker) -> int:
    """Score the bodies of the first requests, which begin at `at`, and of the answers to them in `other`.

    A body that fits its header adds 1, another body subtracts 1. A version that may not exist yet counts only if it
    fits.
    """
    score = 0
    for header in chain.headers[: min(chain.whole, BODIES)]:
        exists = checker.knows(header.key, header.version)
        if exists and (header.telling or header.end - at >= LEAST_PRODUCE):
            score += checker.asks(data, at + 4, header.end)
        span = answer_to(other, header.correlation_id) if other else None
        if span is not None:
            fit = checker.answers(header.key, header.version, other, *span)
            score += fit if exists else max(fit, 0)
        at = header.end
    return score


def answer_to(data: bytes, correlation_id: int, most: int = 8) -> tuple[int, int] | None:
    """Return start and end of the first whole answer with that correlation id, without its length prefix; None if
    absent.
    """
    at = 0
    for _ in range(most):
        if at + 8 > len(data):
            return None
        length, number = _ANSWER(data, at)
        if not LEAST_ANSWER <= length <= len(data) - at - 4:
            return None
        if number == correlation_id:
            return at + 4, at + 4 + length
        at += 4 + length
    return None


def lengths_from(data: bytes) -> tuple[int, bool]:
    """Return how many whole frames follow from the beginning by their lengths alone.

    Also True if the bytes end with a frame.
    """
    at = whole = 0
    while at + 8 <= len(data):
        length = _LENGTH(data, at)[0]
        if not LEAST_ANSWER <= length <= limits.ANSWER_BYTES or at + 4 + length > len(data):
            return whole, False
        whole += 1
        at += 4 + length
    return whole, at == len(data)


def answers_alone(data: bytes) -> bool:
    """True if these are answers without their requests: three whole frames or more with rising correlation ids."""
    whole, ends = lengths_from(data)
    if whole < 3 or not ends:
        return False
    ids, at = [], 0
    for _ in range(whole):
        length, correlation_id = _ANSWER(data, at)
        ids.append(correlation_id)
        at += 4 + length
    return all(0 < b - a <= 16 for a, b in pairwise(ids))
