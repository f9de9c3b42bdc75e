"""Find the next message boundary in bytes that may start anywhere: after a gap, or in a connection older than the
capture.

A boundary is certain when something confirms its header: the next header, the correlation id of the other direction, or
a body that decodes. A sound header at the edge of a segment stays a candidate until its frame is whole, however long
that frame is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from kshark import limits
from kshark.framing.recognition import (
    HEADER_BYTES,
    LEAST_ANSWER,
    BodyChecker,
    Chain,
    Header,
    answers_from,
    body_score,
    header_at,
    requests_from,
)

_ANSWER: Final = Struct(">ii").unpack_from


class Boundary(NamedTuple):
    """The position where a message begins. If it is not `sure`, it is decided when the bytes reach `end`."""

    at: int
    end: int
    sure: bool


def next_request(
    data: bytes,
    edges: Sequence[int],
    last_id: int | None,
    client_id: bytes | None,
    checker: BodyChecker,
    final: bool,
    other: bytes | None = None,
    chain_at_0: Chain | None = None,
) -> Boundary | None:
    """Return the next position where requests begin; None if there is none.

    `edges` are the positions where TCP segments begin.

    In a recognised connection (`other` is None), three whole requests in a row are accepted. At a segment's edge one
    request is enough if its body decodes, if the header of another request follows it, or if it continues from
    `last_id` with the same client id. In a connection that is not recognised, bodies must decode: those of the
    requests, or those of the answers to them in `other` (the bytes that the other side sent). All frames from the
    boundary on must be plausible up to the end of the bytes: frames inside a record's value would end with that value.

    `final`: no more bytes come. `chain_at_0`: the requests from the first byte on, if they are already parsed.
    """
    kept: Boundary | None = None
    starts = edges if len(edges) == 1 else set(edges)
    for at in _request_candidates(data, edges, client_id):
        chain = chain_at_0 if at == 0 and chain_at_0 is not None else requests_from(data, at, checker.knows)
        if not chain.consistent or not chain.headers:
            continue
        first = chain.headers[0]
        by_edge = at in starts
        continues = (
            last_id is not None
            and 0 < first.correlation_id - last_id <= limits.IDS_APART
            and first.client_id == client_id
        )
        if continues and (by_edge or chain.whole >= 2):
            return _leading(data, at, first, checker)
        if (
            chain.whole
            and _rising(chain.headers)
            and _confirmed(data, at, chain, checker, other, by_edge=by_edge, final=final)
        ):
            return _leading(data, at, first, checker)
        if by_edge and chain.whole and other is not None:
            return kept  # sound headers with unfitting bodies: a body farther on may fit by chance
        if by_edge and not chain.whole and kept is None:
            kept = Boundary(at, first.end, False)
    return kept


def _rising(headers: Sequence[Header]) -> bool:
    """True if one client sent them, each with a higher correlation id than the one before."""
    return len(headers) == 1 or all(
        a.correlation_id < b.correlation_id and a.client_id == b.client_id for a, b in pairwise(headers)
    )


def _leading(data: bytes, at: int, first: Header, checker: BodyChecker) -> Boundary:
    """Return the certain request at `at`, or the earliest request from which whole requests of the same client, with
    rising ids, lead up to it.
    """
    for candidate in reversed(_named_candidates(data[:at], first.client_id)):
        header = header_at(data, candidate, checker.knows)
        if (
            header is not None
            and header.end == at
            and header.correlation_id < first.correlation_id
            and header.client_id == first.client_id
        ):
            at, first = candidate, header
    return Boundary(at, first.end, True)


def _confirmed(
    data: bytes, at: int, chain: Chain, checker: BodyChecker, other: bytes | None, *, by_edge: bool, final: bool
) -> bool:
    """True if these are requests: other requests follow the first one, or their bodies decode."""
    if other is None:
        first, second = (*chain.headers, None)[:2]
        assert first is not None
        if chain.whole >= 3 or (by_edge and final and first.telling):
            return True
        if (
            by_edge
            and second is not None
            and first.client_id
            and second.correlation_id - first.correlation_id <= limits.IDS_APART
        ):
            return True
    return by_edge and body_score(chain, at, data, other or b"", checker) > 0


def _request_candidates(data: bytes, edges: Sequence[int], client_id: bytes | None) -> Sequence[int]:
    """Return the positions where a request may begin: edges of segments, and each occurrence of the connection's client
    id.
    """
    return sorted({*edges, *_named_candidates(data, client_id)}) if client_id else edges


def _named_candidates(data: bytes, client_id: bytes | None) -> list[int]:
    """Return the positions where a header with that client id would begin."""
    candidates: list[int] = []
    if client_id:
        mark = len(client_id).to_bytes(2, "big") + client_id
        hit = data.find(mark, HEADER_BYTES - 2)
        while hit >= 0 and len(candidates) < limits.BOUNDARY_CANDIDATES:
            candidates.append(hit - HEADER_BYTES + 2)
            hit = data.find(mark, hit + 1)
    return candidates


def next_answer(data: bytes, edges: Sequence[int], open_ids: Sequence[int]) -> Boundary | None:
    """Return the next position where answers begin; None if there is none.

    It needs two answers to open requests in a row, the first of them whole, or one answer that reaches from a segment's
    edge to the end of the bytes. All frames from there must be plausible. Answers directly before them, to earlier
    requests, are included.
    """
    kept: Boundary | None = None
    starts = set(edges)
    for at in _answer_candidates(data, edges, open_ids):
        whole, consistent, ends = answers_from(data, at, open_ids)
        if not consistent or at + 8 > len(data):
            continue
        length, number = _ANSWER(data, at)
        end = at + 4 + length
        if whole >= 2 or (whole == 1 and at in starts and (ends or end + 8 <= len(data))):
            return Boundary(_before(data, edges, at, number), end, True)
        if at in starts and not whole and number in open_ids and kept is None:
            kept = Boundary(at, end, False)
    return kept


def _answer_candidates(data: bytes, edges: Sequence[int], open_ids: Sequence[int]) -> list[int]:
    """Return the positions where an answer may begin: edges of segments, and each occurrence of an open request's
    correlation id.
    """
    candidates = {edge for edge in edges if edge < len(data)}
    for number in open_ids[: limits.BOUNDARY_CANDIDATES]:
        mark = number.to_bytes(4, "big", signed=True)
        hit = data.find(mark, 4)
        while hit >= 0 and len(candidates) < limits.BOUNDARY_CANDIDATES:
            candidates.add(hit - 4)
            hit = data.find(mark, hit + 1)
    return sorted(candidates)


def _before(data: bytes, edges: Sequence[int], at: int, number: int) -> int:
    """Return the first edge from which whole answers lead to the answer at `at`; `at` itself if there is none.

    Their correlation ids must rise by one each up to `number`, the id of the answer at `at`.
    """
    for edge in edges:
        if edge >= at:
            break
        position, last = edge, None
        while position + 8 <= at:
            length, correlation_id = _ANSWER(data, position)
            if length < LEAST_ANSWER or (last is not None and correlation_id != last + 1):
                break
            position, last = position + 4 + length, correlation_id
        if position == at and last is not None and last + 1 == number:
            return edge
    return at


def open_at(ids: Collection[int], answered: int | None) -> list[int]:
    """Return the correlation ids of the requests after the one answered last; all ids if that one is not among them."""
    asked = list(ids)
    if answered in asked:
        return asked[len(asked) - asked[::-1].index(answered) :]
    return asked
