"""Where things lie: the captures that travel with the project, and the folder for what the benchmarks make."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CAPTURES: Final = ROOT / "captures"
WORK: Final = Path(__file__).resolve().parent / "work"
