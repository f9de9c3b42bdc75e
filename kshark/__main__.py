"""`python -m kshark` is the command `kshark`."""

import sys

from kshark.cli import main

if __name__ == "__main__":
    sys.exit(main())
