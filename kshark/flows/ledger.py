"""The use of every byte of a connection: the time line in, an account for each direction out.

Framing counts no bytes itself. Frames and Weird events show the bytes that they use, and the Flow those
of reassembly and TLS. So the accounts cost nothing unless they are requested, and a sum differs if a stage loses a
byte: tests compare the sums with the packets' sequence numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kshark.model import Closed, Event, Flow, Frames, Side, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

#: An int32 before each frame.
_PREFIX: Final = 4
#: Weird codes of bytes that belong to no message. The four bytes of a FRAME_LENGTH_INVALID are also the first of a
#: BYTES_SKIPPED.
_SKIPPED: Final = "BYTES_SKIPPED"
_UNFINISHED: Final = "FRAME_TRUNCATED_AT_CLOSE"


class Account(NamedTuple):
    """The bytes that one side sent, by their use; they add up to `length`.

    `framed`: in `messages`. `gap`: missing in the capture. `skipped`: where no message begins. `unfinished`: of a
    message that did not end. `foreign`: not Kafka, but another protocol or TLS that was not decrypted. `sealing`: added
    by TLS to the content that it protects. `proxy`: PROXY headers. A hole of unknown size is in no sum: Flow.gaps
    counts it."""

    messages: int
    framed: int
    gap: int
    skipped: int
    unfinished: int
    foreign: int
    sealing: int
    proxy: int

    @property
    def length(self) -> int:
        """The bytes from the first known one to the last known one."""
        return self.framed + self.gap + self.skipped + self.unfinished + self.foreign + self.sealing + self.proxy


class _Books:
    """The counts of both sides of an open connection."""

    __slots__ = ("framed", "messages", "skipped", "unfinished")

    def __init__(self) -> None:
        self.messages, self.framed, self.skipped, self.unfinished = [0, 0], [0, 0], [0, 0], [0, 0]

    def close(self, flow: Flow, side: Side) -> Account:
        carried, gap = flow.stream_bytes[side], flow.missing_bytes[side]
        proxied = flow.proxied
        proxy = proxied.size if proxied is not None and proxied.side == side else 0
        carried -= proxy
        if flow.service != "kafka":  # the bytes skipped before the service was known are part of it
            return Account(0, 0, gap, 0, 0, carried, 0, proxy)
        foreign = sealing = 0
        if flow.tls is not None:
            foreign = flow.tls.unread[side]
            sealing = carried - foreign - flow.tls.content[side]
        return Account(
            self.messages[side],
            self.framed[side],
            gap,
            self.skipped[side],
            self.unfinished[side],
            foreign,
            sealing,
            proxy,
        )


class Ledger:
    """Keep the accounts of connections. `feed` returns the accounts of those that ended, side 0 first."""

    def __init__(self) -> None:
        self._open: dict[int, _Books] = {}

    def feed(self, events: Iterable[Event]) -> list[tuple[Closed, tuple[Account, Account]]]:
        closed: list[tuple[Closed, tuple[Account, Account]]] = []
        for event in events:
            if isinstance(event, Frames):
                self._frames(event)
            elif isinstance(event, Weird):
                self._weird(event)
            elif isinstance(event, Closed):
                books = self._open.pop(event.flow.id, None) or _Books()
                closed.append((event, (books.close(event.flow, 0), books.close(event.flow, 1))))
        return closed

    def _of(self, flow: int) -> _Books:
        return self._open.get(flow) or self._open.setdefault(flow, _Books())

    def _frames(self, frames: Frames) -> None:
        size: Int64s = frames.end - frames.start + frames.dropped + _PREFIX
        messages = np.bincount(frames.stream, minlength=len(frames.flows))
        framed = np.bincount(frames.stream, size, len(frames.flows))
        for stream in np.flatnonzero(messages).tolist():
            flow = frames.flows[stream]
            client = flow.client_side or 0
            side = client if frames.by_client[stream] else 1 - client
            books = self._of(flow.id)
            books.messages[side] += int(messages[stream])
            books.framed[side] += int(framed[stream])

    def _weird(self, weird: Weird) -> None:
        if weird.flow is None or weird.side is None or weird.stage != "framing":
            return
        if weird.code == _SKIPPED:
            self._of(weird.flow).skipped[weird.side] += weird.size
        elif weird.code == _UNFINISHED:
            self._of(weird.flow).unfinished[weird.side] += weird.size
