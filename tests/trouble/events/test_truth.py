"""The log of a case, and its comparison with findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.trouble.events.cases import CASES
from tests.trouble.events.truth import Event, Truth, events_of, lines, paired, read_truth

S: Final = 1_000_000_000
MS: Final = 1_000_000
BROKER: Final = "10.98.0.1:9092"


def silent(from_ms: int, to_ms: int | None, *, optional: bool = False, **who: str) -> Truth:
    return Truth(
        "BROKER_SILENT",
        from_ms * MS,
        None if to_ms is None else to_ms * MS,
        who or {"broker": BROKER},
        "SIGSTOP",
        optional,
    )


def reported(from_ms: int, to_ms: int | None, code: str = "BROKER_SILENT", **who: str) -> Event:
    return Event(code, from_ms * MS, None if to_ms is None else to_ms * MS, who or {"broker": BROKER}, "note")


def test_a_log_is_read_in_the_order_of_time(tmp_path: Path) -> None:
    log = tmp_path / "truth.jsonl"
    truths = [silent(9000, None, optional=True), silent(1000, 3000)]
    log.write_text("".join(truth.line() for truth in truths))
    assert read_truth(log) == truths[::-1]


def test_events_are_findings_with_their_codes() -> None:
    finding: dict[str, Any] = {"code": "BROKER_SILENT", "time_ns": S, "until_ns": 3 * S, "verdict": "note"}
    finding |= {"broker": BROKER, "client": None, "client_id": "s1"}
    others: list[dict[str, Any]] = [finding | {"code": "EPOCH_REPLAY"}, {"summary": {}}]
    (event,) = events_of([finding, *others])
    assert event == Event("BROKER_SILENT", S, 3 * S, {"broker": BROKER, "client_id": "s1"}, "note")


@pytest.mark.parametrize(
    ("event", "result", "from_ms", "to_ms"),
    [
        (reported(10_050, 12_190), "ok", 50, 190),
        (reported(9_800, None), "ok", -200, None),
        (reported(10_050, 12_201), "LATE OR EARLY", 50, 201),
        (reported(9_799, 12_000), "LATE OR EARLY", -201, 0),
    ],
)
def test_differences_are_in_ms(event: Event, result: str, from_ms: int, to_ms: int | None) -> None:
    (pair,) = paired([silent(10_000, 12_000)], [event])
    assert (pair.result, pair.from_ms, pair.to_ms) == (result, from_ms, to_ms)


def test_each_event_is_paired_with_the_nearest() -> None:
    truths = [silent(10_000, 11_500), silent(16_000, 18_000)]
    first, second = reported(10_100, 11_500), reported(15_900, 18_000)
    assert [pair.event for pair in paired(truths, [second, first])] == [first, second]


@pytest.mark.parametrize(
    "event",
    [
        reported(30_000, 31_000),
        reported(10_000, 12_000, "BROKER_DOWN"),
        reported(10_000, 12_000, broker="10.98.0.2:9092"),
    ],
)
def test_another_time_code_or_broker_is_a_false_event(event: Event) -> None:
    assert [pair.result for pair in paired([silent(10_000, 12_000)], [event])] == ["MISSING", "FALSE"]


@pytest.mark.parametrize(
    ("who", "same"),
    [
        ({"client": "10.98.0.12:40000"}, True),
        ({"client": "10.98.0.13:40000"}, False),
        ({"client": "10.98.0.13:40000", "client_id": "10.98.0.12"}, True),
        ({"broker": BROKER}, True),
    ],
)
def test_a_client_is_known_by_its_address_or_id(who: dict[str, str], same: bool) -> None:
    pair = paired([silent(10_000, 12_000, client="10.98.0.12")], [reported(10_000, 12_000, **who)])[0]
    assert (pair.event is not None) is same


def test_an_event_may_be_several_that_happened() -> None:
    truths = [silent(10_000, 10_010), silent(12_000, 12_010), silent(20_000, 20_010)]
    pairs = paired(truths, [reported(10_005, 12_008)])
    assert [(pair.result, pair.truth) for pair in pairs] == [("ok", silent(10_000, 12_010)), ("MISSING", truths[2])]


def test_an_optional_event_need_not_be_reported() -> None:
    (pair,) = paired([silent(10_000, 12_000, optional=True)], [])
    assert pair.result == "not reported (optional)"


def test_lines_show_both_sides() -> None:
    pairs = paired([silent(10_000, 12_000)], [reported(10_050, 12_190), reported(40_000, None)])
    assert [" ".join(line.split()) for line in lines(pairs, 8 * S)] == [
        f"ok BROKER_SILENT 2.000 to 4.000 s broker {BROKER} (SIGSTOP) "
        f"| 2.050 to 4.190 s broker {BROKER} note | +50 ms, +190 ms",
        f"FALSE BROKER_SILENT | 32.000 s broker {BROKER} note",
    ]


def test_each_case_says_what_happens() -> None:
    assert all(case.run.__doc__ for case in CASES.values())
