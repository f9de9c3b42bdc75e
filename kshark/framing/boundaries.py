"""Where messages begin again, in bytes that may start anywhere: behind a gap, or in a connection older than the
capture.

A place is certain when something confirms its header: the next header, the correlation id of the other direction, a
body that decodes. Until its frame is whole, a place at a segment's edge with a sound header is kept, however long that
frame is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from kshark import limits
from kshark.framing.recognition import (
    HEADER_BYTES,
    LEAST_ANSWER,
    Chain,
    Header,
    Witness,
    answers_from,
    bodies_told,
    header_at,
    requests_from,
)

_ANSWER: Final = Struct(">ii").unpack_from


class Boundary(NamedTuple):
    """Where a message begins; if that is not `sure`, it will be known when the bytes reach to `end`."""

    at: int
    end: int
    sure: bool


def next_request(
    data: bytes,
    edges: Sequence[int],
    last_id: int | None,
    client_id: bytes | None,
    witness: Witness,
    final: bool,
    other: bytes | None = None,
    chain_at_0: Chain | None = None,
) -> Boundary | None:
    """Where requests begin again; `edges` are the positions where TCP segments begin.

    In a connection that is known, three whole requests in a row are accepted; at a segment's edge one whose body
    decodes, one with the header of another behind it, or one that continues from `last_id` with the same client id. In
    one that is not, bodies must decode: of requests, or of answers to them in `other`, which is what the other side
    sent. All frames from there must be plausible up to the end of the bytes: frames inside a record's value would end
    with that value.
    `final`: no more bytes come. `chain_at_0`: the requests from the first byte on, if they are known.
    """
    kept: Boundary | None = None
    starts = edges if len(edges) == 1 else set(edges)
    for at in _request_places(data, edges, client_id):
        chain = chain_at_0 if at == 0 and chain_at_0 is not None else requests_from(data, at, witness.knows)
        if not chain.consistent or not chain.headers:
            continue
        first = chain.headers[0]
        by_edge = at in starts
        goes_on = (
            last_id is not None
            and 0 < first.correlation_id - last_id <= limits.IN_FLIGHT
            and first.client_id == client_id
        )
        if goes_on and (by_edge or chain.whole >= 2):
            return _leading(data, at, first, witness)
        if (
            chain.whole
            and _rising(chain.headers)
            and _confirmed(data, at, chain, witness, other, by_edge=by_edge, final=final)
        ):
            return _leading(data, at, first, witness)
        if by_edge and chain.whole and other is not None:
            return kept  # sound headers over other bodies: farther on a body may fit by chance
        if by_edge and not chain.whole and kept is None:
            kept = Boundary(at, first.end, False)
    return kept


def _rising(headers: Sequence[Header]) -> bool:
    """Whether they are one client's, each with a higher id than the one before."""
    return len(headers) == 1 or all(
        a.correlation_id < b.correlation_id and a.client_id == b.client_id for a, b in pairwise(headers)
    )


def _leading(data: bytes, at: int, first: Header, witness: Witness) -> Boundary:
    """The certain request at `at`, or the earliest one from which whole requests of the same client, with rising ids,
    lead up to it."""
    for place in reversed(_named_places(data[:at], first.client_id)):
        header = header_at(data, place, witness.knows)
        if (
            header is not None
            and header.end == at
            and header.correlation_id < first.correlation_id
            and header.client_id == first.client_id
        ):
            at, first = place, header
    return Boundary(at, first.end, True)


def _confirmed(
    data: bytes, at: int, chain: Chain, witness: Witness, other: bytes | None, *, by_edge: bool, final: bool
) -> bool:
    """Whether these are requests: the first is followed by others, or their bodies decode."""
    if other is None:
        first, second = (*chain.headers, None)[:2]
        assert first is not None
        if chain.whole >= 3 or (by_edge and final and first.telling):
            return True
        if (
            by_edge
            and second is not None
            and first.client_id
            and second.correlation_id - first.correlation_id <= limits.IN_FLIGHT
        ):
            return True
    return by_edge and bodies_told(chain, at, data, other or b"", witness) > 0


def _request_places(data: bytes, edges: Sequence[int], client_id: bytes | None) -> Sequence[int]:
    """Where a request may begin: segments' edges, and wherever the connection's client id stands."""
    return sorted({*edges, *_named_places(data, client_id)}) if client_id else edges


def _named_places(data: bytes, client_id: bytes | None) -> list[int]:
    """Where a header with that client id would begin."""
    places: list[int] = []
    if client_id:
        mark = len(client_id).to_bytes(2, "big") + client_id
        found = data.find(mark, HEADER_BYTES - 2)
        while found >= 0 and len(places) < limits.BOUNDARY_PLACES:
            places.append(found - HEADER_BYTES + 2)
            found = data.find(mark, found + 1)
    return places


def next_answer(data: bytes, edges: Sequence[int], open_ids: Sequence[int]) -> Boundary | None:
    """Where answers begin again: two answers to open requests in a row, the first of them whole, or one that reaches
    from a segment's edge to the end of the bytes; all frames from there must be plausible. Answers that lead up to them
    may belong to earlier requests."""
    kept: Boundary | None = None
    starts = set(edges)
    for at in _answer_places(data, edges, open_ids):
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


def _answer_places(data: bytes, edges: Sequence[int], open_ids: Sequence[int]) -> list[int]:
    """Where an answer may begin: segments' edges, and wherever an open request's correlation id stands."""
    places = {edge for edge in edges if edge < len(data)}
    for number in open_ids[: limits.BOUNDARY_PLACES]:
        mark = number.to_bytes(4, "big", signed=True)
        found = data.find(mark, 4)
        while found >= 0 and len(places) < limits.BOUNDARY_PLACES:
            places.add(found - 4)
            found = data.find(mark, found + 1)
    return sorted(places)


def _before(data: bytes, edges: Sequence[int], at: int, number: int) -> int:
    """The first edge from which whole answers lead to the one at `at`, with correlation ids that run on to its
    `number`."""
    for edge in edges:
        if edge >= at:
            break
        position, last = edge, None
        while position + 8 <= at:
            length, found = _ANSWER(data, position)
            if length < LEAST_ANSWER or (last is not None and found != last + 1):
                break
            position, last = position + 4 + length, found
        if position == at and last is not None and last + 1 == number:
            return edge
    return at


def open_at(ids: Collection[int], answered: int | None) -> list[int]:
    """Correlation ids of requests behind the one answered last; all of them where that one is not among them."""
    asked = list(ids)
    if answered in asked:
        return asked[len(asked) - asked[::-1].index(answered) :]
    return asked
