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
#: Digits of a number; more has no time.
_DIGITS: Final = 20


def duration_of(text: str, unit: str) -> int:
    """`250us`, `1.5 s`, `2h`; without a unit it is in `unit`. Raises ValueError for what is none."""
    found = re.fullmatch(rf"([0-9]{{1,{_DIGITS}}}(?:\.[0-9]{{1,{_DIGITS}}})?)\s*(ns|us|ms|s|m|min|h|)", text)
    if found is None:
        raise ValueError(text)
    return int(Decimal(found[1]) * _UNITS[found[2] or unit])


def moment_of(text: str) -> int:
    """Since 1970: ISO 8601, in UTC unless it says otherwise, or seconds with a fraction. Raises ValueError for what is
    none."""
    if re.fullmatch(rf"[0-9]{{1,{_DIGITS}}}(\.[0-9]{{1,9}})?", text) and len(text) != len("20261121"):
        return int(Decimal(text) * _SECOND)
    moment = datetime.fromisoformat(text)
    whole = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    fraction = re.search(r"[.,]([0-9]{1,9})", text)  # all nine digits, of which datetime keeps six
    return int(whole.replace(microsecond=0).timestamp()) * _SECOND + (int(fraction[1].ljust(9, "0")) if fraction else 0)
