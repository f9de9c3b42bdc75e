"""Tests that are known to fail have to: tests.walks.known lists them."""

from __future__ import annotations

import pytest

from tests.walks.known import KNOWN


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.removeprefix("tests/walks/") in KNOWN:
            item.add_marker(pytest.mark.xfail(raises=AssertionError, reason="known to be wrong", strict=True))
