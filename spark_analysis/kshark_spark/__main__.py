"""`python -m kshark_spark`, and the file that spark-submit is given: the same as the command `kshark-spark`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # spark-submit runs the file: Python then looks for modules in the package, and not for the package
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from kshark_spark.cli import main

    sys.exit(main())
