"""Packages that kshark needs. Imports only the standard library, because any of them may be missing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable

#: Modules that every command needs, and those of the extra `spark` without pyspark.
BASE = ("kshark", "kshark_dissectors", "numpy", "msgspec", "cramjam", "crc32c", "rich", "re2")
SPARK = ("pyarrow", "pandas")
#: Names of modules for pip, if they differ.
_PIP_NAMES = {"re2": "google-re2", "kshark_dissectors": "kshark"}
#: The command that installs all of them.
INSTALL = "-m pip install 'kshark[spark]'"


def lacking(modules: Iterable[str]) -> str | None:
    """Return which of the modules this Python lacks and what to do, as a sentence; None if it has all of them."""
    missing = [*dict.fromkeys(_PIP_NAMES.get(name, name) for name in modules if importlib.util.find_spec(name) is None)]
    if not missing:
        return None
    python = sys.executable or "python3"
    return (
        f"{python} lacks {', '.join(missing)}; install kshark there: {python} {INSTALL}, or name a Python that has it: "
        "PYSPARK_DRIVER_PYTHON=PATH, and PYSPARK_PYTHON=PATH for workers"
    )
