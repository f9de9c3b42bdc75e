"""Share sessions judged: which rules of the catalogue were broken, by whom, and by which exchanges one knows.

analyzer = Analyzer()
for page in pages: found.extend(analyzer.page(page))
found.extend(analyzer.close())
analyzer.summary(), analyzer.sessions()
"""

from __future__ import annotations

from kshark.analysis.analyzer import APIS, Analyzer
from kshark.analysis.findings import in_packet_order
from kshark.analysis.judge import REASONS
from kshark.analysis.listing import Closing, Moment, SessionStep, ShareSession
from kshark.analysis.rules import RULES, Rule

__all__ = ["APIS", "REASONS", "RULES", "Analyzer", "Closing", "Moment", "Rule", "SessionStep", "ShareSession", "in_packet_order"]
