"""The process that Spark forks its Python workers from, on one machine: what all of them need is imported once, here.

Spark's own daemon imports nothing before it forks, and PySpark from an archive without compiled code. Source:
pyspark/daemon.py."""

from __future__ import annotations

import gc
import sys
from pathlib import Path


def unpacked(paths: list[str]) -> list[str]:
    """Where modules are looked for, without the archive of PySpark that lies inside the installed package."""
    return [
        path
        for path in paths
        if not (path.endswith("pyspark.zip") and Path(path).parents[2].joinpath("daemon.py").is_file())
    ]


def main() -> None:
    """What Spark starts instead of pyspark.daemon, with the same arguments."""
    sys.path[:] = unpacked(sys.path)
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import kshark_spark.captures  # noqa: F401

    gc.freeze()  # what is collected is written to, and all workers share these pages
    manager()


if __name__ == "__main__":
    main()
