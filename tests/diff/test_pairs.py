"""Any two real captures: the comparison is the opposite of the swapped one, and fits a screen."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kshark.analysis.results.statistics import Statistics
from kshark.capture import open_captures
from kshark.diff import Profile, screen, tables
from kshark.error_names import ERROR_NAMES
from kshark.output.jsonlines import json_lines
from kshark.output.spans import plain
from kshark.pipeline import JUDGED, Engine
from tests.conversation import registry
from tests.diff.talks import compared, profile_of_capture
from tests.shared import CAPTURES

BUNDLED = sorted([*CAPTURES.glob("*.pcap"), *CAPTURES.glob("*.pcapng")])
PAIRS = Random(7).sample([*combinations(BUNDLED, 2)], 40)
#: The opposite of each verdict.
OPPOSITES = {"new": "gone", "gone": "new", "worse": "better", "better": "worse"}


@cache
def profile(path: Path) -> Profile:
    return profile_of_capture(path)


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda path: path.stem)
def test_a_pair_and_the_swapped_pair(first: Path, second: Path) -> None:
    there = compared(profile(first), profile(second))
    back = compared(profile(second), profile(first))
    assert bool(there.why_not) == bool(back.why_not)
    opposite = {(row.kind, row.name): row for row in back.rows}
    assert len(opposite) == len(back.rows) == len(there.rows)
    for row in there.rows:
        other = opposite[row.kind, row.name]
        assert (row.before, row.after) == (other.after, other.before)
        assert OPPOSITES.get(row.verdict, row.verdict) == other.verdict, row
        assert (row.is_worse, row.is_better) == (other.is_better, other.is_worse), row
        assert row.may_be_chance == other.may_be_chance, row
    for comparison in (there, back):
        lines = [plain(line) for line in screen(comparison, None)]
        assert sum(max(1, -(-len(line) // 80)) for line in lines) <= 23
        assert max((len(plain(line)) for line in screen(comparison, 80)), default=0) <= 80
        assert all(plain(line).isprintable() for line in tables(comparison, 100))
        assert json_lines([*comparison.rows, comparison.summary()])


def test_rows_have_verdicts_of_all_kinds() -> None:
    """The pairs above show each verdict at least once: none of them is dead."""
    verdicts = Counter(row.verdict for one, two in PAIRS for row in compared(profile(one), profile(two)).rows)
    assert set(verdicts) == {"worse", "better", "new", "gone", "changed", "same", "not comparable"}


@pytest.mark.parametrize("name", ["share-restart.pcap", "zk-old-clients.pcap", "produce-mix.pcap"])
def test_the_counts_are_those_of_stats(name: str) -> None:
    """`kshark stats` counts the same requests, errors and percentiles by another way."""
    statistics = Statistics(registry())
    for page in Engine(JUDGED, registry()).pages(open_captures([CAPTURES / name])):
        for event in page:
            statistics.feed(event)
    requests, errors = Counter[str](), Counter[tuple[str, int]]()
    measured: dict[str, list[Any]] = {}
    for row in statistics.summary()["apis"]:
        requests[row["api"]] += row["requests"]
        for error in row["errors"]:
            errors[row["api"], error["error_code"]] += error["count"]
        measured.setdefault(row["api"], []).append(row["work_ms"])
    found = compared(profile(CAPTURES / name), profile(CAPTURES / name)).rows
    assert {row.name: row.before["count"] for row in found if row.kind == "api"} == requests
    counts = {row.name: row.before["count"] for row in found if row.kind == "error"}
    assert counts.keys() == {f"{api} {ERROR_NAMES[code]}" for api, code in errors}
    assert all(counts[f"{api} {ERROR_NAMES[code]}"] <= count for (api, code), count in errors.items())
    for row in found:
        api, _, percentile = row.name.rpartition(" ")
        if row.kind == "latency" and len(measured[api]) == 1:
            assert row.before["ms"] == pytest.approx(measured[api][0][percentile], rel=0.01)
