"""Folders: the bundled captures, and the working folder of the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CAPTURES: Final = ROOT / "captures"
WORK: Final = Path(__file__).resolve().parent / "work"
