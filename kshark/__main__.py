"""`python -m kshark` is the command `kshark`."""

import sys

if __name__ == "__main__":
    from kshark.cli import main

    sys.exit(main())
