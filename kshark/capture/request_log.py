"""Read the request log of a broker (logger kafka.request.logger) as a capture: two rows for each completed request,
and one for each restart.

A line is `Completed request:{...}` after any prefix with a time, or the JSON object alone with its time in `logged_ms`.
The broker writes a line when it has sent the answer. So the line's time is the end of the request, and `totalTimeMs`
before it is its beginning (Kafka: RequestChannel.updateRequestMetrics, RequestConvertToJson). Both rows hold the
bytes of the JSON object; kshark.requests decodes them. Their `frame` is the number of the line.

Rows are sorted by time: a request that waited for long begins before lines that stand earlier in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from kshark import limits
from kshark.capture.logged_restarts import LoggedRestarts
from kshark.capture.resume_point import START, ResumePoint
from kshark.model import LOGGED_AFTER_GAP, LOGGED_REQUEST, LOGGED_RESPONSE, LOGGED_RESTART, PacketBatch, Weird
from kshark.requests.connections import connection_of
from kshark.units import counted

#: Software that does not send every correlation id: NetworkClient counts requests that it then cannot send.
_SKIPPING: Final = frozenset({"apache-kafka-java"})
#: No time of a log is later: numbers of nanoseconds have 63 bits.
_LATEST_NS: Final = 1 << 62
_COMPLETED: Final = b"Completed request:"
#: `2026-11-21 03:37:41,218`, also with T, a point, and a zone; or a number as a word.
_DATE: Final = re.compile(
    rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,:](\d{1,9}))? ?(Z|[+-]\d\d:?(?:\d\d)?)?"
    rb"|(?<![\w.:])(\d{13}|20\d{15})(?![\w.:])"
)
#: From this number on it is no time in milliseconds but a date in the layout COMPACT of log4j: 20261121033741218.
_COMPACT_FROM: Final = 10**16
_NAMES: Final = {
    "header": "requestHeader",
    "total_ms": "totalTimeMs",
    "is_forwarded": "isForwarded",
    "client": "clientInformation",
}


class LoggedHeader(msgspec.Struct, rename="camel", gc=False):
    """The fields of a request header that this module needs."""

    correlation_id: int
    client_id: str | None = None


class LoggedClient(msgspec.Struct, rename="camel", gc=False):
    """The software of a client, from its ApiVersions request."""

    software_name: str = ""


class LoggedLine(msgspec.Struct, rename=_NAMES, gc=False):
    """The fields of a line that this module needs."""

    header: LoggedHeader
    request: msgspec.Raw
    connection: str
    total_ms: float
    is_forwarded: bool = False
    logged_ms: float | None = None
    client: LoggedClient | None = None


class _Row(NamedTuple):
    """One row, sorted by time, then by line and side.

    `before`: the correlation ids of the client that lie between those of this request and the one before it on its
    connection.
    """

    time_ns: int
    line: int
    link_type: int
    text: bytes
    before: range
    ids: Ids


class Ids:
    """The correlation ids of one client, which counts them up over all its connections."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def add(self, number: int) -> None:
        """Note an id; the oldest are forgotten."""
        self._seen.add(number)
        if len(self._seen) > limits.LOGGED_IDS:
            self._seen = set(sorted(self._seen)[limits.LOGGED_IDS // 2 :])

    def has(self, numbers: range) -> bool:
        """True if each of these ids was seen."""
        return len(numbers) <= limits.LOGGED_IDS and self._seen.issuperset(numbers)


_LINE: Final = msgspec.json.Decoder(LoggedLine)


class RequestLogReader:
    """Reads the lines of a request log; `feed` yields PacketBatches in order of time.

    Lines that are no completed request, or have no time, are counted, and reported by `close`. A line cut by the end of
    the file is reported as CAPTURE_CUT.
    """

    def __init__(self, begin: ResumePoint[Any] = START) -> None:
        #: A log is one log to its end: no other capture follows in it.
        self.rest = b""
        self.resume_point = begin
        self._cut = b""
        self._line = 0
        self._number = begin.packets
        self._rows: list[_Row] = []
        self._held_bytes = 0
        #: The latest end so far, and the time up to which rows were given.
        self._latest_ns = self._given_ns = begin.time_ns
        #: By connection, the end of its last request: a broker reads the next one after that.
        self._ends: dict[str, int] = {}
        #: By connection, the correlation id of its last request; by client, those of all its requests.
        self._last_ids: dict[str, int] = {}
        self._ids: dict[tuple[str, str | None], Ids] = {}
        self._restarts = LoggedRestarts()
        self._unreadable = 0
        self._first_unreadable = ""

    def feed(self, data: bytes) -> Iterator[PacketBatch | Weird]:
        """Yield the rows that no later line can precede."""
        lines = (self._cut + data).split(b"\n")
        self._cut = lines.pop()
        if len(self._cut) > limits.LOG_LINE_BYTES:
            self._cut = self._cut[:1]  # the rest of the line makes it unreadable, whatever it is
        for text in lines:
            self._take(text)
        yield from self._given(self._latest_ns - limits.LOGGED_NS)

    def close(self) -> Iterator[PacketBatch | Weird]:
        """Yield all rows, and what could not be read."""
        cut = self._cut.strip()
        self._cut = b""
        is_cut = bool(cut) and not self._take(cut, may_be_cut=True)
        yield from self._given(None)
        if self._unreadable:
            yield self._weird(
                "LOG_LINES_UNREADABLE",
                f"{counted(self._unreadable, 'line')}; the first is {self._first_unreadable}",
                self._unreadable,
            )
        if is_cut:
            yield self._weird("CAPTURE_CUT", f"the file ends inside line {self._line}", len(cut))

    def _weird(self, code: str, detail: str, size: int) -> Weird:
        return Weird(code, "capture", self._number, self._given_ns, detail, size=size)

    def _take(self, text: bytes, *, may_be_cut: bool = False) -> bool:
        """Hold the rows of a line; return False if there are none."""
        self._line += 1
        text = text.strip()
        if not text:
            return True
        begin, end = _json(text)
        try:
            line = _LINE.decode(text[begin:end])
            end_ns = _time(text[:begin]) if line.logged_ms is None else _of_number(line.logged_ms)
            duration_ns = int(line.total_ms * 1e6)
        except (msgspec.DecodeError, ValueError, OverflowError):
            end_ns, duration_ns = None, 0
        if end_ns is None or not 0 <= duration_ns <= end_ns < _LATEST_NS:
            if not may_be_cut:
                has_no_time = end_ns is None and _is_whole(text[begin:end])
                self._count_unreadable("without a time" if has_no_time else "no completed request")
            return False
        if not line.is_forwarded:  # the log of the broker that forwarded it has the request itself
            self._hold(line, end_ns, duration_ns, text[begin:end])
        return True

    def _count_unreadable(self, why: str) -> None:
        self._unreadable += 1
        self._first_unreadable = self._first_unreadable or f"line {self._line}: {why}"

    def _hold(self, line: LoggedLine, end_ns: int, duration_ns: int, text: bytes) -> None:
        ends = self._ends
        restart = self._restarts.line(line.connection, self._line, end_ns - duration_ns, end_ns)
        if restart is not None:
            self._push(
                _Row(restart.time_ns + 1, restart.line, LOGGED_RESTART, restart.broker.encode(), range(0), Ids())
            )
        begin_ns = max(end_ns - duration_ns, ends.pop(line.connection, 0))
        end_ns = max(end_ns, begin_ns)
        ends[line.connection] = end_ns
        if len(ends) > limits.FLOWS:
            del ends[next(iter(ends))]
        self._latest_ns = max(self._latest_ns, end_ns)
        before, ids = self._between(line)
        self._push(_Row(begin_ns, self._line, LOGGED_REQUEST, text, before, ids))
        self._push(_Row(end_ns, self._line, LOGGED_RESPONSE, text, range(0), ids))

    def _push(self, row: _Row) -> None:
        heappush(self._rows, row)
        self._held_bytes += len(row.text)

    def _between(self, line: LoggedLine) -> tuple[range, Ids]:
        """Return the correlation ids since the last request of the connection, and all ids of the client.

        A line that is missing (a filtered log, a lost file) shows only by them: clients count them up.
        """
        number, last_ids = line.header.correlation_id, self._last_ids
        client = _client(line.connection), line.header.client_id
        ids = self._ids.pop(client, None) or Ids()
        self._ids[client] = ids
        ids.add(number)
        last = last_ids.pop(line.connection, number)
        skips = line.client is not None and line.client.software_name in _SKIPPING
        before = range(0) if skips else range(last + 1, number)
        last_ids[line.connection] = number
        if len(last_ids) > limits.FLOWS:
            del last_ids[next(iter(last_ids))]
        if len(self._ids) > limits.FLOWS:
            del self._ids[next(iter(self._ids))]
        return before, ids

    def _given(self, until_ns: int | None) -> Iterator[PacketBatch]:
        """Yield the rows up to that time, and older ones if too many wait; None: all."""
        rows: list[_Row] = []
        while self._rows and (
            until_ns is None or self._rows[0].time_ns <= until_ns or self._held_bytes > limits.LOGGED_BYTES
        ):
            row = heappop(self._rows)
            self._held_bytes -= len(row.text)
            rows.append(row if row.ids.has(row.before) else row._replace(link_type=LOGGED_AFTER_GAP))
        for at in range(0, len(rows), limits.BATCH_PACKETS):
            yield self._batch(rows[at : at + limits.BATCH_PACKETS])

    def _batch(self, rows: list[_Row]) -> PacketBatch:
        length = np.array([len(row.text) for row in rows], np.int64)
        # A request that began before rows that are already given stands at their time.
        time_ns = np.maximum(np.array([row.time_ns for row in rows], np.int64), self._given_ns)
        self._given_ns = int(time_ns[-1])
        number = np.arange(self._number + 1, self._number + 1 + len(rows))
        self._number += len(rows)
        return PacketBatch(
            b"".join([row.text for row in rows]),
            number,
            time_ns,
            np.array([row.link_type for row in rows], np.int64),
            np.cumsum(length) - length,
            length,
            length,
            frame=np.array([row.line for row in rows], np.int64),
        )


def _client(connection: str) -> str:
    """Return the address of the client of a connection."""
    parts = connection_of(connection)
    return connection if parts is None else parts.client


def _json(text: bytes) -> tuple[int, int]:
    """Return the bounds of the JSON object of a line; the layout of the log may add words after it."""
    at = text.find(_COMPLETED)
    begin = text.find(b"{", 0 if at < 0 else at)
    return (begin, text.rfind(b"}") + 1) if begin >= 0 else (len(text), len(text))


def _is_whole(text: bytes) -> bool:
    try:
        _LINE.decode(text)
    except (msgspec.DecodeError, ValueError):  # ValueError: no UTF-8
        return False
    return True


def _time(prefix: bytes) -> int | None:
    """Return the time of a line in ns since 1970, from the words before its message; without a zone it is UTC."""
    match = _DATE.search(prefix)
    if match is None:
        return None
    date, clock, fraction, zone, millis = match.groups()
    if millis is not None:
        return _of_number(int(millis))
    zone = b"+00:00" if zone in (None, b"Z") else zone
    moment = datetime.fromisoformat(f"{date.decode()}T{clock.decode()}{zone.decode()}")
    seconds = int(moment.astimezone(UTC).timestamp())
    return seconds * 1_000_000_000 + int((fraction or b"0").ljust(9, b"0"))


def _of_number(millis: float) -> int:
    """Return the time of a number, in ns: milliseconds since 1970, or a date as `20261121033741218`, in UTC."""
    if millis < _COMPACT_FROM:
        return int(millis * 1_000_000)
    seconds, rest_ms = divmod(int(millis), 1_000)
    return int(datetime.strptime(f"{seconds}Z", "%Y%m%d%H%M%S%z").timestamp()) * 1_000_000_000 + rest_ms * 1_000_000
