"""The rules: one row each, a file a topic. README.md in this folder tells how to add one."""

from __future__ import annotations

from typing import Final

from kshark.analysis.rules import connections, ends, epochs, partitions, recovery, requests
from kshark.analysis.rules.book import RuleBook
from kshark.analysis.rules.rule import Rule

BOOK: Final = RuleBook((*epochs.ROWS, *ends.ROWS, *connections.ROWS, *recovery.ROWS, *partitions.ROWS, *requests.ROWS))
RULES: Final = BOOK.rules

__all__ = ["BOOK", "RULES", "Rule", "RuleBook"]
