"""What became of every byte of a connection: the time line in, an account for each direction out.

Framing keeps no books: Frames and Weird say of what they dispose, and the Flow what reassembly and TLS did with its
bytes. So nothing is paid for where nobody asks, and the sums differ where a stage forgets a byte: tests hold them
against the packets' sequence numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kshark.model import Closed, Event, Flow, Frames, Side, Weird

if TYPE_CHECKING:
    from kshark.model import Int64s

#: An int32 before each frame.
_PREFIX: Final = 4
#: What framing says of bytes that became no message. The four of a FRAME_LENGTH_INVALID are the first of a
#: BYTES_SKIPPED too.
_SKIPPED: Final = "BYTES_SKIPPED"
_UNFINISHED: Final = "FRAME_TRUNCATED_AT_CLOSE"


class Account(NamedTuple):
    """Bytes that one side sent, by what became of them; they add up to `length`.

    `framed` became `messages`, `gap` is not in the capture, `skipped` lies where no message begins, `unfinished` began
    one that did not end. `foreign` is of no Kafka: another protocol, TLS that was not decrypted. `sealing` is what TLS
    adds to what it protects. A hole whose size nobody knows is in no sum: Flow.gaps counts it."""

    messages: int
    framed: int
    gap: int
    skipped: int
    unfinished: int
    foreign: int
    sealing: int

    @property
    def length(self) -> int:
        """From the first byte known to the last one."""
        return self.framed + self.gap + self.skipped + self.unfinished + self.foreign + self.sealing


class _Books:
    """What is known so far of both sides of an open connection."""

    __slots__ = ("framed", "messages", "skipped", "unfinished")

    def __init__(self) -> None:
        self.messages, self.framed, self.skipped, self.unfinished = [0, 0], [0, 0], [0, 0], [0, 0]

    def close(self, flow: Flow, side: Side) -> Account:
        carried, gap = flow.stream_bytes[side], flow.missing_bytes[side]
        if flow.service != "kafka":  # what was passed over before that was known is part of it
            return Account(0, 0, gap, 0, 0, carried, 0)
        foreign = sealing = 0
        if flow.tls is not None:
            foreign = flow.tls.unread[side]
            sealing = carried - foreign - flow.tls.content[side]
        return Account(
            self.messages[side], self.framed[side], gap, self.skipped[side], self.unfinished[side], foreign, sealing
        )


class Ledger:
    """`feed` takes the time line and gives the accounts of the connections that ended, side 0 first."""

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
        size: Int64s = frames.end - frames.start + _PREFIX
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
