"""What every test of a command needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Run, runner
from tests.cli.incident import written


@pytest.fixture
def kshark(capsys: pytest.CaptureFixture[str]) -> Run:
    """`kshark("read", path)`: the command, in this process."""
    return runner(capsys)


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The incident as a file."""
    return written(tmp_path_factory.mktemp("incident"))
