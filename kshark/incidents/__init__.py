"""Incidents: events that happened to brokers, connections, topics and members, each with a beginning and an end.

incidents = Incidents(registry)
for page in pages: found.extend(incidents.page(page))
found.extend(incidents.close())

Each kind of incident is a row, beside the watcher that recognises it (kshark.incidents.watchers). Incidents are
reported as findings. Most blame nobody for breaking a rule: they say what hurts, since when, and who causes it.
"""

from __future__ import annotations

from kshark.incidents.excusable import ExcusableFindings
from kshark.incidents.explanations import EXCUSABLE, EXPLAINABLE, Explanations
from kshark.incidents.stage import Incidents, Refusals
from kshark.incidents.watchers import ROWS, WATCHERS, WITH_RECORDS

__all__ = [
    "EXCUSABLE",
    "EXPLAINABLE",
    "ROWS",
    "WATCHERS",
    "WITH_RECORDS",
    "ExcusableFindings",
    "Explanations",
    "Incidents",
    "Refusals",
]
