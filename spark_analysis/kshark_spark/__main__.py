"""`python -m kshark_spark`, and the file for spark-submit: the same as the command `kshark-spark`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # spark-submit runs the file, so sys.path[0] is the package folder instead of its parent
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from kshark_spark.cli import main

    sys.exit(main())
