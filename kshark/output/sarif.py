"""A check as SARIF 2.1.0: a run for each capture, a result for each finding, a rule for each code that has one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

from kshark import __version__
from kshark.analysis import REASONS, Rule
from kshark.model import Finding
from kshark.output.baseline import kind_of
from kshark.output.catalogue import CODES
from kshark.output.checked_capture import CheckedCapture
from kshark.output.findings import logged_line
from kshark.units import safe

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"violation": "error", "unknown": "warning", "note": "note"}


def document(runs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the log of all captures."""
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [*runs]}


def run_of(capture: CheckedCapture) -> dict[str, Any]:
    """Return the run of a capture."""
    findings = [*capture.findings]
    codes = sorted({finding.code for finding in findings})
    times: Counter[str] = Counter()
    results = []
    for finding in findings:
        fingerprint = _fingerprint(finding)
        times[fingerprint] += 1
        results.append(_result(finding, codes.index(finding.code), capture, f"{fingerprint}:{times[fingerprint]}"))
    driver = {"name": "kshark", "semanticVersion": __version__, "rules": [_rule(code) for code in codes]}
    return {
        "tool": {"driver": driver},
        "artifacts": [{"location": {"uri": _uri(capture.name)}, "mimeType": "application/vnd.tcpdump.pcap"}],
        "invocations": [{"executionSuccessful": True}],
        # With the last slash, GitHub takes each capture for a category of its own.
        "automationDetails": {"id": f"kshark/{_uri(capture.name)}/"},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {"known": sum(capture.known.values())},
    }


def _rule(code: str) -> dict[str, Any]:
    """Return the reporting descriptor of a code."""
    entry = CODES[code]
    rule = entry if isinstance(entry, Rule) else None
    parts = [("Must be", rule.must if rule else ""), ("What to do", entry.advice)]
    parts += [("Wrong", rule.wrong), ("Right", rule.right), ("Tickets", ", ".join(rule.tickets))] if rule else []
    help_lines = [f"{title}: {text}" for title, text in parts if text]
    reference = rule.source if rule else ""
    return {
        "id": code,
        "name": "".join(word.title() for word in code.split("_")),
        "shortDescription": {"text": entry.text},
        "fullDescription": {"text": f"{entry.text} {rule.must if rule else ''}".strip()},
        "help": {
            "text": "\n".join([*help_lines, f"More: kshark explain {code}"]),
            "markdown": "\n\n".join(
                [*(f"**{title}**: {text}" for title, text in parts if text), f"More: `kshark explain {code}`"]
            ),
        },
        "defaultConfiguration": {"level": "error" if rule is not None and rule.accuses else "note"},
        "properties": {
            "number": rule.number if rule else None,
            "blame": [*(rule.blame if rule else ())],
            "tickets": [*(rule.tickets if rule else ())],
            "reference": reference,
        },
    }


def _result(finding: Finding, index: int, capture: CheckedCapture, fingerprint: str) -> dict[str, Any]:
    because = f" Not proved: {REASONS.get(finding.unknown_because, '')}." if finding.unknown_because else ""
    client = finding.client_id or finding.client
    packets = sorted(_packets(finding))
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.verdict],
        "message": {"text": safe(f"{client}: {CODES[finding.code].text} {finding.argument}.{because}")},
        "locations": [
            {
                # A capture of packets has no lines; GitHub asks for one.
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(capture.name), "index": 0},
                    "region": {"startLine": logged_line(finding) or 1},
                },
                "logicalLocations": _logical(finding, capture),
            }
        ],
        "partialFingerprints": {"kshark/v1": fingerprint},
        "properties": {
            "verdict": finding.verdict,
            "blame": finding.blame,
            "cause": finding.cause,
            "unknownBecause": finding.unknown_because,
            "packet": finding.packet,
            "packets": packets,
            "timeNs": str(finding.time_ns),
            "client": safe(client),
            "software": finding.software and safe(finding.software),
            "broker": finding.broker,
        },
    }


def _logical(finding: Finding, capture: CheckedCapture) -> Sequence[dict[str, Any]]:
    """Return the client, the group, the member and the partition of a finding, each within the one before."""
    client = finding.client_id or finding.client
    parts = [("client", client), ("group", finding.group_id), ("member", finding.member_id)]
    if finding.topic_id is not None:
        topic = capture.topics.get(finding.topic_id, finding.topic_id)
        parts.append(("partition", topic if finding.partition is None else f"{topic}[{finding.partition}]"))
    path: list[str] = []
    locations = []
    for kind, name in parts:
        if name:
            path.append(safe(name))
            locations.append({"name": safe(name), "kind": kind, "fullyQualifiedName": "/".join(path)})
    return locations


def _packets(finding: Finding) -> set[int]:
    places = ((seen.request_packet, seen.response_packet, seen.packet) for seen in finding.witness)
    return {finding.packet, *(packet for place in places for packet in place if packet is not None)}


def _fingerprint(finding: Finding) -> str:
    """Return a value that is the same in the next capture of the same mistake."""
    return hashlib.sha256("\0".join(value or "" for value in kind_of(finding)).encode()).hexdigest()[:32]


def _uri(name: str) -> str:
    return quote(name)
