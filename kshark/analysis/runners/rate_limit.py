"""What comes again and again is told the first times, then the tenth, the hundredth, and so on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from kshark import limits


class Decades:
    """Counts what happens, by key; keys that were not used for longest begin anew."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Hashable, int] = OrderedDict()

    def is_due(self, key: Hashable, first: int = 1) -> bool:
        """Counts once more; whether it is to be told now: it is one of the first, or has come ten times as often."""
        count = self._counts.pop(key, 0) + 1
        self._counts[key] = count
        if len(self._counts) > limits.RATIONED:
            self._counts.popitem(last=False)
        return count <= first or str(count).rstrip("0") == "1"
