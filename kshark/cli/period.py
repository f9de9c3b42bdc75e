"""`--since` and `--until`: only what happened in a period is shown.

Reading stops at its end, but starts at the beginning of the capture: sessions and connections that are open when the
period begins are known then."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Final

from kshark.errors import UsageError
from kshark.model import PacketBatch
from kshark.output.units import moment

_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
#: Packets are out of order by this much at most (interfaces or queues written in turn); so far beyond the end reading
#: goes on.
_DISORDER: Final = 10 * _SECOND
_OF_DAY: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,9})?))?")


def time_of(text: str, start_ns: int) -> int:
    """A time as ns since 1970: `+10s` after the start, `14:03:07.4` of the start's day (UTC), ISO 8601, or seconds
    since 1970."""
    from kshark.conditions.moments import (
        duration_of,
        moment_of,
    )  # where nobody names a time, nothing of conditions is imported

    if of_day := _OF_DAY.fullmatch(text):
        hours, minutes, seconds = int(of_day[1]), int(of_day[2]), Decimal(of_day[3] or 0)
        if hours < 24 and minutes < 60 and seconds < 60:
            return start_ns - start_ns % _DAY + (hours * 3600 + minutes * 60) * _SECOND + int(seconds * _SECOND)
    try:
        if text.startswith("+"):
            return start_ns + duration_of(text[1:], "s")
        if not re.fullmatch(
            r"\d{1,7}(\.\d*)?", text
        ):  # as seconds, in the spring of 1970: more likely the + was forgotten
            return moment_of(text)
    except (ValueError, OverflowError):
        pass
    raise UsageError(f'"{text}" is no time; write +10s, 14:03:07, 2026-11-21T14:03:07Z or seconds since 1970')


class Period:
    """Cuts batches at the period's end, and knows what lies before its beginning; relative times count from the first
    packet.

    Raises UsageError for what is no time.
    """

    def __init__(self, since: str | None, until: str | None) -> None:
        self._since, self._until = since, until
        self._bounds: tuple[int, int] | None = None
        self._last_ns = -(1 << 62)
        #: The end of the period was passed.
        self.over = False
        for text in (since, until):
            if text is not None:
                time_of(text, 0)

    @property
    def begin_ns(self) -> int:
        """What happened before is not told."""
        return -(1 << 62) if self._bounds is None else self._bounds[0]

    def shows(self, time_ns: int) -> bool:
        """Whether what happened then is told."""
        return time_ns >= self.begin_ns

    def missed(self, packets: int) -> str | None:
        """Why the capture, which is over and had so many packets of the period's end, has none of the period; None if
        it has."""
        if self._bounds is None:
            return None
        low, high = self._bounds
        if high <= low:
            return f"--until {self._until} is not after --since {self._since}"
        if packets and self._last_ns >= low:
            return None
        if packets:
            return f"it ends at {moment(self._last_ns)}, before --since {self._since}"
        return f"it begins behind --until {self._until}"

    def clip(self, batch: PacketBatch) -> PacketBatch | None:
        """The packets before the period's end; None if there are none."""
        if (self._since is None and self._until is None) or not len(batch.time_ns):
            return batch
        if self._bounds is None:
            start = int(batch.time_ns[0])
            low = start if self._since is None else time_of(self._since, start)
            high = 1 << 62 if self._until is None else time_of(self._until, start)
            if high <= start and self._until is not None and _OF_DAY.fullmatch(self._until):
                high += _DAY  # behind midnight
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
        return replace(
            batch,
            number=batch.number[inside],
            time_ns=batch.time_ns[inside],
            link_type=batch.link_type[inside],
            offset=batch.offset[inside],
            length=batch.length[inside],
            wire_length=batch.wire_length[inside],
        )
