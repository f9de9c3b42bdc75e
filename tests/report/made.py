"""Reports for tests: hand-written ones, and those of real events."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kshark.analysis import Analyzer, PackedSessions, ShareSession
from kshark.face import pages
from kshark.model import Event, Finding, Witness
from kshark.pipeline import Options
from kshark.registry import Registry
from kshark.report import facts
from kshark.report.collected import Collected
from kshark.report.collector import Collector

NAME = "trace.pcap"
REGISTRY = Registry()


def seen(path: Path) -> tuple[list[Event], list[Finding], list[ShareSession]]:
    """Everything that happens in a capture, and what the analysis says of it."""
    analyzer = Analyzer(sessions=True)
    events = [event for page in pages([path], Options(records=False)) for event in page]
    findings = [*analyzer.page(events), *analyzer.close()]
    return events, findings, [*PackedSessions(analyzer.listed())]


def collected(
    events: Iterable[Event],
    findings: Iterable[Finding] = (),
    sessions: Iterable[ShareSession] = (),
    name: str = NAME,
) -> Collected:
    collector = Collector(name, REGISTRY)
    collector.page(events)
    for finding in findings:
        collector.finding(finding)
    for session in sessions:
        collector.session(session)
    return collector.close()


def finding(code: str = "EPOCH_SKIP_AHEAD", **given: object) -> Finding:
    """A violation by a client, at packet 12."""
    fields: dict[str, object] = {
        "code": code, "rule": 20, "severity": "error", "verdict": "violation", "blame": "client",
        "time_ns": 1_795_000_000_000_000_000,
        "packet": 12, "flow": 0, "broker": "10.0.0.9:9092", "client": "10.0.0.1:5000", "group_id": "billing",
        "member_id": "m",
        "topic_id": None, "partition": None, "cause": "skip_ahead", "witness": [Witness(0, 1, 10, 12)],
        "argument": "exchange 1 used epoch 3, so 2 was due", "unknown_because": None, "client_id": "billing-3",
        "software": "java 4.3.1",
    }  # fmt: skip
    return Finding(**(fields | given))  # type: ignore[arg-type]


def report(**given: object) -> facts.Report:
    """One without anything in it, but for what is given."""
    fields: dict[str, object] = {
        "kshark": "0", "totals": totals(), "headlines": [], "captures": [facts.Capture(NAME, [NAME], 0, 1_000_000_000)],
        "connections": [], "gaps": [],
        "weirds": [], "brokers": [], "findings": [], "clients_in_findings": [], "groups_in_findings": [],
        "over_time": facts.Timed(1, []),
        "members": [], "latency": [], "apis": [], "clients": [], "others": {},
    }  # fmt: skip
    return facts.Report(**(fields | given))  # type: ignore[arg-type]


def totals(**given: object) -> facts.Totals:
    fields: dict[str, object] = {
        "violations": 0, "unknown": 0, "notes": 0, "unknown_because": {}, "sessions": 0, "session_ends": {},
        "members": 0,
        "exchanges": {"answered": 0},
    }  # fmt: skip
    return facts.Totals(**(fields | given))  # type: ignore[arg-type]
