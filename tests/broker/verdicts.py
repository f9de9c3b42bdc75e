"""What `kshark check` says of a walk, beside what the walk knows: clean steps that are accused, refusals explained
rightly or not.

Only as much as a run wants to know at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import kshark
from kshark.model import Finding

#: May be said of any request that goes on after a refusal (rule 38); and walkers fetch whatever was assigned to them,
#: group or no group, do not forget what they acknowledged by mistake, overtake their own fetches, now and then pass
#: over a record as if it were a gap, and open sessions as fast as they like. The last one is the broker's: where a
#: leader reads its state anew while old timers still write, it hands out what it has stored as done (4.2.1, 4.3.1).
ALLOWED = (
    "NO_RECOVERY",
    "FETCH_OVERTAKEN",
    "FETCH_UNASSIGNED_PARTITION",
    "FETCH_BY_DEPARTED_MEMBER",
    "PHANTOM_SESSION_PARTITION",
    "GAP_ON_REAL_RECORD",
    "REOPEN_HOT_LOOP",
    "ACQUIRED_BELOW_SPSO",
)
#: Of brokers of 4.1 also this, which is theirs: they hand out what they themselves have just stored as done (4.1.2).
OF_4_1 = (*ALLOWED, "REDELIVERY_AFTER_TERMINAL")


def verdicts(capture: Path, expected: dict[str, Any]) -> tuple[Counter[str], list[str]]:
    """How many refusals are right, unknown, wrong or missed, and how many acknowledgements that were not taken are
    explained.

    And the clean steps that have a violation; and acknowledgements that were not taken for no reason, or more than one.
    """
    found: dict[tuple[str, int], list[Finding]] = defaultdict(list)
    for finding in kshark.check(capture):
        if finding.witness:
            found[finding.client.rpartition(":")[2], finding.witness[-1].correlation_id].append(finding)
    allowed = OF_4_1 if "4.1." in expected["broker"] else ALLOWED
    counts: Counter[str] = Counter()
    accused = []
    for step in expected["steps"]:
        mine = found[str(step["client_port"]), step["correlation_id"]]
        if step["clean"]:
            accused += [
                f"step {step['n']} ({step['sent']}): {f.code}: {f.argument}"
                for f in mine
                if f.verdict == "violation" and f.code not in allowed
            ]
        caused = [finding for finding in mine if finding.cause is not None]
        if "causes" in step:
            counts[_explained(step, caused)] += 1
        for topic_id, partition, error in step["refused"]:
            why = [finding for finding in caused if (finding.topic_id, finding.partition) == (topic_id, partition)]
            counts["acknowledgements " + ("unknown" if why and why[0].verdict == "unknown" else "explained")] += 1
            if len(why) != 1:
                accused.append(
                    f"step {step['n']} ({step['sent']}): {len(why)} causes of {error} for {topic_id}-{partition}"
                )
    return counts, accused


def _explained(step: dict[str, Any], said: list[Finding]) -> str:
    if not said:
        return "missed"
    if said[0].verdict == "unknown":
        return "unknown"
    return "right" if said[0].cause in step["causes"] else "wrong"
