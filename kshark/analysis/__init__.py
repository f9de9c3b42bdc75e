"""Share sessions judged: which rules of the catalogue were broken, by whom, and by which exchanges one knows.

analyzer = Analyzer()
for page in pages: found.extend(analyzer.page(page))
found.extend(analyzer.close())
analyzer.summary()
sessions_of(analyzer.listed())  # of Analyzer(sessions=True)

An Audit does the same and tells what the findings were found in, as `kshark check` does.
"""

from __future__ import annotations

from kshark.analysis.analyzer import APIS, Analyzer
from kshark.analysis.audit import Audit
from kshark.analysis.coverage import Coverage, RuleCoverage
from kshark.analysis.delivery import Delivery, DeliveryLog, Holder, InFlightRange, InFlightState
from kshark.analysis.findings import in_packet_order
from kshark.analysis.judge import REASONS
from kshark.analysis.listing import Closing, Listed, ListedSession, ListedStep, Moment, SessionStep, ShareSession, Told, sessions_of
from kshark.analysis.observed import Observed, Observer, Refusal
from kshark.analysis.rules import RULES, Rule
from kshark.analysis.share_partition import Change

__all__ = [
    "APIS",
    "REASONS",
    "RULES",
    "Analyzer",
    "Audit",
    "Change",
    "Closing",
    "Coverage",
    "Delivery",
    "DeliveryLog",
    "Holder",
    "InFlightRange",
    "InFlightState",
    "Listed",
    "ListedSession",
    "ListedStep",
    "Moment",
    "Observed",
    "Observer",
    "Refusal",
    "Rule",
    "RuleCoverage",
    "SessionStep",
    "ShareSession",
    "Told",
    "in_packet_order",
    "sessions_of",
]
