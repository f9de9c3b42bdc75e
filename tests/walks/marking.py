"""What kshark says of a walk beside what the walker knew of each step."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kshark
from kshark.model import Finding
from tests.shared import SHARED
from tests.thinning import accused

WALKS = SHARED / "captures" / "walks"
REFUSED = (122, 123)

#: Mistakes of one request, or of two that cross, and the one code that says so whatever the session is.
CODES = {
    "ack_in_initial": "ACK_IN_INITIAL_FETCH",
    "concurrent": "CONCURRENT_SESSION_REQUESTS",
    "duplicate": "DUPLICATE_PARTITION_ENTRY",
    "member_id": "MEMBER_ID_INVALID",
}

#: Violations at a request by what came before it, or beside it; and what all walkers do all the time: they fetch what
#: they like, whatever was assigned to them, in their group or not.
ELSEWHERE = {"NO_RECOVERY", "FETCH_OVERTAKEN", "FETCH_UNASSIGNED_PARTITION", "FETCH_BY_DEPARTED_MEMBER"}

#: A request: the packet with which it was complete, and its correlation id (ports come again).
Request = tuple[int | None, int | None]


@dataclass(frozen=True)
class Step:
    """A share request of a walk, as the walker knew it. `causes`, `first`, `provable`: of a refusal only."""

    request: Request
    client_port: int
    sent: str
    epoch: int
    error_code: int | None
    packet: int | None
    mistake: str | None
    clean: bool
    causes: frozenset[str]
    first: frozenset[str]
    provable: bool

    @property
    def refused(self) -> bool:
        return self.error_code in REFUSED


@dataclass(frozen=True)
class Wrong:
    """A refusal explained by a cause that it does not have."""

    step: Step
    said: Finding

    @property
    def kind(self) -> str:
        return f"{' or '.join(sorted(self.step.first))} -> {self.said.cause}"


@dataclass
class Marks:
    """How the findings of one walk compare with what the walker knew."""

    steps: int = 0
    refused: int = 0
    provable: int = 0
    right: int = 0
    #: Of those that are right, how many say the likeliest cause, and how many are violations; the others are notes.
    first: int = 0
    violations: int = 0
    unknown: list[Step] = field(default_factory=list)
    unknown_unprovable: int = 0
    wrong: list[Wrong] = field(default_factory=list)
    #: Causes that contradict the walker where it says itself that the packets need not prove any.
    wrong_unprovable: list[Wrong] = field(default_factory=list)
    #: Causes named where the walker had lost the session and knew none.
    beyond: int = 0
    #: Refusals with no finding that names a cause, or several.
    uncaused: list[tuple[Step, int]] = field(default_factory=list)
    #: Violations at requests with which nothing was wrong.
    accused: list[Finding] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    #: Mistakes of CODES that are found, those that are not, and such violations where no such mistake was made.
    found: int = 0
    missed: list[Step] = field(default_factory=list)
    unfounded: list[Finding] = field(default_factory=list)


def steps_of(capture: Path) -> list[Step]:
    """The walk's steps; none where nobody wrote them down, or where there was no walker: only walks have a seed."""
    path = capture.with_suffix(".expected.json")
    told: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    rows: list[dict[str, Any]] = told["steps"] if "seed" in told else []
    return [
        Step(
            request=(row["request_packet"], row["correlation_id"]),
            client_port=row["client_port"],
            sent=f"{row['api']} {row['sent']}",
            epoch=row["epoch"],
            error_code=row["error_code"],
            packet=row["response_packet"] or row["request_packet"],
            mistake=row["mistake"],
            clean=row["clean"],
            causes=frozenset(row.get("causes", ())),
            first=frozenset(row.get("first_cause", ())),
            provable=row.get("provable", False),
        )
        for row in rows
    ]


def _request(finding: Finding) -> Request | None:
    about = accused(finding)
    return None if about is None else (about.request_packet, about.correlation_id)


def mark(capture: Path) -> Marks:
    return compare(steps_of(capture), kshark.check(capture))


def compare(steps: list[Step], findings: Iterable[Finding]) -> Marks:  # noqa: C901  # one comparison a step
    at: dict[Request | None, list[Finding]] = defaultdict(list)
    for finding in findings:
        at[_request(finding)].append(finding)
    by_request = {step.request: step for step in steps}
    if len(by_request) < len(steps):
        raise ValueError("two steps at one request")
    marks = Marks(len(steps))
    for step in steps:
        if step.refused:
            _weigh(marks, step, [finding for finding in at[step.request] if finding.cause is not None])
        if (code := CODES.get(step.mistake or "")) is not None:
            if any(finding.code == code and finding.verdict == "violation" for finding in at[step.request]):
                marks.found += 1
            else:
                marks.missed.append(step)
    for request, found in at.items():
        about = None if request is None else by_request.get(request)
        for finding in found:
            if finding.verdict != "violation" or (about is not None and about.refused and finding.cause is not None):
                continue
            if about is not None and about.clean and finding.code not in ELSEWHERE:
                marks.accused.append(finding)
            else:
                marks.others[finding.code] += 1
            if about is not None and finding.code in CODES.values() and CODES.get(about.mistake or "") != finding.code:
                marks.unfounded.append(finding)
    return marks


def _weigh(marks: Marks, step: Step, caused: list[Finding]) -> None:
    """One refusal: right, unknown, wrong, or not explained exactly once."""
    marks.refused += 1
    marks.provable += step.provable
    if len(caused) != 1:
        marks.uncaused.append((step, len(caused)))
        return
    (said,) = caused
    if said.verdict == "unknown":
        if step.provable:
            marks.unknown.append(step)
        else:
            marks.unknown_unprovable += 1
    elif step.causes <= {"unknown"}:
        marks.beyond += 1
    elif said.cause not in step.causes:
        (marks.wrong if step.provable else marks.wrong_unprovable).append(Wrong(step, said))
    elif step.provable:
        marks.right += 1
        marks.first += said.cause in step.first
        marks.violations += said.verdict == "violation"
