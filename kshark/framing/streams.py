"""One direction of a connection, cut into Kafka's frames: int32 length, then the message.

Bytes are kept as the pieces they came in and joined once, when a frame is whole: a large frame costs its size, not its
square. After a gap the next boundary is certain where the gap lies inside a frame whose length is known; else it is
searched (kshark.framing.recognition). Source: Kafka protocol guide, "Common Request and Response Structure"."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from struct import Struct
from typing import Any, Final, Literal

from kshark import limits
from kshark.framing.boundaries import Boundary, next_answer, next_request, open_at
from kshark.framing.recognition import Witness, header_at
from kshark.model import Flow, Gap, Side, Weird
from kshark.reassembly import Run, Runs

_INT32: Final = Struct(">i").unpack_from
#: So many frames carry RESYNC after a boundary was found by searching; by then the frames have confirmed it.
UNSURE: Final = 3
#: So many requests' correlation ids are kept per connection: answers after a gap are recognised by them.
REMEMBERED: Final = 128

Tell = Callable[[Weird], None]

#: A length and a correlation id: where fewer bytes are, no message begins for certain.
_LEAST: Final = 8
#: Of a stream that holds nothing: most of many open connections do, and five empty lists take as much as all else of a
#: stream.
_NONE: Final[Any] = ()


class Stream:
    """One direction's bytes that are not cut into frames yet."""

    __slots__ = (
        "awaited", "by_client", "client_id", "data", "flow", "ids", "limit", "lost", "need", "packet", "ready",
        "ready_ns", "searching",
        "side", "size", "skip", "skip_why", "skipped", "skipped_from", "time_ns", "try_at", "unsure", "untouched",
    )  # fmt: skip

    def __init__(self, flow: Flow, side: Side) -> None:
        self.flow = flow
        self.side = side
        #: A value each piece, as in Run.
        self.data: list[bytes] = _NONE
        self.packet: list[int] = _NONE
        self.time_ns: list[int] = _NONE
        self.ready: list[int] = _NONE
        self.ready_ns: list[int] = _NONE
        self.size = 0
        self.need = 4
        self.by_client: bool | None = None
        self.limit = limits.FRAME_BYTES
        self.searching = False
        #: Nothing came yet. With the first byte it shows whether the stream's beginning was seen; else the boundary is
        #: searched.
        self.untouched = False
        #: A gap fell into this direction.
        self.lost = False
        self.try_at = 0
        #: Where the frame ends that may begin in these bytes; 0: none is known.
        self.awaited = 0
        #: Bytes still to be skipped: they belong to a frame that a gap broke.
        self.skip = 0
        self.skip_why = ""
        self.skipped = 0
        self.skipped_from = 0
        self.unsure = 0
        #: Packet << 32 | correlation id: of the client's last requests, or of the broker's last answer.
        self.ids: array[int] = _NONE
        self.client_id: bytes | None = None

    def take(self, run: Run, index: int) -> None:
        """Adds a run's pieces from `index` on."""
        data, packet, time_ns = run.data[index:], run.packet[index:], run.time_ns[index:]
        ready, ready_ns = run.ready[index:], run.ready_ns[index:]
        if self.size:
            self._add(data, packet, time_ns, ready, ready_ns)
        else:
            self.data, self.packet, self.time_ns, self.ready, self.ready_ns = data, packet, time_ns, ready, ready_ns
        self.size += sum(map(len, data))

    def take_runs(self, runs: Runs, index: int) -> None:
        """Adds the pieces of one of many runs."""
        first, behind = runs.first[index], runs.behind[index]
        packet, time_ns = runs.packet[first:behind], runs.time_ns[first:behind]
        data, ready, ready_ns = runs.pieces(first, behind), packet[:], time_ns[:]
        if self.size:
            self._add(data, packet, time_ns, ready, ready_ns)
        else:
            self.data, self.packet, self.time_ns, self.ready, self.ready_ns = data, packet, time_ns, ready, ready_ns
        self.size += runs.size[index]

    def take_piece(self, data: bytes, packet: int, time_ns: int, ready: int, ready_ns: int) -> None:
        if self.untouched:
            self.untouched = False
            self.searching = not self.begun
        if self.size:
            self._add((data,), (packet,), (time_ns,), (ready,), (ready_ns,))
        else:
            self.data, self.packet, self.time_ns, self.ready, self.ready_ns = (
                [data],
                [packet],
                [time_ns],
                [ready],
                [ready_ns],
            )
        self.size += len(data)

    def _add(
        self, data: Iterable[bytes], packet: Iterable[int], time_ns: Iterable[int], ready: Iterable[int],
        ready_ns: Iterable[int]
    ) -> None:  # fmt: skip
        self.data += data
        self.packet += packet
        self.time_ns += time_ns
        self.ready += ready
        self.ready_ns += ready_ns

    @property
    def begun(self) -> bool:
        """Whether the bytes here follow the stream's first byte without a gap."""
        return self.flow.begun[self.side] and not self.lost

    @property
    def is_dear(self) -> bool:
        """Whether a look at all that is here costs too much for one with each piece that comes."""
        return self.size > limits.RECOGNITION_BYTES or len(self.data) > limits.SEARCHED_PIECES

    @property
    def is_too_much(self) -> bool:
        """Whether more is here than is searched for a boundary."""
        return self.size > limits.SEARCH_BYTES or len(self.data) > limits.SEARCH_PIECES

    @property
    def rests(self) -> bool:
        """Whether the next byte is known to begin a frame."""
        return not (self.size or self.searching or self.skip)

    def joined(self) -> bytes:
        if len(self.data) > 1:
            return b"".join(self.data)
        return self.data[0] if self.data else b""

    def edges(self) -> list[int]:
        """Where the pieces begin in `joined`."""
        return [0, *accumulate(map(len, self.data))][:-1] if len(self.data) > 1 else [0] * len(self.data)

    # -- frames

    def can_be_cut(self, tell: Tell) -> bool:
        """Whether a whole frame may be here, once the rest of a broken frame is skipped."""
        if self.skip:
            self._skip_broken(tell)
        return self.size >= self.need and not self.searching

    def drop(self, count: int) -> None:
        """Forgets the first `count` bytes."""
        self.size -= count
        if not self.size:
            self.data = self.packet = self.time_ns = self.ready = self.ready_ns = _NONE
        elif count:
            edges = self.edges()
            piece = bisect_right(edges, count) - 1
            rest = self.data[piece][count - edges[piece] :]
            for column in (self.data, self.packet, self.time_ns, self.ready, self.ready_ns):
                del column[:piece]
            self.data[0] = rest

    def join_pieces(self) -> None:
        """Of many pieces of one unfinished frame only the first, with which it began, and the last matter."""
        if (
            limits.FRAME_PIECES < self.size < self.need
            and not self.searching
            and not self.skip
            and len(self.data) > limits.FRAME_PIECES
        ):
            self.data[1:] = [b"".join(self.data[1:])]
            for column in (self.packet, self.time_ns, self.ready, self.ready_ns):
                del column[1:-1]

    def remember(self, ids: list[int], data: bytes, starts: Iterable[int]) -> None:
        """Keeps the frames' correlation ids, and the first client id that one of the frames at `starts` has."""
        if self.ids:
            self.ids.extend(ids)
        elif ids:
            self.ids = array("q", ids)
        for start in starts if self.by_client and self.client_id is None else ():
            header = header_at(data, start - 4, _any_version)
            if header is not None and header.client_id is not None:
                self.client_id = header.client_id
                return

    def confirm(self, count: int) -> int:
        """So many frames more were cut; returns how many of them are the first ones behind a boundary found by
        searching."""
        unsure = min(self.unsure, count)
        self.unsure -= unsure
        return unsure

    def forget_old_ids(self) -> None:
        """Only at the end of a batch: answers found in it may belong to requests that came long before its last one."""
        if self.ids:
            del self.ids[: -REMEMBERED if self.by_client else -1]

    # -- damage

    def break_off(self, length: int, tell: Tell) -> list[Run]:
        """The length here is impossible. Returns the bytes behind it, to be searched piece by piece for the next
        message boundary."""
        piece = bisect_right(self.edges(), 3) - 1
        packet, time_ns = self.ready[piece], self.ready_ns[piece]
        text = f"{length} bytes announced; {'requests' if self.by_client else 'frames'} have 0 to {self.limit}"
        tell(
            Weird("FRAME_LENGTH_INVALID", "framing", packet, time_ns, text, self.flow.id, self.side, self.packet[0], 4)
        )
        self._skip_bytes(4, tell)
        self.search()
        if not self.size:
            return []
        later = Run(self.flow, self.side, self.data, self.packet, self.time_ns, self.ready, self.ready_ns)
        self.data, self.packet, self.time_ns, self.ready, self.ready_ns, self.size = [], [], [], [], [], 0
        return [later]

    def search(self) -> None:
        """From here on the next message boundary is not known."""
        self.searching = True
        self.try_at = self.awaited = 0
        self.need = 4

    def _skip_bytes(self, count: int, tell: Tell) -> None:
        if count and not self.skipped:
            self.skipped_from = self.packet[0]
        self.skipped += count
        self.drop(count)

    def _skip_broken(self, tell: Tell) -> None:
        count = min(self.skip, self.size)
        if count:
            self.skip -= count
            piece = bisect_right(self.edges(), count - 1) - 1
            packet, time_ns = self.ready[piece], self.ready_ns[piece]
            self._skip_bytes(count, tell)
            if not self.skip:
                self.tell_skipped(packet, time_ns, self.skip_why, tell)

    def tell_skipped(self, packet: int, time_ns: int, why: str, tell: Tell) -> None:
        if self.skipped:
            tell(
                Weird(
                    "BYTES_SKIPPED",
                    "framing",
                    packet,
                    time_ns,
                    why,
                    self.flow.id,
                    self.side,
                    self.skipped_from,
                    self.skipped,
                )
            )
            self.skipped = 0

    def lose(self, gap: Gap, tell: Tell) -> None:
        """A gap follows the bytes that are here: if it lies inside a frame of known length, the next boundary is still
        certain."""
        frames_begin = not self.searching and (self.begun or self.by_client is not None)
        self.lost = True
        if self.skip and not self.size:
            left = self.skip
        elif frames_begin and self.size >= 4:
            left = 4 + _INT32(self.joined(), 0)[0] - self.size
        else:
            left = -1
        if self.size:
            self._skip_bytes(self.size, tell)
        self.tell_skipped(
            gap.packet, gap.time_ns, "a frame broken by a gap" if left >= 0 else "no boundary before a gap", tell
        )
        self.need = 4
        if 0 < gap.size <= left and not self.searching:
            self.skip, self.skip_why = left - gap.size, "the rest of a frame broken by a gap"
        else:
            self.skip = 0
            self.search()

    def give_up(self, tell: Tell) -> None:
        """These bytes take too much room: the unfinished frame is skipped, or, where no boundary is known, the bytes
        searched so far."""
        packet, time_ns = self.ready[-1], self.ready_ns[-1]
        text = f"{self.size} bytes" + ("" if self.searching or self.by_client is None else f" of {self.need}")
        tell(
            Weird(
                "UNFINISHED_LIMIT", "framing", packet, time_ns, text, self.flow.id, self.side, self.packet[0], self.size
            )
        )
        if self.by_client is None:
            self.lost = True  # not recognised yet: once it is, the next boundary is searched
        elif not self.searching:
            self.skip, self.skip_why = self.need - self.size, "the rest of a frame passed over"
        if self.awaited > self.size:
            self.skip, self.skip_why = self.awaited - self.size, "the rest of a frame passed over"
        self.try_at = self.awaited = 0
        self._skip_bytes(self.size, tell)
        self.need = 4

    def find(self, other: Stream, witness: Witness, final: bool, tell: Tell) -> bool:
        """Searches the bytes here for the next message boundary; True if frames can be cut again."""
        if self.size < _LEAST or (self.size < self.try_at and not final):
            return False
        data, edges = self.joined(), self.edges()
        if self.by_client:
            found = next_request(
                data, edges, signed(self.ids[-1]) if self.ids else None, self.client_id, witness, final
            )
        else:
            found = next_answer(data, edges, self.open_ids(other))
        if found is None or not found.sure:
            self.wait_for(found, tell)
            return False
        packet, time_ns = self.ready[0], self.ready_ns[0]
        self._skip_bytes(found.at, tell)
        self.tell_skipped(packet, time_ns, "until the next message boundary", tell)
        self.searching = False
        self.unsure = UNSURE
        return True

    def wait_for(self, found: Boundary | None, tell: Tell) -> None:
        """No boundary is certain yet: of too many bytes those that hold none are skipped, and the search waits for
        more."""
        if self.is_too_much:
            old = self.size - min(limits.RECOGNITION_BYTES, sum(map(len, self.data[-limits.SEARCH_PIECES // 4 :])))
            old = old if found is None else min(found.at, old)
            self._skip_bytes(old, tell)
            found = found and found._replace(at=found.at - old, end=found.end - old)
        self.awaited = 0 if found is None else found.end
        more = self.size + (self.size >> 2) if self.is_dear else self.size + 1 if self.by_client else 0
        self.try_at = min(more, self.awaited) if self.awaited > self.size else more

    def open_ids(self, other: Stream) -> list[int]:
        """Correlation ids of requests (in `other`) that were sent before these bytes came, after the one answered last
        here."""
        now = self.ready[-1]
        end = bisect_left(other.ids, now + 1 << 32)
        asked = [
            (number & 0xFFFFFFFF ^ _SIGN) - _SIGN for number in other.ids[max(0, end - REMEMBERED) : end]
        ]  # `signed`, without a call
        return open_at(asked, signed(self.ids[-1]) if self.ids else None)

    def end(
        self, how: Literal["fin", "rst", "reused", "forgotten", "capture"], packet: int, time_ns: int, tell: Tell
    ) -> None:
        """The connection is over: what is left here is no whole frame."""
        if self.size and not self.searching and not self.skip:
            whole = 4 + _INT32(self.joined(), 0)[0] if self.size >= 4 else None
            text = (
                f"{self.size} of {whole if whole is not None else 'at least 4'} bytes when the "
                f"{_ENDS.get(how, 'connection')} ended"
            )
            first = self.packet[0]
            tell(
                Weird(
                    "FRAME_TRUNCATED_AT_CLOSE",
                    "framing",
                    packet,
                    time_ns,
                    text,
                    self.flow.id,
                    self.side,
                    first,
                    self.size,
                )
            )
            self.drop(self.size)
        elif self.size:
            self._skip_bytes(self.size, tell)
        self.tell_skipped(packet, time_ns, "no message boundary was found", tell)


def signed(number: int) -> int:
    """The correlation id of one of Stream.ids."""
    return (number & 0xFFFFFFFF ^ _SIGN) - _SIGN


_SIGN: Final = 1 << 31
_ENDS: Final = {"capture": "capture"}


def _any_version(key: int, version: int) -> bool:
    return True
