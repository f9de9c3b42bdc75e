"""The rules: one row for each, one file for each topic. README.md in this folder says how to add one.

A topic is a module of this folder with `ROWS`. Topics are discovered by that name and listed nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from kshark.analysis.rules.book import RuleBook
from kshark.analysis.rules.rule import Rule


def _rows() -> Iterator[Rule]:
    """Yield the rows of every topic."""
    for module in iter_modules(__path__, f"{__name__}."):
        yield from getattr(import_module(module.name), "ROWS", ())


BOOK: Final = RuleBook(_rows())
RULES: Final = BOOK.rules

__all__ = ["BOOK", "RULES", "Rule", "RuleBook"]
