"""`--since` and `--until`: show only the events of a period.

Reading starts at the beginning of the capture, so that sessions and connections that are open at the start of the
period are known. It stops at the end of the period.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Final

from kshark.capture.batches import chosen
from kshark.errors import UsageError
from kshark.model import PacketBatch
from kshark.units import moment

_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
#: Packets are out of order by at most this much (interfaces or queues written in turn). Reading continues this long
#: after the end of the period.
_DISORDER: Final = 10 * _SECOND
_OF_DAY: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,9})?))?")


def time_of(text: str, start_ns: int) -> int:
    """Return a time in ns since 1970.

    `text`: `+10s` after the start, `14:03:07.4` on the day of the start (UTC), ISO 8601, or seconds since 1970.
    """
    from kshark.conditions.moments import duration_of, moment_of  # only needed if a time is given

    if of_day := _OF_DAY.fullmatch(text):
        hours, minutes, seconds = int(of_day[1]), int(of_day[2]), Decimal(of_day[3] or 0)
        if hours < 24 and minutes < 60 and seconds < 60:
            return start_ns - start_ns % _DAY + (hours * 3600 + minutes * 60) * _SECOND + int(seconds * _SECOND)
    try:
        if text.startswith("+"):
            return start_ns + duration_of(text[1:], "s")
        # in seconds this is the spring of 1970; most likely the + is missing
        if not re.fullmatch(r"\d{1,7}(\.\d*)?", text):
            return moment_of(text)
    except (ValueError, OverflowError):
        pass
    raise UsageError(f'"{text}" is not a time; write +10s, 14:03:07, 2026-11-21T14:03:07Z or seconds since 1970')


class Period:
    """Cut batches at the end of the period, and report which times are in it.

    Relative times count from the first packet. Raises UsageError for a text that is not a time.
    """

    def __init__(self, since: str | None, until: str | None) -> None:
        self._since, self._until = since, until
        self._bounds: tuple[int, int] | None = None
        self._last_ns = -(1 << 62)
        #: True after the end of the period.
        self.over = False
        for text in (since, until):
            if text is not None:
                time_of(text, 0)

    @property
    def begin_ns(self) -> int:
        """The start of the period in ns; earlier events are not shown."""
        return -(1 << 62) if self._bounds is None else self._bounds[0]

    def shows(self, time_ns: int) -> bool:
        """True if events of that time are shown."""
        return time_ns >= self.begin_ns

    def missed(self, packets: int) -> str | None:
        """Return why a capture without packets in the period has none; None if it has some.

        `packets`: number of packets before the end of the period. Call it at the end of the capture.
        """
        if self._bounds is None:
            return None
        low, high = self._bounds
        if high <= low:
            return f"--until {self._until} is not after --since {self._since}"
        if packets and self._last_ns >= low:
            return None
        if packets:
            return f"it ends at {moment(self._last_ns)}, before --since {self._since}"
        return f"it begins after --until {self._until}"

    def clip(self, batch: PacketBatch) -> PacketBatch | None:
        """Return the packets before the end of the period; None if there are none."""
        if (self._since is None and self._until is None) or not len(batch.time_ns):
            return batch
        if self._bounds is None:
            start = int(batch.time_ns[0])
            low = start if self._since is None else time_of(self._since, start)
            high = 1 << 62 if self._until is None else time_of(self._until, start)
            if high <= start and self._until is not None and _OF_DAY.fullmatch(self._until):
                high += _DAY  # after midnight
                if self._since is not None and low < start and low + _DAY < high and _OF_DAY.fullmatch(self._since):
                    low += _DAY
            self._bounds = (low if self._since is not None else -(1 << 62), high)
        self._last_ns = max(self._last_ns, int(batch.time_ns.max()))
        high = self._bounds[1]
        self.over = bool(batch.time_ns.min() > high + _DISORDER)
        inside = batch.time_ns < high
        if inside.all():
            return batch
        if not inside.any():
            return None
        return replace(chosen(batch, inside), secrets=batch.secrets)
