"""Sweeps are whole in `make test`, a sample in `make test-quick`; tests of a group share a worker."""

from __future__ import annotations

import re

import pytest

from tests.conftest import pytest_collection_modifyitems as draw
from tests.shared import ROOT


@pytest.mark.sweep(quick=3)
def swept() -> None: ...


def cases(request: pytest.FixtureRequest, many: int) -> list[pytest.Item]:
    return [pytest.Function.from_parent(request.node.parent, name=f"swept[{at}]", callobj=swept) for at in range(many)]


def quick(items: list[pytest.Item]) -> list[str]:
    draw(items)
    return [item.name for item in items if item.get_closest_marker("sweep") is None]


def test_so_many_cases_are_quick_and_always_the_same(request: pytest.FixtureRequest) -> None:
    assert len(quick(cases(request, 20))) == 3
    assert quick(cases(request, 20)) == quick(cases(request, 20))
    assert len(quick(cases(request, 2))) == 2


def test_slow_cases_are_not_among_them(request: pytest.FixtureRequest) -> None:
    items = cases(request, 20)
    for item in items[4:]:
        item.add_marker("slow")
    assert set(quick(items)) < {item.name for item in items[:4]}


def test_make_test_leaves_none_out() -> None:
    asked = dict(re.findall(r"^(test(?:-quick)?):.*\n\t.* -m \"(.+)\"$", (ROOT / "Makefile").read_text(), re.M))
    assert "sweep" not in asked["test"]
    assert "not sweep" in asked["test-quick"]


@pytest.mark.xdist_group("together")
def test_groups_share_a_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist 3.8 forms no groups with pytest 9.2: each worker started a JVM of its own. It names them in ids."""
    assert request.node.nodeid.endswith("@together") == getattr(request.config.option, "loadgroup", False)
