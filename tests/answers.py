"""The answer keys beside the adversarial captures, and what kshark says at each of their steps.

`python -m tests.answers CAPTURE...` prints the table: refused steps, found, missed, and findings that stand beside too
many others."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kshark
from kshark.model import Finding

REFUSED = (122, 123)


@dataclass
class Marks:
    """How the findings of one capture compare with its answer key."""

    steps: int = 0
    found: int = 0
    missed: list[str] = field(default_factory=list)
    crowded: list[str] = field(default_factory=list)
    #: Refused exchanges of the whole capture without exactly one finding with a cause.
    uncaused: list[str] = field(default_factory=list)


def steps_of(capture: Path) -> list[dict[str, Any]]:
    """The steps that were meant to break something, as the maker of the capture wrote them down."""
    steps: list[dict[str, Any]] = json.loads(capture.with_suffix(".expected.json").read_text())["steps"]
    return steps


def untold(capture: Path, numbers: Collection[int | None]) -> list[int]:
    """Requests of the steps that were meant to break these rules, and are told of none that they were meant to
    break."""
    told: dict[int, set[int | None]] = defaultdict(set)
    for finding in kshark.check(capture):
        told[finding.packet].add(finding.rule)
    meant = [(step, set(numbers).intersection(step["rules"])) for step in steps_of(capture)]
    return [step["request_packet"] for step, rules in meant if rules and not told[step["response_packet"]] & rules]


def unmatched(capture: Path) -> list[int]:
    """Steps, by their place in the key, at which none of the rules is told that they were meant to break.

    What is no exchange is told somewhere on its connection.
    """
    told = list(kshark.check(capture))
    return [
        place
        for place, step in enumerate(steps_of(capture))
        if not {it.rule for it in told if _is_at(it, step)} & set(step["rules"])
    ]


def _is_at(finding: Finding, step: dict[str, Any]) -> bool:
    request = step["request_packet"]
    if request is None:
        return finding.client.endswith(f":{step['client_port']}")
    return finding.packet in (request, step["response_packet"]) or finding.witness[-1].request_packet == request


def by_exchange(findings: list[Finding]) -> dict[tuple[int | None, int | None], list[Finding]]:
    """Findings by the exchange they stand at: request and response packet of their last witness."""
    out: dict[tuple[int | None, int | None], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.witness:
            last = finding.witness[-1]
            out[last.request_packet, last.response_packet].append(finding)
    return out


def mark(capture: Path) -> Marks:
    marks = Marks()
    at = by_exchange(list(kshark.check(capture)))
    for step in steps_of(capture):
        if step["error_code"] not in REFUSED:
            continue
        marks.steps += 1
        here = at[step["request_packet"], step["response_packet"]]
        caused = [finding for finding in here if finding.cause is not None]
        said = (
            f"{capture.stem} packet {step['response_packet']} ({step['sent']}): "
            f"{[(f.code, f.rule, f.verdict, f.cause) for f in here]}"
        )
        if len(caused) == 1 and caused[0].rule in step["rules"] and caused[0].cause in step["causes"]:
            marks.found += 1
        else:
            marks.missed.append(f"{said}; the key: rules {step['rules']}, causes {step['causes']}")
        if len(here) > 3:
            marks.crowded.append(said)
    refused = {
        (message.request_packet, message.packet)
        for message in kshark.read(capture, records=False)
        if message.kind == "response"
        and message.api_key in (78, 79)
        and message.body
        and message.body.get("error_code") in REFUSED
    }
    marks.uncaused = [
        f"{capture.stem} packets {key}"
        for key in sorted(refused)
        if sum(finding.cause is not None for finding in at.get(key, ())) != 1
    ]
    return marks


def main(paths: list[str]) -> None:
    print(f"{'capture':<28}{'steps':>7}{'found':>7}{'missed':>8}{'crowded':>9}{'uncaused':>10}")
    for path in map(Path, paths):
        marks = mark(path)
        print(
            f"{path.stem:<28}{marks.steps:>7}{marks.found:>7}{len(marks.missed):>8}{len(marks.crowded):>9}{len(marks.uncaused):>10}"
        )
        for line in (*marks.missed, *marks.crowded, *marks.uncaused):
            print("   ", line)


if __name__ == "__main__":
    main(sys.argv[1:])
