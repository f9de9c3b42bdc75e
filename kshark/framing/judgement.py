"""The judgement over one connection: which service it carries and, for Kafka, which side is the client."""

from __future__ import annotations

from collections.abc import Mapping

from kshark import limits
from kshark.framing.recognition import (
    HEADER_BYTES,
    Chain,
    Knows,
    answers_alone,
    answers_from,
    foreign,
    lengths_from,
    next_request,
    requests_from,
)
from kshark.framing.streams import UNSURE, Stream
from kshark.model import Flow, Side


class Talk:
    """A connection as framing sees it: two streams, and from which packet on the time line waits for it (0: it does not)."""

    __slots__ = ("flow", "held_from", "holed", "late", "streams", "try_at")

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.streams = (Stream(flow, 0), Stream(flow, 1))
        self.held_from = 0
        #: The time line waits for it no longer: what is found now comes at its own time.
        self.late = False
        #: Bytes are missing. When that was certain depends on what came behind, so others are not judged by it.
        self.holed = False
        self.try_at = 0

    @property
    def size(self) -> int:
        return self.streams[0].size + self.streams[1].size

    def uncertain(self, packet: int) -> tuple[int, int]:
        """How many bytes are here of which nobody can say yet what they are, and since which packet."""
        streams = [s for s in self.streams if s.size and s.ready[0] <= packet and (s.searching or self.flow.service == "unknown")]
        return sum(stream.size for stream in streams), min((stream.ready[0] for stream in streams), default=packet)

    def lose_patience(self, packet: int) -> int:
        """Sets `late` where they are too many, or have waited for too long; gives since when they wait."""
        size, since = self.uncertain(packet)
        self.late = self.late or size > limits.RECOGNITION_BYTES or packet - since >= limits.HELD_PACKETS
        return since

    def delay(self, packet: int, time_ns: int) -> None:
        """What is here became known late: it is ready with this packet."""
        for stream in self.streams:
            stream.delay(packet, time_ns)

    def drop_all(self) -> None:
        """Another protocol's bytes are counted by the flow and forgotten."""
        for stream in self.streams:
            stream.drop_all()


def judge(talk: Talk, knows: Knows, brokers: Mapping[str, int], ports: frozenset[int], packet: int, *, final: bool) -> None:
    """Sets the flow's service, and its client side where that is Kafka; leaves it unknown while the bytes do not tell.

    `brokers` are ends known to speak Kafka since some packet; only what was known before `packet` counts. `final`: no more will come.
    """
    if talk.size < talk.try_at and not final:
        return
    heads = (talk.streams[0].joined(), talk.streams[1].joined())
    side = _forced(talk.flow, ports)
    if side is None:
        service = foreign(heads[0]) or foreign(heads[1])
        if service is not None:
            talk.flow.service = service
            return
        side = _client(talk, heads, knows, final)
    if side is None:
        side = _by_broker(talk, heads, brokers, packet, knows, final)
    if side is not None:
        _settle(talk, side, knows)
        return
    if _certainly_other(talk, heads, knows):
        talk.flow.service = "other"
    elif talk.size > limits.RECOGNITION_BYTES:
        talk.try_at = talk.size + min(talk.size >> 1, *(_until_whole(head, knows) for head in heads))
        if talk.size > limits.SEARCH_BYTES:
            talk.flow.service = "other"


def _until_whole(head: bytes, knows: Knows) -> int:
    """Bytes that are left of the request which these end inside of; a frame that tells is judged with its last byte, not later."""
    chain = requests_from(head, 0, knows)
    if chain.consistent and chain.headers and chain.headers[-1].end > len(head):
        return chain.headers[-1].end - len(head)
    return len(head) or limits.SEARCH_BYTES


def _settle(talk: Talk, client: Side, knows: Knows) -> None:
    flow = talk.flow
    flow.service = "kafka"
    flow.client_side = client
    for stream in talk.streams:
        stream.by_client = stream.side == client
        stream.limit = limits.REQUEST_BYTES if stream.by_client else limits.FRAME_BYTES
        if not stream.begun:
            if stream.by_client and requests_from(stream.joined(), 0, knows).whole:
                stream.searching, stream.unsure = False, UNSURE
            else:
                stream.search()
                stream.untouched = not stream.size


def _forced(flow: Flow, ports: frozenset[int]) -> Side | None:
    """The client of a connection to a port that the user says is Kafka's."""
    for side in (0, 1):
        if int(flow.ends[side].rpartition(":")[2]) in ports:
            return 0 if side else 1
    return None


def _client(talk: Talk, heads: tuple[bytes, bytes], knows: Knows, final: bool) -> Side | None:
    """The side whose bytes are requests: the one with the better witness."""
    marks = [_requests_told(talk, side, heads, knows, final) for side in (0, 1)]
    if marks[0] == marks[1]:
        return None
    return 0 if marks[0] > marks[1] else 1


def _requests_told(talk: Talk, side: int, heads: tuple[bytes, bytes], knows: Knows, final: bool) -> int:
    """How well the bytes of a side are told to be requests: 0 not, more is better."""
    stream, head, other = talk.streams[side], heads[side], heads[1 - side]
    if not head:
        return 1 if answers_alone(other) else 0
    chain = requests_from(head, 0, knows)
    opened = talk.flow.opened_by == side
    if stream.begun and chain.consistent and chain.headers:
        linked = _linked(chain, other)
        if chain.headers[0].telling and chain.whole:
            return 4 + 2 * opened + linked
        if chain.whole and (linked or opened or _same_throughout(chain)):
            return 2 + opened + linked
        if chain.headers[0].telling and opened and len(head) > limits.RECOGNITION_BYTES:
            return 3
    if stream.begun and not chain.headers:
        # a version newer than any known: weak, unless the other side answers it or nobody will say more
        newer = _of_any_version(head, knows)
        if newer.whole and (_linked(newer, other) or (final and opened)):
            return 1
    if not stream.begun:
        at_once = chain.consistent and chain.whole and chain.headers[0].telling and chain.headers[-1].end == len(head)
        if at_once or next_request(head, stream.edges(), None, None, knows, final) is not None:
            return 3
    return 0


def _of_any_version(head: bytes, knows: Knows) -> Chain:
    """Requests from the beginning, of APIs that exist in versions that may not."""
    return requests_from(head, 0, lambda key, version: knows(key, 0))


def _linked(chain: Chain, other: bytes) -> int:
    """1 where the other side answers these requests."""
    return 1 if answers_from(other, 0, [header.correlation_id for header in chain.headers])[0] else 0


def _same_throughout(chain: Chain) -> bool:
    """Whether several requests agree in api, version and client id: answers read as requests never do, their ids run on."""
    kinds = {(header.key, header.version, header.client_id) for header in chain.headers}
    return len(chain.headers) >= 2 and len(kinds) == 1


def _by_broker(talk: Talk, heads: tuple[bytes, bytes], brokers: Mapping[str, int], packet: int, knows: Knows, final: bool) -> Side | None:
    """The client of a connection to an end that is known to speak Kafka, where the client's first bytes are no sound request."""
    for side in (0, 1):
        head = heads[side]
        known = brokers.get(talk.flow.ends[1 - side])
        if known is None or known >= packet or not talk.streams[side].begun or not head:
            continue
        chain = requests_from(head, 0, knows)
        announced = int.from_bytes(head[:4], "big", signed=True) if len(head) >= 4 else 0
        broken = not 0 <= announced <= limits.REQUEST_BYTES
        if broken or final or (len(head) >= HEADER_BYTES and (not chain.headers or chain.whole)):
            return 1 if side else 0
    return None


def _certainly_other(talk: Talk, heads: tuple[bytes, bytes], knows: Knows) -> bool:
    """Whether a connection seen from its beginning starts with what no request starts with."""
    opener = talk.flow.opened_by
    if opener is None:
        return False
    own, other = heads[opener], heads[1 - opener]
    if not own:
        return len(other) >= HEADER_BYTES and not lengths_from(other)[0]
    chain = requests_from(own, 0, knows)
    if chain.consistent or chain.headers or not talk.streams[opener].begun:
        return False
    return not _of_any_version(own, knows).headers
