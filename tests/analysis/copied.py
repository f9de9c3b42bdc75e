"""A copy of the product in a folder of its own, to which a test adds rows as a developer would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.shared import PRODUCT, ROOT, pythonpath

#: `kshark-spark` of the copy.
SPARK = ("-c", "import sys; from kshark_spark.cli import main; sys.exit(main())")
KSHARK = ("-m", "kshark")
RULES = "kshark/analysis/rules"


def copied(folder: Path) -> Path:
    """Copy the product, with what is compiled of it."""
    for name in PRODUCT:
        shutil.copytree(ROOT / name, folder / name)
    return folder


def add(file: Path, row: str, function: str = "") -> None:
    """Add a row to the ROWS of a topic, and the function that it names."""
    text = file.read_text()
    start = text.index("\nROWS: Final = (\n")
    file.write_text(f"{text[:start]}\n{function}\n{text[start:].rstrip().removesuffix(')')}{row})\n")


def run(folder: Path, *command: str) -> str:
    """Run Python in the copy and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": pythonpath(folder), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, *command], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode in (0, 1), "Traceback" in done.stderr) == (True, False), done.stderr
    return done.stdout


def codes(lines: str) -> set[str]:
    """The codes of findings as JSON lines."""
    return {row["code"] for row in map(json.loads, lines.splitlines()) if "code" in row}
