"""Decide what a connection carries: its service and, for Kafka, which side is the client."""

from __future__ import annotations

from typing import Final

from kshark import limits
from kshark.endpoints import port_of
from kshark.framing.boundaries import Boundary, next_request
from kshark.framing.brokers import Brokers
from kshark.framing.recognition import (
    HEADER_BYTES,
    LEAST_REQUEST,
    BodyChecker,
    Chain,
    Header,
    Knows,
    answer_to,
    answers_alone,
    answers_from,
    begins_answer,
    begins_request,
    body_score,
    foreign,
    lengths_from,
    may_be_foreign,
    requests_from,
)
from kshark.framing.streams import UNSURE, Report, RequestLimit, Stream
from kshark.framing.waiting import NEVER
from kshark.model import Flow, Side

#: The other side's reaction to the first request.
ANSWERED: Final = 0
UNANSWERED: Final = -1
OTHERWISE: Final = -2

#: Only the side that opened the connection gets a score of this or more (_request_score); then the other side is not
#: checked.
FOR_OPENERS: Final = 6


class Conversation:
    """A connection while it is cut into frames: its two streams, and the state of its recognition."""

    __slots__ = ("_most", "_seen", "asked", "flow", "holed", "streams", "try_at")

    def __init__(self, flow: Flow, most: RequestLimit) -> None:
        self.flow = flow
        self._most = most
        self.streams = (Stream(flow, 0), Stream(flow, 1))
        #: True if it has a gap. Later packets decide when a gap is certain, so the broker that this connection shows is
        #: not used for other connections.
        self.holed = False
        self.try_at = 0
        #: Until it is recognised: side and correlation id of the last request that the snap length cut.
        self.asked: tuple[Side, int] | None = None
        #: Until the connection is recognised: the first piece that consists of whole requests, and these requests.
        self._seen: tuple[bytes, Chain] | None = None

    def requests(self, side: int, head: bytes, knows: Knows) -> Chain:
        """Return the requests that a side begins with.

        Whole requests are parsed once and kept, because each answer to them asks again.
        """
        if self._seen is not None and self._seen[0] is head:
            return self._seen[1]
        chain = requests_from(head, 0, knows)
        if self._seen is None and chain.whole and len(self.streams[side].data) == 1:
            self._seen = head, chain
        return chain

    def recognised(self) -> None:
        self._seen = None

    def settle(self, client: Side) -> None:
        """Mark the connection as Kafka, with that side as the client."""
        self.flow.service, self.flow.client_side = "kafka", client
        for stream in self.streams:
            stream.settle(stream.side == client, self._most)

    @property
    def is_kafka(self) -> bool:
        return self.flow.service == "kafka"

    @property
    def size(self) -> int:
        return self.streams[0].size + self.streams[1].size

    @property
    def searching(self) -> bool:
        """True if the next message boundary of a side is unknown."""
        return self.streams[0].searching or self.streams[1].searching

    def unclear(self, packet: int) -> tuple[int, int]:
        """Return by side the packet of the first byte that is not understood yet; NEVER if all bytes are understood.

        `packet` is the last packet read. Answers also wait for their requests, as long as the requests hold at most
        limits.HELD_BYTES.
        """
        client = self.flow.client_side
        unknown = self.flow.service == "unknown"
        first, second = (
            stream.ready[0] if stream.size and (unknown or stream.searching) and stream.ready[0] <= packet else NEVER
            for stream in self.streams
        )
        if first == second:
            return first, second
        earlier = first if first < second else second
        if unknown:
            return earlier, earlier
        if client is not None and self.streams[client].size <= limits.HELD_BYTES:
            return (first, earlier) if client == 0 else (earlier, second)
        return first, second


def judge(
    conversation: Conversation,
    checker: BodyChecker,
    brokers: Brokers,
    ports: frozenset[int],
    packet: int,
    report: Report,
    *,
    final: bool,
) -> None:
    """Set the flow's service and, for Kafka, its client side.

    The service stays unknown while the bytes do not decide it. `brokers`: ends known to be Kafka brokers; only ends
    identified before `packet` count. `final`: no more bytes come.
    """
    if conversation.size < conversation.try_at and not final:
        return
    streams = conversation.streams
    for stream in streams if streams[0].skip or streams[1].skip else ():
        stream.can_be_cut(report)
    heads = (streams[0].joined(), streams[1].joined())
    side = _forced(conversation.flow, ports)
    waits: list[tuple[Stream, Boundary | None]] = []
    others = foreign(heads[0]), foreign(heads[1])
    if side is None or others[0] == others[1]:
        service = others[0] or others[1]
        if service is not None:
            conversation.flow.service = service
            return
    elif not all(heads) and not final:
        return  # declared as Kafka, but one side sends another protocol: the other side's bytes decide
    if side is None:
        side = _client(conversation, heads, checker, final, waits)
    if side is None:
        side = _by_broker(conversation, heads, brokers, packet, checker, final)
    if side is not None:
        settle(conversation, side, checker)
        return
    for stream, boundary in waits:  # only now: if this is Kafka, the other side's bytes may begin an answer
        stream.wait_for(boundary, report)
    _leave_open(conversation, heads, checker, report)


def judge_cut(conversation: Conversation, side: Side, missing: int, checker: BodyChecker) -> None:
    """Recognise a connection by a packet of that side, of which the snap length cut off `missing` bytes.

    In a connection seen from its beginning the client's requests show it if the last one ends with the packet. In an
    older one a request that fills a packet shows it, and an answer to it that fills another.
    """
    flow, stream = conversation.flow, conversation.streams[side]
    if stream.begun:
        head = stream.joined()
        chain = requests_from(head, 0, checker.knows)
        at = chain.headers[chain.whole - 1].end if chain.whole else 0
        is_first = flow.opened_by == side and head[at + 4 : at + 6] != bytes(2)  # Produce is weak evidence
        if is_first and begins_request(head[at:], len(head) - at + missing, checker.knows):
            settle(conversation, side, checker)
            return
    data, asked = stream.data[-1], conversation.asked
    size = len(data) + missing
    if begins_request(data, size, checker.knows):
        conversation.asked = side, int.from_bytes(data[8:12], "big", signed=True)
    elif asked is not None and asked[0] != side and begins_answer(data, size, asked[1:]):
        settle(conversation, asked[0], checker)


def _leave_open(conversation: Conversation, heads: tuple[bytes, bytes], checker: BodyChecker, report: Report) -> None:
    """Mark the connection as another protocol if that is certain; else later bytes decide."""
    streams = conversation.streams
    if _certainly_other(conversation, heads, checker):
        conversation.flow.service = "other"
    elif streams[0].is_dear or streams[1].is_dear:
        _look_again(conversation, report)


def _look_again(conversation: Conversation, report: Report) -> None:
    """Defer the next check of a connection with many undecided bytes.

    The next check comes after half as many bytes more, or when the frame that may begin in them is whole. Bytes that
    are not requests at the beginning may still hold requests farther on.
    """
    for stream in conversation.streams:
        if stream.is_too_much and stream.awaited <= stream.size:
            stream.lost = True
            stream.wait_for(None, report)
    missing = [stream.awaited - stream.size for stream in conversation.streams if stream.awaited > stream.size]
    conversation.try_at = conversation.size + min(conversation.size >> 1, *missing, limits.SEARCH_BYTES)


def settle(conversation: Conversation, client: Side, checker: BodyChecker) -> None:
    conversation.settle(client)
    for stream in conversation.streams:
        if not stream.begun:
            if stream.by_client and conversation.requests(stream.side, stream.joined(), checker.knows).whole:
                stream.searching, stream.unsure = False, UNSURE
            else:
                stream.search()
                stream.untouched = not stream.size
    conversation.recognised()


def _forced(flow: Flow, ports: frozenset[int]) -> Side | None:
    """Return the client side if the user declared the other side's port as Kafka; else None."""
    for side in (0, 1) if ports else ():
        if port_of(flow.ends[side]) in ports:
            return 0 if side else 1
    return None


def _client(
    conversation: Conversation,
    heads: tuple[bytes, bytes],
    checker: BodyChecker,
    final: bool,
    waits: list[tuple[Stream, Boundary | None]],
) -> Side | None:
    """Return the side whose bytes look more like requests; None if neither does, or both alike.

    Boundaries that are not sure yet are appended to `waits`.
    """
    opener: Side = 1 if conversation.flow.opened_by == 1 else 0
    other: Side = 0 if opener else 1
    score = _request_score(conversation, opener, heads, checker, final, waits)
    if score >= FOR_OPENERS:
        return opener
    other_score = _request_score(conversation, other, heads, checker, final, waits)
    if score == other_score:
        return None
    return opener if score > other_score else other


def _request_score(
    conversation: Conversation,
    side: int,
    heads: tuple[bytes, bytes],
    checker: BodyChecker,
    final: bool,
    waits: list[tuple[Stream, Boundary | None]],
) -> int:
    """Score how surely a side sends requests: 0 not at all, higher is surer."""
    stream, head, other = conversation.streams[side], heads[side], heads[1 - side]
    if not head:
        return 1 if answers_alone(other) else 0
    chain = conversation.requests(side, head, checker.knows)
    if not stream.begun:
        boundary = next_request(head, stream.edges(), None, None, checker, final, other, chain)
        if boundary is None or not boundary.sure:
            waits.append((stream, boundary))
            return 0
        return 3
    opened = conversation.flow.opened_by == side
    if chain.whole and chain.consistent:
        bodies, telling = body_score(chain, 0, head, other, checker), chain.headers[0].telling
        if bodies > 0 or (bodies == 0 and final and opened and telling):
            score = 2 + 2 * telling * (1 + opened) + opened
            return score if score >= FOR_OPENERS else score + _linked(chain, other)
    if chain.whole and opened and _certainly_answered(chain.headers[0], head, other, checker):
        return 3  # the bytes after that request are not a request: a broker cannot read them either
    if chain.consistent and chain.headers and not chain.whole:
        stream.awaited = chain.headers[0].end
        if final and opened and chain.headers[0].telling and len(head) > limits.RECOGNITION_BYTES:
            return 3
    if not chain.headers:  # a version newer than all known ones: weak evidence
        newer = _of_any_version(head, checker.knows)
        return int(newer.whole > 0 and body_score(newer, 0, head, other, checker) > 0)
    return 0


def _of_any_version(head: bytes, knows: Knows) -> Chain:
    """Return requests of known APIs, in versions that may not exist."""
    return requests_from(head, 0, lambda key, version: knows(key, 0))


def _linked(chain: Chain, other: bytes) -> int:
    """Return 1 if the other side answers these requests, else 0."""
    return 1 if answers_from(other, 0, [header.correlation_id for header in chain.headers])[0] else 0


def _by_broker(
    conversation: Conversation,
    heads: tuple[bytes, bytes],
    brokers: Brokers,
    packet: int,
    checker: BodyChecker,
    final: bool,
) -> Side | None:
    """Return the client side of a connection to a known broker whose first bytes are not a valid request; else None."""
    for side in (0, 1):
        head = heads[side]
        if not conversation.streams[side].begun or not head:
            continue
        chain = conversation.requests(side, head, checker.knows)
        announced = int.from_bytes(head[:4], "big", signed=True) if len(head) >= 4 else 0
        broken = len(head) >= 4 and not LEAST_REQUEST <= announced <= limits.REQUEST_BYTES and not may_be_foreign(head)
        answered = _answered(chain, heads[1 - side], checker)
        decided = broken or final or answered >= 0 or (len(head) >= HEADER_BYTES and not chain.headers)
        if chain.whole and answered == OTHERWISE:
            continue
        if decided and brokers.is_broker(conversation.flow.ends[1 - side], packet):
            return 1 if side else 0
    return None


def _answered(chain: Chain, other: bytes, checker: BodyChecker) -> int:
    """Return the reaction to the first request (ANSWERED, UNANSWERED, OTHERWISE), judged with BodyChecker.answers.

    A broker does not answer a request that it cannot read.
    """
    if not chain.whole:
        return UNANSWERED
    first = chain.headers[0]
    answer = answer_to(other, first.correlation_id)
    if answer is None:
        return UNANSWERED
    return OTHERWISE if checker.answers(first.key, first.version, other, *answer) < 0 else ANSWERED


def _certainly_answered(first: Header, head: bytes, other: bytes, checker: BodyChecker) -> bool:
    """True if the first request and the answer to it decode to their last byte as the header announces."""
    answer = answer_to(other, first.correlation_id)
    return (
        answer is not None
        and first.telling
        and checker.asks(head, 4, first.end) >= 0
        and checker.answers(first.key, first.version, other, *answer) > 0
    )


def _certainly_other(conversation: Conversation, heads: tuple[bytes, bytes], checker: BodyChecker) -> bool:
    """True if a connection seen from its beginning starts with bytes that cannot start a request."""
    opener = conversation.flow.opened_by
    if opener is None:
        return False
    own, other = heads[opener], heads[1 - opener]
    if not conversation.streams[opener].begun:
        return False
    if not own:
        return conversation.streams[1 - opener].begun and len(other) >= HEADER_BYTES and not lengths_from(other)[0]
    chain = conversation.requests(opener, own, checker.knows)
    if chain.consistent or chain.headers:
        return False
    return not _of_any_version(own, checker.knows).headers
