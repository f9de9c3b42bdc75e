"""kshark's own code on its way to workers that do not share this machine's Python."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Final

#: Packages sent to workers on other machines; their Python needs numpy, msgspec, cramjam, crc32c, google-re2 and
#: pyarrow.
PACKAGES: Final = ("kshark", "dissectors", "spark_analysis")
#: The module by which Spark finds `format("kshark")`.
MODULE: Final = "pyspark_kshark.py"


def packed() -> Path:
    """kshark, its dissectors and this package as a zip file that Spark puts on its workers' path."""
    import kshark

    root = Path(kshark.__file__).resolve().parent.parent
    target = Path(tempfile.mkdtemp(prefix="kshark-")) / "kshark.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for path in sorted((root / package).rglob("*.py")):
                archive.write(path, path.relative_to(root))
        archive.write(root / MODULE, MODULE)
    return target
