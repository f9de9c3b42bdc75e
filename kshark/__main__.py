"""`python -m kshark` is the command `kshark`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(
        0, str(Path(__file__).resolve().parents[1])
    )  # a folder `dissectors` where it is called is not kshark's
    from kshark.cli import main

    sys.exit(main())
