"""Of what is done over every capture, cut or seed, `make test` runs everything and `make test-quick` a sample."""

from __future__ import annotations

import gc
from collections import defaultdict
from random import Random

import pytest

from tests import examples as examples  # registers the profile


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """So many cases of a sweep as its mark says are quick: they lose it. Always the same ones, and none that is
    slow."""
    sweeps = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sweep") and not item.get_closest_marker("slow"):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    for name, cases in sweeps.items():
        many = max(mark.kwargs.get("quick", 0) for mark in cases[0].iter_markers("sweep"))
        for item in Random(name).sample(cases, min(many, len(cases))):
            item.own_markers = [mark for mark in item.own_markers if mark.name != "sweep"]


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: to look for garbage in it again and again took a tenth of the
    time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
