"""The analysis of share sessions: the rules of the catalogue that were broken, with the party and the exchanges.

analyzer = Analyzer()
for page in pages: found.extend(analyzer.page(page))
found.extend(analyzer.close())
analyzer.summary()
PackedSessions(analyzer.listed())  # of Analyzer(sessions=True)

kshark.run.Run does the same and also counts the capture, as `kshark check` does.
"""

from __future__ import annotations

from kshark.analysis.analyzer import APIS, Analyzer
from kshark.analysis.facts.judge import REASONS
from kshark.analysis.facts.parties import Parties, Party
from kshark.analysis.facts.transactions import TRANSACTION_APIS, Aborted
from kshark.analysis.results.by_client import OF_CLIENTS, UNNAMED, By, ClientCoverage, ReadByClient, by_client
from kshark.analysis.results.deliveries import (
    Delivery,
    DeliveryLog,
    Extent,
    HeldRange,
    Holder,
    InFlightRange,
    InFlightState,
    StoredBatch,
    StoredWrite,
    WaitingGroup,
    held_of,
)
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.results.findings import in_packet_order
from kshark.analysis.results.observed import Observed, Observer, Refusal
from kshark.analysis.results.outcomes import MemberKey, Outcomes, joined_outcomes
from kshark.analysis.results.packed_findings import PackedFindings
from kshark.analysis.results.sessions import (
    AnalysisResult,
    Closing,
    Listed,
    ListedSession,
    ListedStep,
    Moment,
    PackedSessions,
    SessionStep,
    ShareSession,
)
from kshark.analysis.rules import RULES, Rule
from kshark.analysis.runners.coverage import Coverage, RuleCoverage
from kshark.analysis.states.partition.share_partition import Change, ShownStart

__all__ = [
    "APIS",
    "OF_CLIENTS",
    "REASONS",
    "RULES",
    "TRANSACTION_APIS",
    "UNNAMED",
    "Aborted",
    "AnalysisResult",
    "Analyzer",
    "By",
    "Change",
    "ClientCoverage",
    "Closing",
    "Coverage",
    "Delivery",
    "DeliveryLog",
    "Extent",
    "HeldRange",
    "Holder",
    "InFlightRange",
    "InFlightState",
    "Listed",
    "ListedSession",
    "ListedStep",
    "MemberKey",
    "Moment",
    "Observed",
    "Observer",
    "Outcomes",
    "PackedFindings",
    "PackedSessions",
    "Parties",
    "Party",
    "PlacedCode",
    "ReadByClient",
    "Refusal",
    "Rule",
    "RuleCoverage",
    "SessionStep",
    "ShareSession",
    "ShownStart",
    "StoredBatch",
    "StoredWrite",
    "WaitingGroup",
    "by_client",
    "held_of",
    "in_packet_order",
    "joined_outcomes",
]
