"""Text formats of numbers, times and strings from captures."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_SECOND: Final = 1_000_000_000


def clock(time_ns: int, digits: int = 6) -> str:
    """Return the time of day in UTC, as brokers in containers log it: `14:03:07.412345`."""
    seconds, rest = divmod(time_ns, _SECOND)
    day = seconds % 86_400
    return f"{day // 3600:02}:{day // 60 % 60:02}:{day % 60:02}.{rest // 10 ** (9 - digits):0{digits}}"


def moment(time_ns: int) -> str:
    """Return date and time of day in UTC with milliseconds: `2026-11-21 14:03:07.412`.

    A time outside the calendar is returned as plain seconds.
    """
    try:
        day = datetime.fromtimestamp(time_ns // _SECOND, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ns / _SECOND:.3f} s"
    return f"{day:%Y-%m-%d} {clock(time_ns, 3)}"


def duration(ns: int) -> str:
    """Return three significant digits and a unit: `812 µs`, `1.25 ms`, `30.0 s`, `5 min 3 s`, `2 h 05 min`."""
    if ns < 0:
        return "-" + duration(-ns)
    if ns < _SECOND:
        value, unit = (ns / 1e3, "µs") if ns < 1_000_000 else (ns / 1e6, "ms")
        return f"{_three(value)} {unit}"
    if ns < 60 * _SECOND:
        return f"{_three(ns / _SECOND)} s"
    minutes, rest = divmod(ns // _SECOND, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def milliseconds(ns: int) -> str:
    """Return a number for a column titled ms: `0.812`, `1.25`, `503`."""
    return _three(ns / 1e6)


def size(count: int) -> str:
    """Return bytes in decimal units: `96 B`, `3.4 kB`, `12.0 MB`."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.5 or unit == "TB":
            return f"{_three(value)} {unit}"
    raise AssertionError(count)


def number(count: int) -> str:
    """Return a number with separators: `1,204`."""
    return f"{count:,}"


def counted(count: int, noun: str, many: str = "") -> str:
    """Return a number and a noun: `1 session`, `1,204 sessions`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def safe(text: str) -> str:
    """Escape unprintable characters: strings of a capture may contain a terminal's control sequences."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def shortened(text: str, length: int) -> str:
    """Return printable text of at most `length` characters; `…` replaces a longer rest."""
    text = safe(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def _three(value: float) -> str:
    """Return three significant digits; no fraction from 100 on."""
    if value >= 99.95:
        return f"{value:.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.9995 or value == 0 else f"{value:.3f}"
