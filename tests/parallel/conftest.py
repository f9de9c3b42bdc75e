"""The command, as in tests/cli."""

from __future__ import annotations

import pytest

from tests.cli.command import Run, runner


@pytest.fixture
def kshark(capsys: pytest.CaptureFixture[str]) -> Run:
    """`kshark("read", path)`: the command, in this process and those it starts."""
    return runner(capsys)
