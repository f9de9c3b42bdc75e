"""Compare two captures, before and after a change: what got worse, with the evidence of both.

before, after = counting.close(observed), ...  # one Counting for each capture
compare(before, after, threshold=2.0).rows
"""

from __future__ import annotations

from kshark.diff.comparison import Comparison, compare
from kshark.diff.counting import Counting
from kshark.diff.difference import Difference
from kshark.diff.profile import Profile
from kshark.diff.screen import screen, summary_lines, tables

__all__ = ["Comparison", "Counting", "Difference", "Profile", "compare", "screen", "summary_lines", "tables"]
