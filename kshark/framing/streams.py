"""One direction of a connection, cut into Kafka frames: int32 length, then the message.

Bytes stay in the pieces in which they arrived and are joined once, when a frame is whole: a large frame costs its size,
not its square. After a gap the next boundary is certain if the gap lies inside a frame of known length; else it is
searched (kshark.framing.recognition). Source: Kafka protocol guide, "Common Request and Response Structure".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from struct import Struct
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct as Record
from msgspec import field

from kshark import limits
from kshark.framing.boundaries import Boundary, next_answer, next_request, open_at
from kshark.framing.long_frames import is_answer, is_request
from kshark.framing.recognition import (
    ANSWER_HEAD,
    HEADER_BYTES,
    REQUEST_HEAD,
    BodyChecker,
    begins_answer,
    begins_request,
    header_at,
)
from kshark.model import Flow, Gap, Side, Weird
from kshark.reassembly import Run, Runs
from kshark.tls.signs import ALERT_BYTES, alert, fatal_alert

_INT32: Final = Struct(">i").unpack_from
#: The number of frames marked RESYNC after a searched boundary; these frames confirm it.
UNSURE: Final = 3
#: The number of requests per connection whose correlation ids are kept: they identify answers after a gap.
REMEMBERED: Final = 128

#: Takes anomalies.
Report = Callable[[Weird], None]


class RequestLimit(NamedTuple):
    """The longest request that brokers accept (`socket.request.max.bytes`): by default, or `is_set` by the user."""

    size: int
    is_set: bool


def request_limit(size: int | None) -> RequestLimit:
    """Return the limit that the user named, or the default."""
    return RequestLimit(limits.REQUEST_BYTES, False) if size is None else RequestLimit(size, True)


#: A length and a correlation id: fewer bytes do not prove that a message begins.
_LEAST: Final = 8
#: The lists of an empty stream. Most of many open connections have one, and six empty lists take more memory than the
#: rest.
_NONE: Final[Any] = ()


class Head(Record, eq=False):
    """The beginning of a message whose other bytes are not kept: the snap length cut them off, or they are too many.

    `size`: the bytes of the message. `data`: the first of them, `most` or fewer. `framed`: those seen so far. All with
    the length prefix. `long`: they are too many. The last packet is known when the message is over.
    """

    size: int
    most: int
    long: bool
    packet: int
    time_ns: int
    knows: int
    data: bytearray = field(default_factory=bytearray)
    framed: int = 0
    last_packet: int = 0
    last_time_ns: int = 0

    @property
    def cut(self) -> int:
        return self.size - len(self.data)

    @property
    def dropped(self) -> int:
        return self.framed - len(self.data)

    @property
    def names_client(self) -> bool:
        """True if a request's client id is in these bytes."""
        size = int.from_bytes(self.data[HEADER_BYTES - 2 : HEADER_BYTES], "big", signed=True)
        return HEADER_BYTES + max(0, size) <= len(self.data)


class Stream:
    """The bytes of one direction that are not cut into frames yet."""

    __slots__ = (
        "awaited", "by_client", "client_id", "data", "doubtful", "ended_head", "flow", "head", "ids", "knows", "limit",
        "lost", "need", "packet", "ready", "ready_ns", "request_limit", "searching", "side", "size", "skip", "skip_why",
        "skipped", "skipped_from", "sound", "time_ns", "try_at", "unsure", "untouched",
    )  # fmt: skip

    def __init__(self, flow: Flow, side: Side) -> None:
        self.flow = flow
        self.side = side
        #: One value for each piece, as in Run.
        self.data: list[bytes] = _NONE
        self.packet: list[int] = _NONE
        self.time_ns: list[int] = _NONE
        self.ready: list[int] = _NONE
        self.ready_ns: list[int] = _NONE
        self.knows: list[int] = _NONE
        self.size = 0
        self.need = 4
        self.by_client: bool | None = None
        #: Longer frames are looked at before they are cut.
        self.limit = limits.FRAME_BYTES
        self.request_limit: RequestLimit | None = None
        #: These bytes begin with the length of a frame that is longer than usual, and its header decides whether it is
        #: one. Then `sound` is that length, until the frame is cut.
        self.doubtful = False
        self.sound = 0
        self.searching = False
        #: No byte arrived yet. With the first byte the stream shows whether its beginning was seen; if not, the
        #: boundary is searched.
        self.untouched = False
        #: This direction had a gap.
        self.lost = False
        self.try_at = 0
        #: End of the frame that may begin in these bytes; 0 if unknown.
        self.awaited = 0
        #: Bytes still to skip: the rest of the message of `head`, or of a frame that a gap broke.
        self.skip = 0
        self.skip_why = ""
        self.skipped = 0
        self.skipped_from = 0
        #: The message of which only the head is kept, while its bytes are skipped, and after that.
        self.head: Head | None = None
        self.ended_head: Head | None = None
        self.unsure = 0
        #: Packet << 32 | correlation id: of the client's last requests, or of the broker's last answer.
        self.ids: array[int] = _NONE
        self.client_id: bytes | None = None

    def take(self, run: Run, index: int) -> None:
        """Add a run's pieces from `index` on."""
        data, packet, time_ns = run.data[index:], run.packet[index:], run.time_ns[index:]
        ready, ready_ns, knows = run.ready[index:], run.ready_ns[index:], run.knows[index:]
        if self.size:
            self._add(data, packet, time_ns, ready, ready_ns, knows)
        else:
            self.data, self.packet, self.time_ns, self.ready, self.ready_ns = data, packet, time_ns, ready, ready_ns
            self.knows = knows
        self.size += sum(map(len, data))

    def take_runs(self, runs: Runs, index: int) -> None:
        """Add the pieces of one run of `runs`."""
        first, stop = runs.first[index], runs.end[index]
        packet, time_ns = runs.packet[first:stop], runs.time_ns[first:stop]
        data, ready, ready_ns, knows = runs.pieces(first, stop), packet[:], time_ns[:], runs.knows[first:stop]
        if self.size:
            self._add(data, packet, time_ns, ready, ready_ns, knows)
        else:
            self.data, self.packet, self.time_ns, self.ready, self.ready_ns = data, packet, time_ns, ready, ready_ns
            self.knows = knows
        self.size += runs.size[index]

    def take_piece(self, data: bytes, packet: int, time_ns: int, ready: int, ready_ns: int, knows: int = -1) -> None:
        if self.untouched:
            self.untouched = False
            self.searching = not self.begun
        if self.size:
            self._add((data,), (packet,), (time_ns,), (ready,), (ready_ns,), (knows,))
        else:
            self.data, self.packet, self.time_ns, self.ready, self.ready_ns = (
                [data],
                [packet],
                [time_ns],
                [ready],
                [ready_ns],
            )
            self.knows = [knows]
        self.size += len(data)

    def _add(
        self, data: Iterable[bytes], packet: Iterable[int], time_ns: Iterable[int], ready: Iterable[int],
        ready_ns: Iterable[int], knows: Iterable[int]
    ) -> None:  # fmt: skip
        self.data += data
        self.packet += packet
        self.time_ns += time_ns
        self.ready += ready
        self.ready_ns += ready_ns
        self.knows += knows

    @property
    def begun(self) -> bool:
        """True if these bytes follow the stream's first byte without a gap."""
        return self.flow.begun[self.side] and not self.lost

    @property
    def is_dear(self) -> bool:
        """True if checking all bytes again with each new piece costs too much."""
        return self.size > limits.RECOGNITION_BYTES or len(self.data) > limits.SEARCHED_PIECES

    @property
    def is_too_much(self) -> bool:
        """True if the stream holds more than is searched for a boundary."""
        return self.size > limits.SEARCH_BYTES or len(self.data) > limits.SEARCH_PIECES

    def settle(self, by_client: bool, most: RequestLimit) -> None:
        """Note who sends these bytes, and the longest request."""
        self.by_client = by_client
        self.request_limit = most if by_client else None
        usual = max(most.size, limits.REQUEST_BYTES) if by_client else limits.ANSWER_BYTES
        self.limit = min(usual, limits.FRAME_BYTES)

    @property
    def rests(self) -> bool:
        """True if the next byte begins a frame."""
        return not (self.size or self.searching or self.skip)

    def joined(self) -> bytes:
        if len(self.data) > 1:
            return b"".join(self.data)
        return self.data[0] if self.data else b""

    def edges(self) -> list[int]:
        """Return the positions in `joined` where the pieces begin."""
        return [0, *accumulate(map(len, self.data))][:-1] if len(self.data) > 1 else [0] * len(self.data)

    # -- frames

    def can_be_cut(self, report: Report) -> bool:
        """True if a whole frame may be here, once the rest of a broken or long frame is skipped."""
        if self.skip:
            self._skip_rest(report)
        return self.size >= self.need and not self.searching

    def drop(self, count: int) -> None:
        """Drop the first `count` bytes."""
        self.size -= count
        if not self.size:
            self.data = self.packet = self.time_ns = self.ready = self.ready_ns = self.knows = _NONE
        elif count:
            edges = self.edges()
            piece = bisect_right(edges, count) - 1
            rest = self.data[piece][count - edges[piece] :]
            for column in (self.data, self.packet, self.time_ns, self.ready, self.ready_ns, self.knows):
                del column[:piece]
            self.data[0] = rest

    def join_pieces(self) -> None:
        """Join the pieces of one unfinished frame: only its first piece and the last one matter."""
        if (
            limits.FRAME_PIECES < self.size < self.need
            and not self.searching
            and not self.skip
            and len(self.data) > limits.FRAME_PIECES
        ):
            self.data[1:] = [b"".join(self.data[1:])]
            for column in (self.packet, self.time_ns, self.ready, self.ready_ns, self.knows):
                del column[1:-1]

    def remember(self, ids: list[int], data: bytes, starts: Iterable[int]) -> None:
        """Keep the frames' correlation ids, and the first client id of the frames at `starts`."""
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
        """Count `count` more cut frames; return how many of them are the first ones after a searched boundary."""
        unsure = min(self.unsure, count)
        self.unsure -= unsure
        return unsure

    def forget_old_ids(self) -> None:
        """Drop old ids, only at the end of a batch: its answers may belong to requests sent long before its last
        request.
        """
        if self.ids:
            del self.ids[: -REMEMBERED if self.by_client else -1]

    # -- unusual lengths

    def allows(self, length: int) -> bool:
        """True if a frame longer than `limit` is cut like others: its header is sound, and it is collected."""
        return 0 < length <= limits.FRAME_BYTES and length == self.sound

    def break_off(self, length: int, report: Report) -> list[Run]:
        """Stop at an unusual length; return the bytes to be read piece by piece from here on.

        A negative length is reported, and the next message boundary is searched. A frame that is too long to be
        collected is skipped. Else the length is doubtful: the bytes after it decide (`find`).
        """
        if length < 0:
            self._report_length(3, report)
            self.search()
        elif length == self.sound or length <= self._usual:
            self._begin_head(4 + length, limits.HEAD_BYTES, long=True)
        else:
            self.search()
            self.doubtful = True
        if not self.size:
            return []
        later = Run(self.flow, self.side, self.data, self.packet, self.time_ns, self.ready, self.ready_ns, self.knows)
        self.data, self.packet, self.time_ns, self.ready, self.ready_ns, self.knows = [], [], [], [], [], []
        self.size = 0
        return [later]

    @property
    def _usual(self) -> int:
        """The longest frame whose header is not looked at before it is cut."""
        most = self.request_limit
        return limits.ANSWER_BYTES if most is None else max(most.size, limits.REQUEST_BYTES)

    def _report_length(self, last: int, report: Report) -> None:
        """Report the length at the beginning as impossible, as the byte at `last` shows, and skip it."""
        length = _INT32(self.joined(), 0)[0]
        piece = bisect_right(self.edges(), last) - 1
        packet, time_ns = self.ready[piece], self.ready_ns[piece]
        number = None if self.by_client or self.ids else fatal_alert(self.joined())
        if number is not None:
            report(alert(self.flow, self.side, packet, time_ns, number, self.packet[0], stage="framing"))
            self._skip_bytes(ALERT_BYTES)
            self.report_skipped(packet, time_ns, "a TLS alert", report)
            return
        why = "" if length < 0 else "; no header of a request follows" if self.by_client else "; no answer follows"
        text = f"{length} bytes announced{why}"
        report(
            Weird("FRAME_LENGTH_INVALID", "framing", packet, time_ns, text, self.flow.id, self.side, self.packet[0], 4)
        )
        self._skip_bytes(4)

    def _decide(self, other: Stream, checker: BodyChecker, report: Report) -> bool:
        """Decide whether a doubtful length is that of a frame; True if that is known."""
        data = self.joined()
        if self.by_client:
            last_id = signed(self.ids[-1]) if self.ids else None
            sound = is_request(data, last_id, self.client_id, checker.knows)
        else:
            sound = is_answer(data, self.open_ids(other))
        if sound is None:
            return False
        self.doubtful = False
        if sound:
            self.searching, self.sound = False, _INT32(data, 0)[0]
        else:
            self._report_length(len(data) - 1, report)
        return True

    # -- damage

    def search(self) -> None:
        """Mark the next message boundary as unknown."""
        self.searching = True
        self.doubtful, self.sound = False, 0
        self.try_at = self.awaited = 0
        self.need = 4

    def _skip_bytes(self, count: int) -> None:
        if count and not self.skipped:
            self.skipped_from = self.packet[0]
        self.skipped += count
        self.drop(count)

    def _skip_rest(self, report: Report) -> None:
        """Skip bytes of a message of which only the head is kept, or of a frame that a gap broke."""
        count = min(self.skip, self.size)
        if not count:
            return
        piece = bisect_right(self.edges(), count - 1) - 1
        packet, time_ns = self.ready[piece], self.ready_ns[piece]
        self.skip -= count
        if self.head is None:
            self._skip_bytes(count)
        else:
            wanted = self.head.most - len(self.head.data)
            if wanted > 0:
                self.head.data += self.joined()[: min(count, wanted)]
            self.head.framed += count
            self.drop(count)
        if not self.skip:
            self._end_head(packet, time_ns)
            self.report_skipped(packet, time_ns, self.skip_why, report)

    def report_skipped(self, packet: int, time_ns: int, why: str, report: Report) -> None:
        if self.skipped:
            report(
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

    def lose(self, gap: Gap, report: Report) -> None:
        """Handle a gap after these bytes: if it lies inside a frame of known length, the next boundary is still
        certain.
        """
        frames_begin = not self.searching and (self.begun or self.by_client is not None)
        self.lost = True
        if self.skip and not self.size:
            left = self.skip
        elif frames_begin and self.size >= 4:
            left = 4 + _INT32(self.joined(), 0)[0] - self.size
        else:
            left = -1
        if gap.reason == "snapped" and frames_begin and left > 0 and not self.skip and self.by_client is not None:
            self._begin_head(self.size + left, limits.CUT_MESSAGE_BYTES)
            self._skip_rest(report)
        if self.head is not None:
            self._lose_body(self.head, gap)
        if self.size:
            self._skip_bytes(self.size)
        self.report_skipped(
            gap.packet, gap.time_ns, "a frame broken by a gap" if left >= 0 else "no boundary before a gap", report
        )
        self.need = 4
        if 0 < gap.size <= left and not self.searching:
            self.skip, self.skip_why = left - gap.size, "the rest of a frame broken by a gap"
        else:
            self.skip = 0
            self.search()
        if not self.skip:
            self._end_head(gap.packet, gap.time_ns)

    def _begin_head(self, size: int, most: int, *, long: bool = False) -> None:
        """Keep up to `most` bytes of the message of `size` bytes that begins here, and skip the others."""
        self.head = Head(size, most, long, self.packet[0], self.time_ns[0], self.knows[0])
        self.skip = size

    def _lose_body(self, head: Head, gap: Gap) -> None:
        """Handle a gap after the head of a message: keep it if it identifies the message, and that is known to end."""
        if gap.size < 0 or len(head.data) < (REQUEST_HEAD if self.by_client else ANSWER_HEAD):
            self.skipped, self.skipped_from, self.head = head.framed, head.packet, None
            return
        head.most = 0
        if gap.reason == "snapped" and gap.size <= self.skip:
            gap.reason = "body"

    def _end_head(self, packet: int, time_ns: int) -> None:
        """Note that the message whose head was kept ends with this packet."""
        if self.head is not None:
            self.head.last_packet, self.head.last_time_ns = packet, time_ns
            self.ended_head, self.head = self.head, None
            self.need, self.sound = 4, 0

    def give_up(self, report: Report) -> None:
        """Skip the unfinished frame but for its first bytes, or, without a known boundary, the bytes searched so far:
        they take too much memory.
        """
        if self.need > 4 and not self.searching:
            self._begin_head(self.need, limits.HEAD_BYTES, long=True)
            self._skip_rest(report)
            return
        packet, time_ns = self.ready[-1], self.ready_ns[-1]
        text = f"{self.size} bytes" + ("" if self.searching or self.by_client is None else f" of {self.need}")
        report(
            Weird(
                "UNFINISHED_LIMIT", "framing", packet, time_ns, text, self.flow.id, self.side, self.packet[0], self.size
            )
        )
        if self.by_client is None:
            self.lost = True  # not recognised yet: after recognition the next boundary is searched
        self.doubtful = False
        if self.awaited > self.size:
            self.skip, self.skip_why = self.awaited - self.size, "the rest of a skipped frame"
        self.try_at = self.awaited = 0
        self._skip_bytes(self.size)
        self.need = 4

    def find(self, other: Stream, checker: BodyChecker, final: bool, report: Report) -> bool:
        """Search the bytes for the next message boundary; True if frames can be cut again."""
        if self.doubtful:
            if not self._decide(other, checker, report):
                return False
            if not self.searching:
                return True
        if self.size < _LEAST or (self.size < self.try_at and not final):
            return False
        data, edges = self.joined(), self.edges()
        if self.by_client:
            boundary = next_request(
                data, edges, signed(self.ids[-1]) if self.ids else None, self.client_id, checker, final
            )
        else:
            boundary = next_answer(data, edges, self.open_ids(other))
        if boundary is None or not boundary.sure:
            self.wait_for(boundary, report)
            return False
        packet, time_ns = self.ready[0], self.ready_ns[0]
        self._skip_bytes(boundary.at)
        self.report_skipped(packet, time_ns, "until the next message boundary", report)
        self.searching = False
        self.unsure = UNSURE
        return True

    def find_cut(self, other: Stream, missing: int, checker: BodyChecker, report: Report) -> None:
        """Search the last packet, of which the snap length cut off `missing` bytes, for a message that fills it."""
        data, size = self.data[-1], len(self.data[-1]) + missing
        if self.by_client:
            found = begins_request(data, size, checker.knows, self.client_id)
        else:
            found = begins_answer(data, size, self.open_ids(other))
        if found:
            packet, time_ns = self.ready[-1], self.ready_ns[-1]
            self._skip_bytes(self.size - len(data))
            self.report_skipped(packet, time_ns, "until the next message boundary", report)
            self.searching = self.doubtful = False
            self.unsure = UNSURE

    def wait_for(self, boundary: Boundary | None, report: Report) -> None:
        """Let the search wait for more bytes, since no boundary is certain yet. Of too many bytes, skip those without
        one.
        """
        if self.is_too_much:
            old = self.size - min(limits.RECOGNITION_BYTES, sum(map(len, self.data[-limits.SEARCH_PIECES // 4 :])))
            old = old if boundary is None else min(boundary.at, old)
            self._skip_bytes(old)
            boundary = boundary and boundary._replace(at=boundary.at - old, end=boundary.end - old)
        self.awaited = 0 if boundary is None else boundary.end
        next_size = self.size + (self.size >> 2) if self.is_dear else self.size + 1 if self.by_client else 0
        self.try_at = min(next_size, self.awaited) if self.awaited > self.size else next_size

    def open_ids(self, other: Stream) -> list[int]:
        """Return the ids of requests in `other` that came before these bytes and after the last answered one."""
        packet = self.ready[-1]
        end = bisect_left(other.ids, packet + 1 << 32)
        asked = [
            (number & 0xFFFFFFFF ^ _SIGN) - _SIGN for number in other.ids[max(0, end - REMEMBERED) : end]
        ]  # `signed`, without a call
        return open_at(asked, signed(self.ids[-1]) if self.ids else None)

    def end(
        self,
        how: Literal["fin", "rst", "reused", "restart", "forgotten", "capture"],
        packet: int,
        time_ns: int,
        report: Report,
    ) -> None:
        """Report the rest of the bytes when the connection ends: they are not a whole frame."""
        if self.head is not None:
            head, seen = self.head, self.head.size - self.skip
            begin = head.packet, head.time_ns
            self._report_unfinished(how, begin, (packet, time_ns), head.framed, seen, head.size - 4, report)
            self.head, self.skip = None, 0
        elif self.size and (self.doubtful or not (self.searching or self.skip)):
            length = _INT32(self.joined(), 0)[0] if self.size >= 4 else None
            begin = self.packet[0], self.time_ns[0]
            self._report_unfinished(how, begin, (packet, time_ns), self.size, self.size, length, report)
            self.drop(self.size)
        elif self.size:
            self._skip_bytes(self.size)
        self.report_skipped(packet, time_ns, "no message boundary was found", report)

    def _report_unfinished(
        self,
        how: str,
        begin: tuple[int, int],
        end: tuple[int, int],
        size: int,
        seen: int,
        length: int | None,
        report: Report,
    ) -> None:
        """Report a frame that did not end: packet and time of its beginning and of the end, its captured bytes, how far
        it was seen, and the length that it announces.
        """
        (first, first_ns), (packet, time_ns) = begin, end
        whole = "at least 4" if length is None else 4 + length
        text = f"{seen} of {whole} bytes when the {_ENDS.get(how, 'connection')} ended"
        report(
            Weird("FRAME_TRUNCATED_AT_CLOSE", "framing", packet, time_ns, text, self.flow.id, self.side, first, size)
        )
        most = self.request_limit
        if most is None or length is None or length <= most.size or how in ("capture", "forgotten"):
            return
        if most.is_set or seen <= limits.UNREAD_BYTES:  # else a broker read it, whose setting is above the default
            known_by = "(--max-request-bytes)" if most.is_set else "by default"
            text = f"{length} bytes announced; brokers accept up to {most.size} {known_by}"
            report(Weird("REQUEST_TOO_LONG", "framing", first, first_ns, text, self.flow.id, self.side))


def signed(number: int) -> int:
    """Return the correlation id of one entry of Stream.ids."""
    return (number & 0xFFFFFFFF ^ _SIGN) - _SIGN


_SIGN: Final = 1 << 31
_ENDS: Final = {"capture": "capture"}


def _any_version(key: int, version: int) -> bool:
    return True
