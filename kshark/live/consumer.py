"""The interface of consumers of a running capture, and the status of the capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from kshark.model import Event, Finding, Lost, PacketBatch


class Status(Struct):
    """The state of a running capture. `interfaces` are those captured, `down` those of them without a link.

    `now_ns` is the time of the computer, `packets` the number judged since `since_ns`, `dropped` the number for which
    the kernel had no room, `lost` the last of these losses. `delay_ns` is the age of the oldest packet that is not
    judged, 0 if there is none; `waiting` the bytes captured and not judged. `recorder`: what the flight recorder
    holds, empty without one. `fault`: what stands in the way of the capture, as a sentence. `not_judged`: packets that
    were not judged since the capture had to end.
    """

    interfaces: tuple[str, ...]
    since_ns: int
    now_ns: int
    packets: int = 0
    dropped: int = 0
    lost: tuple[Lost, ...] = ()
    down: tuple[str, ...] = ()
    delay_ns: int = 0
    waiting: int = 0
    recorder: str = ""
    fault: str = ""
    not_judged: int = 0


class Consumer(Protocol):
    """A use of a running capture. The order of calls is that of the capture; all calls are in one thread."""

    def packets(self, batch: PacketBatch) -> None:
        """Take packets, before they are judged."""

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        """Take the events of judged packets, and the findings that they prove."""

    def status(self, status: Status) -> None:
        """Take the status: four times a second, also without packets."""

    def close(self, findings: Sequence[Finding]) -> None:
        """End the capture; `findings` are those that only its end proves."""
