"""Send kshark's code to workers that do not share this machine's Python."""

from __future__ import annotations

import tempfile
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Final

#: Packages sent to workers on other machines; their Python needs numpy, msgspec, cramjam, crc32c, google-re2 and
#: pyarrow.
PACKAGES: Final = ("kshark", "kshark_dissectors", "kshark_spark")
#: The module through which Spark finds `format("kshark")`.
MODULE: Final = "pyspark_kshark.py"


def packed() -> Path:
    """Write kshark, its dissectors and this package to a zip file, which Spark adds to its workers' path."""
    target = Path(tempfile.mkdtemp(prefix="kshark-")) / "kshark.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            root = _root(package)
            for path in sorted((root / package).rglob("*.py")):
                archive.write(path, path.relative_to(root))
        archive.write(_root("kshark") / MODULE, MODULE)
    return target


def _root(package: str) -> Path:
    """Return the folder of a package: different folders in a checkout, the same folder in an installation."""
    return Path(import_module(package).__path__[0]).resolve().parent
