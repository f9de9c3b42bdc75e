"""`python -m spark_analysis`, and the file that spark-submit is given: the same as the command `kshark-spark`."""

import sys

from spark_analysis.cli import main

if __name__ == "__main__":
    sys.exit(main())
