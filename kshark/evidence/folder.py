"""The folder of evidence: a folder for each case, which appears when it is complete."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

from kshark.errors import UsageError
from kshark.output.local_folder import local_folder

TEXT: Final = "finding.txt"
DATA: Final = "finding.json"
#: A capture that may be replaced by a wider one.
ATTEMPT: Final = "attempt.pcapng"
_CASE: Final = re.compile(r"\.?\d{3}-[A-Z][A-Z0-9_]+(-[A-Za-z0-9._-]*)?")


def prepare(folder: str) -> Path:
    """Return the folder, made if it does not exist, without the evidence of an earlier run.

    Raises kshark.UsageError if it is not a folder of this machine, or contains other files.
    """
    path = local_folder(folder, "--evidence")
    present = sorted(path.iterdir()) if path.exists() else []
    foreign = next((found for found in present if not _is_ours(found)), None)
    if foreign is not None:
        raise UsageError(
            f"{folder} contains {foreign.name}, which is not evidence of an earlier run; name an empty folder with "
            "--evidence"
        )
    for found in present:
        shutil.rmtree(found)
    path.mkdir(parents=True, exist_ok=True)
    return path


def begin(folder: Path, name: str) -> Path:
    """Return the folder in which the files of a case are written."""
    path = unfinished(folder, name)
    path.mkdir()
    return path


def unfinished(folder: Path, name: str) -> Path:
    """Return the folder of a case until it is complete."""
    return folder / f".{name}.unfinished"


def complete(folder: Path, name: str) -> None:
    """Let the folder of a case appear."""
    os.replace(unfinished(folder, name), folder / name)


def _is_ours(path: Path) -> bool:
    """True for the folder of a case that contains nothing else."""
    if path.is_symlink() or not path.is_dir() or not _CASE.fullmatch(path.name):
        return False
    name = path.name.removeprefix(".").removesuffix(".unfinished")
    ours = {TEXT, DATA, ATTEMPT, f"{name}.pcapng"}
    return all(it.name in ours or it.name in {f".{file}.rewritten" for file in ours} for it in path.iterdir())
