"""`python -m kshark_spark`, and the file that spark-submit is given: the same as the command `kshark-spark`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(
        0, str(Path(__file__).resolve().parents[1])
    )  # a folder `dissectors` where it is called is not kshark's
    from kshark_spark.cli import main

    sys.exit(main())
