"""Times and durations as people write them, in nanoseconds: for `--since` and for filters."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

_SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "min": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
#: Most digits of a number; no time has more.
_DIGITS: Final = 20


def duration_of(text: str, unit: str) -> int:
    """Return the nanoseconds of `250us`, `1.5 s` or `2h`; a number without a unit is in `unit`.

    Raises ValueError for other text.
    """
    match = re.fullmatch(rf"([0-9]{{1,{_DIGITS}}}(?:\.[0-9]{{1,{_DIGITS}}})?)\s*(ns|us|ms|s|m|min|h|)", text)
    if match is None:
        raise ValueError(text)
    return int(Decimal(match[1]) * _UNITS[match[2] or unit])


def moment_of(text: str) -> int:
    """Return the nanoseconds since 1970 of an ISO 8601 time, or of seconds with a fraction.

    The time is in UTC if it has no time zone. Raises ValueError for other text.
    """
    if re.fullmatch(rf"[0-9]{{1,{_DIGITS}}}(\.[0-9]{{1,9}})?", text) and len(text) != len("20261121"):
        return int(Decimal(text) * _SECOND)
    moment = datetime.fromisoformat(text)
    whole = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    fraction = re.search(r"[.,]([0-9]{1,9})", text)  # all nine digits; datetime keeps only six
    return int(whole.replace(microsecond=0).timestamp()) * _SECOND + (int(fraction[1].ljust(9, "0")) if fraction else 0)
