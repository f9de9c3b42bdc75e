"""The process from which Spark forks its Python workers on one machine. It imports what all workers need, once.

Spark's own daemon imports nothing before it forks, and imports PySpark from an archive without compiled code. Source:
pyspark/daemon.py.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path


def unpacked(paths: list[str]) -> list[str]:
    """Return the module search path without the archive of PySpark inside the installed package."""
    return [
        path
        for path in paths
        if not (path.endswith("pyspark.zip") and Path(path).parents[2].joinpath("daemon.py").is_file())
    ]


def main() -> None:
    """Run instead of pyspark.daemon, with the same arguments."""
    sys.path[:] = unpacked(sys.path)
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import kshark_spark.captures  # noqa: F401

    gc.freeze()  # a collection would write to memory pages that all workers share
    manager()


if __name__ == "__main__":
    main()
