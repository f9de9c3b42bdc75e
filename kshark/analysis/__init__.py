"""Share sessions judged: which rules of the catalogue were broken, by whom, and by which exchanges one knows.

analyzer = Analyzer()
for page in pages: found.extend(analyzer.page(page))
found.extend(analyzer.close())
analyzer.summary()
sessions_of(analyzer.listed())  # of Analyzer(sessions=True)
"""

from __future__ import annotations

from kshark.analysis.analyzer import APIS, Analyzer
from kshark.analysis.findings import in_packet_order
from kshark.analysis.judge import REASONS
from kshark.analysis.listing import Closing, Listed, ListedSession, ListedStep, Moment, SessionStep, ShareSession, Told, sessions_of
from kshark.analysis.rules import RULES, Rule

__all__ = [
    "APIS",
    "REASONS",
    "RULES",
    "Analyzer",
    "Closing",
    "Listed",
    "ListedSession",
    "ListedStep",
    "Moment",
    "Rule",
    "SessionStep",
    "ShareSession",
    "Told",
    "in_packet_order",
    "sessions_of",
]
