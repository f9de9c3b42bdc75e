"""How numbers, times and foreign strings read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark.units import clock, counted, duration, milliseconds, moment, safe, shortened, size


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.00 µs"),
        (812, "0.812 µs"),
        (812_000, "812 µs"),
        (1_250_000, "1.25 ms"),
        (12_500_000, "12.5 ms"),
        (503_000_000, "503 ms"),
        (2_030_000_000, "2.03 s"),
        (30_000_000_000, "30.0 s"),
        (303_600_000_000, "5 min 3 s"),
        (7_500_000_000_000, "2 h 05 min"),
        (-1_250_000, "-1.25 ms"),
    ],
)
def test_durations_have_three_digits_and_a_unit(ns: int, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (3_400, "3.40 kB"), (12_040_000, "12.0 MB"), (999_900, "1.00 MB")],
)
def test_sizes_have_decimal_units(count: int, text: str) -> None:
    assert size(count) == text


def test_a_time_of_day_is_utc() -> None:
    noon = 1_795_262_587_412_345_678
    assert clock(noon) == "12:03:07.412345"
    assert clock(noon, 3) == "12:03:07.412"
    assert moment(noon) == "2026-11-21 12:03:07.412"


def test_a_time_no_calendar_holds_is_still_printed() -> None:
    assert moment(1 << 62) == "2116-02-20 23:53:38.427"
    assert moment(10**30) == "1000000000000000000000.000 s"


def test_milliseconds_stand_without_their_unit() -> None:
    assert [milliseconds(ns) for ns in (812_000, 1_250_000, 503_000_000)] == ["0.812", "1.25", "503"]


def test_one_is_singular() -> None:
    assert [counted(1, "session"), counted(0, "session"), counted(1204, "session")] == [
        "1 session",
        "0 sessions",
        "1,204 sessions",
    ]


def test_strings_of_a_capture_cannot_steer_a_terminal() -> None:
    assert safe("\x1b[31mred\x07\n") == "\\x1b[31mred\\x07\\n"
    assert safe("größe → 大") == "größe → 大"
    assert shortened("JUkzabcdefgh", 5) == "JUkz…"


@given(st.text())
def test_whatever_comes_in_prints(text: str) -> None:
    assert safe(text).isprintable()
    assert shortened(text, 9) == (safe(text) if len(safe(text)) <= 9 else safe(text)[:8] + "…")


@given(st.integers(-(1 << 70), 1 << 70))
def test_any_duration_reads(ns: int) -> None:
    assert duration(ns)
