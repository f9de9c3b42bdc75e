"""The folder of a report: report.html, report.json and findings.parquet, which appear when they are complete."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kshark.errors import UsageError

PAGE: Final = "report.html"
DATA: Final = "report.json"
FINDINGS: Final = "findings.parquet"
_OURS: Final = {name for each in (PAGE, DATA, FINDINGS) for name in (each, f".{each}.unfinished")}


def prepare(folder: Path) -> None:
    """Makes the folder, or removes an earlier report from it. Raises kshark.UsageError if it holds something else."""
    held = sorted(folder.iterdir()) if folder.exists() else []
    foreign = [path for path in held if path.name not in _OURS]
    if foreign:
        raise UsageError(
            f"{folder} holds {foreign[0].name}, which is no part of a report; name an empty folder with -o"
        )
    for path in held:
        path.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def write(path: Path, data: bytes) -> None:
    """The file is there only when it is complete."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(data)
    os.replace(unfinished, path)
