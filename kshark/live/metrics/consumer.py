"""The consumer behind `kshark live --prometheus`.

The judging thread counts, and makes a copy of the counts when a scrape has asked for one; the threads of the server
choose the series and write them. So a scrape waits for the judging thread, and never the other way round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from kshark.analysis import Change
from kshark.live.consumer import Status
from kshark.live.metrics.counts import LiveCounts
from kshark.live.metrics.exposition import Format, exposition, negotiated
from kshark.live.metrics.families import Series, families
from kshark.live.metrics.limited import Limiter
from kshark.live.metrics.server import Address, Answer, MetricsServer
from kshark.model import Event, Finding, PacketBatch
from kshark.registry import Registry
from kshark.run import Run

#: A copy of the counts is made at most so often, and takes at most this part of the judging thread's time, whatever the
#: number of scrapes: with 5,000 partitions and 10,000 members it takes 0.1 s.
_SECONDS: Final = 1.0
_PART: Final = 0.02
#: A scrape waits so long for it; then it gets the last one.
PATIENCE_SECONDS: Final = 2.0
#: Without a status for this long, the judging thread does not run: /-/healthy says so.
SILENT_SECONDS: Final = 60.0
_PLAIN: Final = "text/plain; charset=utf-8"


class Copy(NamedTuple):
    """The counts at one time; `number` counts the copies. `until`: no new one is made before (monotonic seconds)."""

    number: int
    until: float
    series: Series


class Board:
    """The last copy of the counts, between two threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._copy = Copy(0, float("-inf"), {})
        #: True if a scrape waits for a new copy.
        self.is_wanted = False

    def put(self, series: Series, seconds: float) -> None:
        """Set a new copy, which took so long; called by the judging thread."""
        with self._changed:
            until = time.monotonic() + max(_SECONDS, seconds / _PART)
            self._copy = Copy(self._copy.number + 1, until, series)
            self.is_wanted = False
            self._changed.notify_all()

    def get(self) -> Copy:
        """Return a new copy, or the last one if that is not old, or after PATIENCE_SECONDS; called by other threads."""
        with self._changed:
            last = self._copy
            if time.monotonic() >= last.until:
                self.is_wanted = True
                self._changed.wait_for(lambda: self._copy is not last, PATIENCE_SECONDS)
            return self._copy


class Pages:
    """The answers to scrapes; each copy is written once in each format."""

    def __init__(self, board: Board, labels: Sequence[str] = ()) -> None:
        self._board = board
        self._families = families(tuple(labels))
        self._limiter = Limiter(self._families)
        self._lock = threading.Lock()
        self._shown: tuple[int, Series] = (-1, {})
        self._written: dict[Format, bytes] = {}

    def metrics(self, accept: str) -> Answer:
        form = negotiated(accept)
        copy = self._board.get()
        with self._lock:
            if copy.number > self._shown[0]:
                self._shown = copy.number, self._limiter.limit(copy.series)
                self._written.clear()
            if form not in self._written:
                self._written[form] = exposition(self._families, self._shown[1], form)
            return Answer(HTTPStatus.OK, form.content_type, self._written[form])


class Metrics:
    """Serve the metrics of a running capture at `url`. `judges` must name its run before the first page.

    `labels`: of families.OPTIONAL, those that findings and error responses have too. Raise UsageError if the address
    cannot be used.
    """

    def __init__(self, at: Address, registry: Registry, labels: Sequence[str] = ()) -> None:
        self._counts = LiveCounts(registry, labels)
        self._board = Board()
        self._pages = Pages(self._board, labels)
        self._run: Run | None = None
        self._status: Status | None = None
        self._heard = 0.0
        self._server = MetricsServer(at, self._respond)
        self.url = self._server.url

    @property
    def changed(self) -> Callable[[Change], None]:
        """Take a change of records in flight, as the run's `on_change`."""
        return self._counts.changed

    def judges(self, run: Run) -> None:
        """Set the run that judges the capture."""
        self._run = run

    def packets(self, batch: PacketBatch) -> None:
        self._counts.bytes += int(batch.wire_length.sum())

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        assert self._run is not None
        self._counts.page(page, findings, self._run)

    def status(self, status: Status) -> None:
        self._status, self._heard = status, time.monotonic()
        if self._board.is_wanted:
            self._copy()
        self._server.start()

    def close(self, findings: Sequence[Finding]) -> None:
        self._server.close()

    def _copy(self) -> None:
        if self._status is not None and self._run is not None:
            begun = time.monotonic()
            series = self._counts.series(self._status, self._run)
            self._board.put(series, time.monotonic() - begun)

    def _respond(self, path: str, accept: str) -> Answer:
        """Answer a scrape or a probe; called by the server's threads."""
        if path == "/metrics":
            return self._pages.metrics(accept)
        if path == "/-/ready":
            return _said(self._status is not None, "capturing")
        if path == "/-/healthy":
            return _said(time.monotonic() - self._heard < SILENT_SECONDS, "judging")
        return Answer(HTTPStatus.NOT_FOUND, _PLAIN, b"there is /metrics, /-/healthy and /-/ready\n")


def _said(is_so: bool, what: str) -> Answer:
    status = HTTPStatus.OK if is_so else HTTPStatus.SERVICE_UNAVAILABLE
    return Answer(status, _PLAIN, f"{what if is_so else f'not {what}'}\n".encode())
