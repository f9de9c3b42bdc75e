"""Judge a running capture until it ends, and give everything to its consumers."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from kshark.live.consumer import Consumer, Status
from kshark.model import Event, Finding, Message, PacketBatch, Tick, Weird
from kshark.pipeline import Engine
from kshark.run import Run

if TYPE_CHECKING:
    from kshark.capture.followed import Followed
    from kshark.capture.live import LiveCapture

#: Time between two statuses.
_STATUS_S: Final = 0.25
#: After a signal, packets that were captured before it are judged for so long.
_LAST_S: Final = 1.0
#: And messages of these packets that are only complete at the end, for so much longer.
_CLOSING_S: Final = 1.0
_EVENTS: Final = 1_000


class Totals(Struct):
    """Packets of a running capture that were judged, and packets and messages that were not because it had to end."""

    packets: int = 0
    not_judged: int = 0
    messages_not_judged: int = 0


class Running:
    """A running capture with its consumers.

    `keys` returns new lines of a TLS key log; `cut` the packets of a batch that are part of the capture;
    `recorder` what the flight recorder holds; `is_done` may end it early. `keeps_packets`: consumers want the packets
    that are not judged, too.
    """

    def __init__(
        self,
        capture: LiveCapture | Followed,
        engine: Engine,
        run: Run,
        consumers: Sequence[Consumer],
        *,
        keys: Callable[[], bytes] = bytes,
        cut: Callable[[PacketBatch], PacketBatch] = lambda batch: batch,
        recorder: Callable[[], str] = str,
        is_done: Callable[[], bool] = bool,
        keeps_packets: bool = False,
    ) -> None:
        self.totals = Totals()
        self._capture = capture
        self._engine = engine
        self._run = run
        self._consumers = consumers
        self._keys = keys
        self._cut = cut
        self._recorder = recorder
        self._is_done = is_done
        self._keeps_packets = keeps_packets
        self._since_ns = time.time_ns()
        self._status_due = 0.0
        #: When judging ends, by time.monotonic; None before the first signal.
        self._until: float | None = None

    def end(self) -> None:
        """End the capture soon: from a signal handler, or by a consumer. The second call ends judging at once."""
        self._until = time.monotonic() + _LAST_S if self._until is None else 0.0
        self._capture.stop()

    def run(self) -> None:
        """Judge until the capture ends."""
        try:
            for item in self._capture:
                if self._until is not None and time.monotonic() > self._until:
                    self._skip(item)
                    continue
                self._item(item)
                self._status()
                if self._is_done():
                    break
        finally:
            self._capture.close()
        for page in self._engine.close():
            self._last_page(page)
        findings = self._run.close()
        self._status(last=True)
        for consumer in self._consumers:
            consumer.close(findings)

    def _item(self, item: PacketBatch | Weird | Tick | None) -> None:
        if isinstance(item, PacketBatch):
            item.secrets += self._keys()
            item = self._cut(item)
            self.totals.packets += len(item.number)
            self._packets(item)
        if item is not None:
            for page in self._engine.feed(item):
                self._page(page)

    def _skip(self, item: PacketBatch | Weird | Tick | None) -> None:
        """Count packets for which no time is left; they are still written to files."""
        if isinstance(item, PacketBatch):
            item = self._cut(item)
            self.totals.not_judged += len(item.number)
            self._packets(item)
        if not self._keeps_packets:
            self.totals.not_judged += self._capture.rest()

    def _last_page(self, page: list[Event]) -> None:
        """Take a page at the end: it may have all events of connections that were not yet recognised."""
        for at in range(0, len(page), _EVENTS):
            if self._until is not None and time.monotonic() > self._until + _CLOSING_S:
                self.totals.messages_not_judged += sum(type(event) is Message for event in page[at:])
                return
            self._page(page[at : at + _EVENTS])

    def _packets(self, batch: PacketBatch) -> None:
        for consumer in self._consumers:
            consumer.packets(batch)

    def _page(self, page: list[Event]) -> None:
        findings: list[Finding] = self._run.page(page)
        for consumer in self._consumers:
            consumer.page(page, findings)

    def _status(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now < self._status_due:
            return
        self._status_due = now + _STATUS_S
        capture = self._capture
        status = Status(
            capture.interfaces,
            self._since_ns,
            time.time_ns(),
            self.totals.packets,
            capture.dropped,
            tuple(capture.losses),
            tuple(capture.down),
            0 if last else capture.delay_ns,
            0 if last else capture.waiting,
            recorder=self._recorder(),
            fault=capture.fault,
            not_judged=self.totals.not_judged,
        )
        for consumer in self._consumers:
            consumer.status(status)


@contextmanager
def ended_by_signals(end: Callable[[], None], restore: Callable[[], object] = bool) -> Iterator[None]:
    """Call `end` for SIGINT, SIGTERM and SIGHUP. The third one ends the program at once, after `restore`."""
    signals = 0

    def handle(number: int, frame: Any) -> None:
        nonlocal signals
        signals += 1
        if signals > 2:
            restore()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        end()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
