"""What a connection carries, told by its bytes: Kafka or not, which side is the client, where messages begin. Never by
ports.

A request begins with a header that is hard to hit by chance: a length that fits, an api key and version that exist, a
client id that ends inside the frame. An answer has a correlation id only, so it is told by linking with requests of the
other direction. A response may look like a Produce request of a low version (its correlation id read as key and
version): such a header alone is no witness. Source: Kafka protocol guide, "Request and Response Headers"; foreign
protocols: RFC 8446 section 5.1, RFC 9112 section 3."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple, Protocol

from kshark import limits
from kshark.model import Service

Knows = Callable[[int, int], bool]


class Witness(Protocol):
    """What is known of Kafka's messages: `knows` whether an api key and version exist; `asks` what the body of the
    frame between two positions tells of its being a request, `answers` of its being an answer to a request of that key
    and version: 1 for, -1 against."""

    def knows(self, key: int, version: int, /) -> bool: ...

    def asks(self, data: bytes, start: int, end: int, /) -> int: ...

    def answers(self, key: int, version: int, data: bytes, start: int, end: int, /) -> int: ...


_LENGTH: Final = Struct(">i").unpack_from
_HEADER: Final = Struct(">ihhih").unpack_from
_ANSWER: Final = Struct(">ii").unpack_from
#: Length, api key, version, correlation id and the client id's length.
HEADER_BYTES: Final = 14
#: The shortest request: ControlledShutdown v0 has no client id.
LEAST_REQUEST: Final = 8
LEAST_ANSWER: Final = 4
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
#: So many requests are looked at for what their bodies tell.
BODIES: Final = 4
#: A shorter Produce request has hardly room for a batch, and is easily an answer full of zeros.
LEAST_PRODUCE: Final = 80
#: An api key that an answer's correlation id below 65536 looks like.
_PRODUCE: Final = 0


class Header(NamedTuple):
    """A plausible request header; `end` is where its frame ends, in the same bytes or beyond them."""

    end: int
    key: int
    version: int
    correlation_id: int
    client_id: bytes | None

    @property
    def telling(self) -> bool:
        """Whether no answer looks like this by chance."""
        return self.key != _PRODUCE


class Chain(NamedTuple):
    """Consecutive frames with plausible headers; how many of them are whole; whether the bytes after them may still
    belong to a frame."""

    headers: Sequence[Header]
    whole: int
    consistent: bool


def foreign(head: bytes) -> Service | None:
    """The other protocol that begins with these bytes; None where they do not tell."""
    if (
        len(head) >= 5
        and head[0] in (20, 21, 22, 23)
        and head[1] == 3
        and head[2] <= 4
        and int.from_bytes(head[3:5], "big") <= 16640
    ):
        return "tls"
    if head.startswith(_HTTP):
        return "http"
    return "other" if _is_zookeeper(head) else None


def _is_zookeeper(head: bytes) -> bool:
    """Whether that begins with ZooKeeper's ConnectRequest (zookeeper.jute): it reads as a Produce request of version 0.

    Protocol version 0, last zxid, timeout, session id, a password of 16 bytes, and since 3.4 whether read-only will do.
    """
    return len(head) >= 32 and _LENGTH(head)[0] in (44, 45) and head[4:8] == bytes(4) and _LENGTH(head, 28)[0] == 16


def header_at(data: bytes, at: int, knows: Knows) -> Header | None:
    """The request header at `at`, None where it is not plausible or not whole."""
    if at + HEADER_BYTES > len(data):
        return None
    length, key, version, correlation_id, size = _HEADER(data, at)
    if (
        not LEAST_REQUEST + 2 <= length <= limits.REQUEST_BYTES
        or not -1 <= size <= length - 10
        or not knows(key, version)
    ):
        return None
    client_id = None if size < 0 else data[at + HEADER_BYTES : at + HEADER_BYTES + size]
    return Header(at + 4 + length, key, version, correlation_id, client_id)


def requests_from(data: bytes, at: int, knows: Knows, most: int = 64) -> Chain:
    """The requests that follow each other from `at`; the last may end beyond the bytes."""
    headers: list[Header] = []
    whole = 0
    while len(headers) < most:
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
    """Whether fewer than HEADER_BYTES may be the beginning of a request."""
    if len(rest) >= HEADER_BYTES:
        return False
    if len(rest) >= 4 and not LEAST_REQUEST <= _LENGTH(rest)[0] <= limits.REQUEST_BYTES:
        return False
    return len(rest) < 8 or knows(*Struct(">hh").unpack_from(rest, 4))


def answers_from(data: bytes, at: int, open_ids: Collection[int], most: int = 64) -> tuple[int, bool, bool]:
    """How many whole answers to requests with these ids follow from `at`, whether nothing contradicts, whether the
    bytes end there."""
    known = set(open_ids)
    whole = 0
    while whole < most:
        if at + 8 > len(data):
            return (
                whole,
                at + 4 > len(data) or LEAST_ANSWER <= _LENGTH(data, at)[0] <= limits.FRAME_BYTES,
                at == len(data),
            )
        length, correlation_id = _ANSWER(data, at)
        if not LEAST_ANSWER <= length <= limits.FRAME_BYTES or correlation_id not in known:
            return whole, False, False
        if at + 4 + length > len(data):
            return whole, True, False
        known.discard(correlation_id)
        whole += 1
        at += 4 + length
    return whole, True, at == len(data)


def bodies_told(chain: Chain, at: int, data: bytes, other: bytes, witness: Witness) -> int:
    """How many of the first requests, which begin at `at`, and of the answers to them in `other` have the body that
    their header announces; less those that have another. What is read of a version that may not exist yet counts only
    where it fits."""
    told = 0
    for header in chain.headers[: min(chain.whole, BODIES)]:
        known = witness.knows(header.key, header.version)
        if known and (header.telling or header.end - at >= LEAST_PRODUCE):
            told += witness.asks(data, at + 4, header.end)
        found = answer_to(other, header.correlation_id)
        if found is not None:
            answered = witness.answers(header.key, header.version, other, *found)
            told += answered if known else max(answered, 0)
        at = header.end
    return told


def answer_to(data: bytes, correlation_id: int, most: int = 8) -> tuple[int, int] | None:
    """From where to where the first whole answer with that correlation id lies, behind its length; None where there is
    none."""
    at = 0
    for _ in range(most):
        if at + 8 > len(data):
            return None
        length, found = _ANSWER(data, at)
        if not LEAST_ANSWER <= length <= len(data) - at - 4:
            return None
        if found == correlation_id:
            return at + 4, at + 4 + length
        at += 4 + length
    return None


def lengths_from(data: bytes) -> tuple[int, bool]:
    """How many whole frames follow from the beginning by their lengths alone, and whether the bytes end where one
    does."""
    at = whole = 0
    while at + 8 <= len(data):
        length = _LENGTH(data, at)[0]
        if not LEAST_ANSWER <= length <= limits.FRAME_BYTES or at + 4 + length > len(data):
            return whole, False
        whole += 1
        at += 4 + length
    return whole, at == len(data)


def answers_alone(data: bytes) -> bool:
    """Whether these are answers, the other direction unseen: three whole frames or more whose correlation ids run
    on."""
    whole, ends = lengths_from(data)
    if whole < 3 or not ends:
        return False
    ids, at = [], 0
    for _ in range(whole):
        length, correlation_id = _ANSWER(data, at)
        ids.append(correlation_id)
        at += 4 + length
    return all(0 < b - a <= 16 for a, b in pairwise(ids))
