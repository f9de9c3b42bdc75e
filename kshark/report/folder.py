"""The folder of a report: report.html, report.json and findings.parquet; each appears when it is complete. The pages of
single captures are in a folder of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kshark.errors import UsageError

PAGE: Final = "report.html"
DATA: Final = "report.json"
FINDINGS: Final = "findings.parquet"
#: The folder of the pages of single captures.
PAGES: Final = "captures"
_OURS: Final = {name for file in (PAGE, DATA, FINDINGS) for name in (file, f".{file}.unfinished")}


def prepare(folder: Path) -> None:
    """Create the folder, or remove an earlier report from it.

    Raises kshark.UsageError if it contains other files.
    """
    present = sorted(folder.iterdir()) if folder.exists() else []
    pages = sorted((folder / PAGES).iterdir()) if (folder / PAGES).is_dir() else []
    present = [path for path in present if path.name != PAGES or not path.is_dir()]
    foreign = [path for path in present if path.name not in _OURS]
    foreign += [path for path in pages if path.suffix not in (".html", ".unfinished") or not path.is_file()]
    if foreign:
        raise UsageError(
            f"{folder} contains {foreign[0].name}, which is not part of a report; name an empty folder with -o"
        )
    for path in (*present, *pages):
        path.unlink()
    if pages:
        (folder / PAGES).rmdir()
    folder.mkdir(parents=True, exist_ok=True)


def write(path: Path, data: bytes) -> None:
    """Write a file; it appears only when it is complete."""
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(data)
    os.replace(unfinished, path)
