"""A copy of the project, which a test changes as a page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.shared import CAPTURES, PRODUCT, ROOT, pythonpath


def blocks(page: str) -> list[str]:
    """The Python that a page prints."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


def project(folder: Path) -> Path:
    """Copy the code and its tests; captures and oracles stay where they are."""
    for name in (*PRODUCT, "tests", "tools", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    (folder / "captures").symlink_to(CAPTURES)
    return folder


def insert(path: Path, above: str, row: str) -> None:
    """Put a row above the one place where this pattern fits."""
    text, times = re.subn(above, lambda found: found[1] + row + found[2], path.read_text(), flags=re.S | re.M)
    assert times == 1, f"{path.name} has {times} places for the row"
    path.write_text(text)


def python(folder: Path, *words: str) -> str:
    """Run Python in the copy, and return its output."""
    environment = {**os.environ, "PYTHONPATH": pythonpath(folder)}
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_tests(folder: Path, *words: str) -> None:
    """Run these tests in the copy; there must be some, and all must pass."""
    python(folder, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *words)
