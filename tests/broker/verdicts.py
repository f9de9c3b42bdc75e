"""What `kshark check` says of a walk, beside what the walk knows: clean steps that are accused, refusals explained rightly or not.

Only as much as a run wants to know at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import kshark
from kshark.model import Finding

#: May be said of any request that goes on after a refusal (rule 38).
ALLOWED = "NO_RECOVERY"


def verdicts(capture: Path, expected: dict[str, Any]) -> tuple[Counter[str], list[str]]:
    """How many refusals are right, unknown, wrong or missed, and the clean steps that have a violation."""
    found: dict[tuple[str, int], list[Finding]] = defaultdict(list)
    for finding in kshark.check(capture):
        if finding.witness:
            found[finding.client.rpartition(":")[2], finding.witness[-1].correlation_id].append(finding)
    counts: Counter[str] = Counter()
    accused = []
    for step in expected["steps"]:
        mine = found[str(step["client_port"]), step["correlation_id"]]
        if step["clean"]:
            accused += [
                f"step {step['n']} ({step['sent']}): {f.code}: {f.argument}" for f in mine if f.verdict == "violation" and f.code != ALLOWED
            ]
        if "causes" in step:
            counts[_explained(step, [finding for finding in mine if finding.cause is not None])] += 1
    return counts, accused


def _explained(step: dict[str, Any], said: list[Finding]) -> str:
    if not said:
        return "missed"
    if said[0].verdict == "unknown":
        return "unknown"
    return "right" if said[0].cause in step["causes"] else "wrong"
