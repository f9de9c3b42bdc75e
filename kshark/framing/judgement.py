"""Decides what one connection carries: which service and, for Kafka, which side is the client."""

from __future__ import annotations

from typing import Final

from kshark import limits
from kshark.endpoints import port_of
from kshark.framing.boundaries import Boundary, next_request
from kshark.framing.brokers import Brokers
from kshark.framing.recognition import (
    HEADER_BYTES,
    LEAST_REQUEST,
    Chain,
    Header,
    Knows,
    Witness,
    answer_to,
    answers_alone,
    answers_from,
    bodies_told,
    foreign,
    lengths_from,
    requests_from,
)
from kshark.framing.streams import UNSURE, Stream, Tell
from kshark.framing.waiting import NEVER
from kshark.model import Flow, Side

#: What became of a first request.
ANSWERED: Final = 0
UNANSWERED: Final = -1
OTHERWISE: Final = -2

#: Marks from here on (_requests_told) get sides alone that opened their connection; the other side need not be looked
#: at.
FOR_OPENERS: Final = 6


class Conversation:
    """A connection while it is cut into frames: its two streams, and what the judgement of it needs."""

    __slots__ = ("_seen", "flow", "holed", "streams", "try_at")

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.streams = (Stream(flow, 0), Stream(flow, 1))
        #: It has a gap. When a gap is certain depends on later packets, so what it shows about its broker is not used
        #: for others.
        self.holed = False
        self.try_at = 0
        #: As long as it is not recognised: the first piece that was whole requests, and these.
        self._seen: tuple[bytes, Chain] | None = None

    def requests(self, side: int, head: bytes, knows: Knows) -> Chain:
        """The requests that a side begins with; whole ones are looked for once, though the answer to them asks
        again."""
        if self._seen is not None and self._seen[0] is head:
            return self._seen[1]
        chain = requests_from(head, 0, knows)
        if self._seen is None and chain.whole and len(self.streams[side].data) == 1:
            self._seen = head, chain
        return chain

    def recognised(self) -> None:
        self._seen = None

    def settle(self, client: Side) -> None:
        """It is Kafka's, and that side is the client."""
        self.flow.service, self.flow.client_side = "kafka", client
        for stream in self.streams:
            stream.by_client = stream.side == client
            stream.limit = limits.REQUEST_BYTES if stream.by_client else limits.FRAME_BYTES

    @property
    def size(self) -> int:
        return self.streams[0].size + self.streams[1].size

    @property
    def searching(self) -> bool:
        """Whether a side's next message boundary is not known."""
        return self.streams[0].searching or self.streams[1].searching

    def unclear(self, packet: int) -> tuple[int, int]:
        """By side, with which packet the first byte came that is not understood yet; NEVER where all are. `packet`: the
        last one read.

        Answers wait for their requests too, as long as these are not too many bytes.
        """
        (one, other), client = self.streams, self.flow.client_side
        unknown = self.flow.service == "unknown"
        first = one.ready[0] if one.size and (unknown or one.searching) and one.ready[0] <= packet else NEVER
        second = other.ready[0] if other.size and (unknown or other.searching) and other.ready[0] <= packet else NEVER
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
    witness: Witness,
    brokers: Brokers,
    ports: frozenset[int],
    packet: int,
    tell: Tell,
    *,
    final: bool,
) -> None:
    """Sets the flow's service and, for Kafka, its client side; leaves the service unknown while the bytes do not tell.

    `brokers`: ends known to be Kafka brokers; only what was known before `packet` is used. `final`: no more bytes
    come.
    """
    if conversation.size < conversation.try_at and not final:
        return
    streams = conversation.streams
    for stream in streams if streams[0].skip or streams[1].skip else ():
        stream.can_be_cut(tell)
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
        return  # said to be Kafka, and one side speaks something else: the other side's word decides
    if side is None:
        side = _client(conversation, heads, witness, final, waits)
    if side is None:
        side = _by_broker(conversation, heads, brokers, packet, witness, final)
    if side is not None:
        _settle(conversation, side, witness)
        return
    for stream, found in waits:  # only now: of what is Kafka the other side's bytes may be the beginning of an answer
        stream.wait_for(found, tell)
    _leave_open(conversation, heads, witness, tell)


def _leave_open(conversation: Conversation, heads: tuple[bytes, bytes], witness: Witness, tell: Tell) -> None:
    """Nothing tells that it is Kafka's: it is certainly not, or later bytes decide."""
    streams = conversation.streams
    if _certainly_other(conversation, heads, witness):
        conversation.flow.service = "other"
    elif streams[0].is_dear or streams[1].is_dear:
        _look_again(conversation, tell)


def _look_again(conversation: Conversation, tell: Tell) -> None:
    """So many bytes tell nothing: the next look is at half as many more, or when the frame is whole that may begin in
    them.

    Bytes that were no requests from the beginning may still have some farther on.
    """
    for stream in conversation.streams:
        if stream.is_too_much and stream.awaited <= stream.size:
            stream.lost = True
            stream.wait_for(None, tell)
    missing = [stream.awaited - stream.size for stream in conversation.streams if stream.awaited > stream.size]
    conversation.try_at = conversation.size + min(conversation.size >> 1, *missing, limits.SEARCH_BYTES)


def _settle(conversation: Conversation, client: Side, witness: Witness) -> None:
    conversation.settle(client)
    for stream in conversation.streams:
        if not stream.begun:
            if stream.by_client and conversation.requests(stream.side, stream.joined(), witness.knows).whole:
                stream.searching, stream.unsure = False, UNSURE
            else:
                stream.search()
                stream.untouched = not stream.size
    conversation.recognised()


def _forced(flow: Flow, ports: frozenset[int]) -> Side | None:
    """The client side where the user declared the other side's port as Kafka's."""
    for side in (0, 1) if ports else ():
        if port_of(flow.ends[side]) in ports:
            return 0 if side else 1
    return None


def _client(
    conversation: Conversation,
    heads: tuple[bytes, bytes],
    witness: Witness,
    final: bool,
    waits: list[tuple[Stream, Boundary | None]],
) -> Side | None:
    """The side whose bytes look more like requests; None where neither does, or both alike. `waits` takes what nothing
    is sure of yet."""
    opener: Side = 1 if conversation.flow.opened_by == 1 else 0
    other: Side = 0 if opener else 1
    mark = _requests_told(conversation, opener, heads, witness, final, waits)
    if mark >= FOR_OPENERS:
        return opener
    against = _requests_told(conversation, other, heads, witness, final, waits)
    if mark == against:
        return None
    return opener if mark > against else other


def _requests_told(
    conversation: Conversation,
    side: int,
    heads: tuple[bytes, bytes],
    witness: Witness,
    final: bool,
    waits: list[tuple[Stream, Boundary | None]],
) -> int:
    """How sure it is that a side sends requests: 0 not at all, more is better."""
    stream, head, other = conversation.streams[side], heads[side], heads[1 - side]
    if not head:
        return 1 if answers_alone(other) else 0
    chain = conversation.requests(side, head, witness.knows)
    if not stream.begun:
        found = next_request(head, stream.edges(), None, None, witness, final, other, chain)
        if found is None or not found.sure:
            waits.append((stream, found))
            return 0
        return 3
    opened = conversation.flow.opened_by == side
    if chain.whole and chain.consistent:
        told, telling = bodies_told(chain, 0, head, other, witness), chain.headers[0].telling
        if told > 0 or (told == 0 and final and opened and telling):
            mark = 2 + 2 * telling * (1 + opened) + opened
            return mark if mark >= FOR_OPENERS else mark + _linked(chain, other)
    if chain.whole and opened and _certainly_answered(chain.headers[0], head, other, witness):
        return 3  # what follows that request is none: a broker cannot read it either
    if chain.consistent and chain.headers and not chain.whole:
        stream.awaited = chain.headers[0].end
        if final and opened and chain.headers[0].telling and len(head) > limits.RECOGNITION_BYTES:
            return 3
    if not chain.headers:  # a version newer than any known: weak
        newer = _of_any_version(head, witness.knows)
        return int(newer.whole > 0 and bodies_told(newer, 0, head, other, witness) > 0)
    return 0


def _of_any_version(head: bytes, knows: Knows) -> Chain:
    """Requests of known APIs, in versions that may not exist."""
    return requests_from(head, 0, lambda key, version: knows(key, 0))


def _linked(chain: Chain, other: bytes) -> int:
    """1 if the other side answers these requests, else 0."""
    return 1 if answers_from(other, 0, [header.correlation_id for header in chain.headers])[0] else 0


def _by_broker(
    conversation: Conversation, heads: tuple[bytes, bytes], brokers: Brokers, packet: int, witness: Witness, final: bool
) -> Side | None:
    """The client side of a connection to a known broker whose first bytes are no valid request."""
    for side in (0, 1):
        head = heads[side]
        if not conversation.streams[side].begun or not head:
            continue
        chain = conversation.requests(side, head, witness.knows)
        announced = int.from_bytes(head[:4], "big", signed=True) if len(head) >= 4 else 0
        broken = len(head) >= 4 and not LEAST_REQUEST <= announced <= limits.REQUEST_BYTES
        answered = _answered(chain, heads[1 - side], witness)
        would_tell = broken or final or answered >= 0 or (len(head) >= HEADER_BYTES and not chain.headers)
        if chain.whole and answered == OTHERWISE:
            continue
        if would_tell and brokers.known(conversation.flow.ends[1 - side], packet):
            return 1 if side else 0
    return None


def _answered(chain: Chain, other: bytes, witness: Witness) -> int:
    """What the answer to the first request tells, as of Witness.answers; what a broker cannot read it does not
    answer."""
    if not chain.whole:
        return UNANSWERED
    first = chain.headers[0]
    found = answer_to(other, first.correlation_id)
    if found is None:
        return UNANSWERED
    return OTHERWISE if witness.answers(first.key, first.version, other, *found) < 0 else ANSWERED


def _certainly_answered(first: Header, head: bytes, other: bytes, witness: Witness) -> bool:
    """Whether the first request and the answer to it are, to their last bytes, what the header says."""
    found = answer_to(other, first.correlation_id)
    return (
        found is not None
        and first.telling
        and witness.asks(head, 4, first.end) >= 0
        and witness.answers(first.key, first.version, other, *found) > 0
    )


def _certainly_other(conversation: Conversation, heads: tuple[bytes, bytes], witness: Witness) -> bool:
    """Whether a connection seen from its beginning starts in a way in which no request starts."""
    opener = conversation.flow.opened_by
    if opener is None:
        return False
    own, other = heads[opener], heads[1 - opener]
    if not own:
        return len(other) >= HEADER_BYTES and not lengths_from(other)[0]
    chain = conversation.requests(opener, own, witness.knows)
    if chain.consistent or chain.headers or not conversation.streams[opener].begun:
        return False
    return not _of_any_version(own, witness.knows).headers
