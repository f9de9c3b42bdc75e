"""Work for processes that are spawned: each imports this file, and nothing else of the tests."""

from __future__ import annotations

import sys
import time


def doubled(item: int) -> int:
    """Print a lot, and return twice the number; the first takes longest."""
    if item == 0:
        time.sleep(0.5)
    print(f"{item} " * 200_000)
    print(f"said {item}", file=sys.stderr)
    return 2 * item
