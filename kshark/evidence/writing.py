"""Write the evidence of findings: a small capture for each case that gives the same finding, and what it shows.

The packets are chosen from the smallest scope to the widest. After each attempt the written file is judged, and the
first one that gives the same finding is kept.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from kshark.anonymous import Pseudonyms
from kshark.anonymous.capture import anonymise
from kshark.capture.files import size_of
from kshark.evidence import folder
from kshark.evidence.capture import Copied, rewrite
from kshark.evidence.cases import Case
from kshark.evidence.comments import NewComments, add_finding, add_messages, signed
from kshark.evidence.connections import REACHES, SCOPES, Chooses, Scope
from kshark.evidence.text import Written, write_texts
from kshark.model import Finding
from kshark.output.findings import packets_of
from kshark.run import Run

#: Cases whose files are written in one reading of the capture.
_AT_ONCE: Final = 32
#: Most bytes of packets in the evidence of a case.
MOST_BYTES: Final = 256 << 20
#: What makes two findings the same in two captures of the same packets.
_SAME: Final = (
    "code",
    "verdict",
    "blame",
    "cause",
    "time_ns",
    "client",
    "broker",
    "group_id",
    "member_id",
    "topic_id",
    "partition",
)


#: The same in an anonymous copy, where names are others.
_SAME_ANONYMOUS: Final = ("code", "verdict", "blame", "cause", "time_ns", "partition")


class Attempt(NamedTuple):
    """A file that was written for a case: its scope, the numbers of its packets in the capture, and the same finding in
    it, None if it does not give it.
    """

    path: Path
    scope: Scope
    numbers: array[int]
    finding: Finding | None


def write_evidence(
    capture: Copied,
    connections: Chooses,
    cases: Sequence[Case],
    target: Path,
    options: str = "",
    names: Pseudonyms | None = None,
    scopes: Sequence[Scope] = SCOPES,
) -> Iterator[Written]:
    """Write the evidence of all cases, and yield what was written for each.

    `options`: those with which `kshark check` read the capture, to be used again. `names`: the evidence is anonymous.
    `scopes`: those to try, in this order.
    """
    left = iter(cases)
    while some := [*islice(left, _AT_ONCE)]:
        for case in some:
            folder.begin(target, case.name)
        best = _attempts(capture, connections, some, target, scopes)
        for case in some:
            attempt = best.get(case.name)
            if names is not None and attempt is not None:
                attempt = _anonymous(capture, case, attempt, names)
            written = Written(case, folder.unfinished(target, case.name), options, is_anonymous=names is not None)
            written.narrowest = scopes[0]
            yield _finish(capture, written, attempt)
            folder.complete(target, case.name)


def _attempts(
    capture: Copied, connections: Chooses, cases: Sequence[Case], target: Path, scopes: Sequence[Scope]
) -> dict[str, Attempt]:
    """Return the attempt that is kept of each case: the first that gives the finding again, else the first one."""
    kept: dict[str, Attempt] = {}
    pending = [*cases]
    #: Reaches that are too long, by case; a wider one is longer.
    too_wide: dict[str, int] = {}
    for scope in scopes:
        width = REACHES.index(scope.reach)
        fitting = [case for case in pending if width < too_wide.get(case.name, len(REACHES))]
        selections = [(case, connections.selection(case.first, scope)) for case in fitting]
        tries = [(case, selection) for case, selection in selections if selection is not None]
        if not tries:
            continue
        paths = [folder.unfinished(target, case.name) / folder.ATTEMPT for case, _ in tries]
        written = capture.write([(path, it) for path, (_, it) in zip(paths, tries, strict=True)], MOST_BYTES)
        for (case, _), path, numbers in zip(tries, paths, written, strict=True):
            if numbers is None:
                path.unlink()
                too_wide[case.name] = width
                continue
            attempt = Attempt(path, scope, numbers, _reproduced(capture, path, case.first))
            if attempt.finding is not None:
                pending.remove(case)
            if attempt.finding is not None or case.name not in kept:
                _keep(kept, case.name, attempt)
            else:
                path.unlink()
    return kept


def _keep(kept: dict[str, Attempt], name: str, attempt: Attempt) -> None:
    final = attempt.path.with_name(f"{name}.pcapng")
    attempt.path.replace(final)
    kept[name] = attempt._replace(path=final)


def _reproduced(capture: Copied, path: Path, finding: Finding, same: Sequence[str] = _SAME) -> Finding | None:
    """Return the same finding from a copy; None if it does not give it. `same`: what makes it the same."""
    run = Run(capture.registry, shows=lambda found: found.code == finding.code)
    for page in capture.pages(path):
        run.page(page)
    run.close()
    return next((found for found in run.findings if is_same(found, finding, same)), None)


def is_same(one: Finding, other: Finding, same: Sequence[str] = _SAME) -> bool:
    """True if findings of two captures of the same packets are the same."""
    return all(getattr(one, name) == getattr(other, name) for name in same)


def _anonymous(capture: Copied, case: Case, attempt: Attempt, names: Pseudonyms) -> Attempt:
    """Make a copy anonymous, and find its finding in it."""
    other = attempt.path.with_name(folder.ATTEMPT)
    kept = anonymise(attempt.path, other, names, capture.options, capture.registry)
    other.replace(attempt.path)
    numbers = array("q", [attempt.numbers[packet - 1] for packet in kept])
    found = _reproduced(capture, attempt.path, case.first, _SAME_ANONYMOUS)
    return attempt._replace(numbers=numbers, finding=found if attempt.finding is not None else None)


def _finish(capture: Copied, written: Written, attempt: Attempt | None) -> Written:
    """Add the comments to the file of a case, and write its texts."""
    case = written.case
    if attempt is None:
        write_texts(capture, written)
        return written
    first = case.first if not written.is_anonymous else _nameless(case.first)
    shown = attempt.finding or _renumbered(first, attempt.numbers)
    comments: NewComments = {}
    add_messages(comments, capture, attempt.path, packets_of(shown))
    messages = {packet: [*lines] for packet, lines in comments.items()}
    add_finding(comments, shown)
    rewrite(attempt.path, signed(comments))
    written.file = attempt.path.name
    written.size = size_of(attempt.path)
    written.scope = attempt.scope
    written.numbers = attempt.numbers
    written.finding = shown
    written.is_reproduced = attempt.finding is not None
    written.messages = messages
    write_texts(capture, written)
    return written


def _renumbered(finding: Finding, numbers: array[int]) -> Finding:
    """Return a finding with the numbers that its packets have in a copy; packets that it lacks are left out."""

    def of(packet: int | None) -> int | None:
        at = -1 if packet is None else bisect_left(numbers, packet)
        return at + 1 if 0 <= at < len(numbers) and numbers[at] == packet else None

    witness = [
        replace(
            one,
            request_packet=of(one.request_packet),
            response_packet=of(one.response_packet),
            packet=of(one.packet),
            places=None,
        )
        for one in finding.witness
    ]
    until = of(finding.until_packet) if isinstance(finding.until_packet, int) else finding.until_packet
    return replace(finding, packet=of(finding.packet) or 1, witness=witness, until_packet=until)


def _nameless(finding: Finding) -> Finding:
    """Return a finding without names and sentences."""
    return replace(
        finding,
        client="",
        broker="",
        group_id=None,
        member_id=None,
        topic_id=None,
        client_id=None,
        proxy=None,
        argument="",
    )
