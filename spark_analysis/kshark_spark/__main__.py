"""The command `kshark-spark`, `python -m kshark_spark`, and the file for spark-submit."""

import sys
from pathlib import Path


def main() -> int:
    """Run the command and return its exit code; 2 if this Python lacks a package."""
    from kshark_spark.packages import BASE, lacking

    wrong = lacking(BASE)
    if wrong is not None:
        print(f"kshark-spark: {wrong}", file=sys.stderr)
        return 2
    from kshark_spark.cli import main as run

    return run()


if __name__ == "__main__":
    # spark-submit runs the file, so sys.path[0] is the package folder instead of its parent
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    sys.exit(main())
