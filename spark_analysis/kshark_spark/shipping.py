"""kshark's own code on its way to workers that do not share this machine's Python."""

from __future__ import annotations

import tempfile
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Final

#: Packages sent to workers on other machines; their Python needs numpy, msgspec, cramjam, crc32c, google-re2 and
#: pyarrow.
PACKAGES: Final = ("kshark", "kshark_dissectors", "kshark_spark")
#: The module by which Spark finds `format("kshark")`.
MODULE: Final = "pyspark_kshark.py"


def packed() -> Path:
    """kshark, its dissectors and this package as a zip file that Spark puts on its workers' path."""
    target = Path(tempfile.mkdtemp(prefix="kshark-")) / "kshark.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            root = _root(package)
            for path in sorted((root / package).rglob("*.py")):
                archive.write(path, path.relative_to(root))
        archive.write(_root("kshark") / MODULE, MODULE)
    return target


def _root(package: str) -> Path:
    """Return the folder that a package lies in: in a checkout each has its own, where kshark is installed all have
    one."""
    return Path(import_module(package).__path__[0]).resolve().parent
