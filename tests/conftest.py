"""Of sweeps, `make test-quick` runs a sample; tests that start a JVM share one worker; skipped tests are counted."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Generator
from random import Random

import pytest

from tests import examples as examples  # registers the profile


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make as many cases of a sweep quick as its mark says, always the same ones and none that is slow: these lose the
    mark. Group the tests with Spark: one worker starts one JVM for all of them."""
    sweeps = defaultdict(list)
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("sweep") and not item.get_closest_marker("slow"):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    for name, cases in sweeps.items():
        many = max(mark.kwargs.get("quick", 0) for mark in cases[0].iter_markers("sweep"))
        for item in Random(name).sample(cases, min(many, len(cases))):
            item.own_markers = [mark for mark in item.own_markers if mark.name != "sweep"]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """Print one sentence for each reason why tests were skipped."""
    yield
    reports = terminalreporter.stats.get("skipped", [])
    for reason, count in Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports).items():
        terminalreporter.write_line(f"skipped {count} tests: {reason}")


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: to look for garbage in it again and again took a tenth of the
    time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
