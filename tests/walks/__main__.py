"""Prints how right kshark is on each walk: `python -m tests.walks [-v] [PCAP...]`; without names, all walks of the
shared folder.

right: provable refusals whose one finding with a cause says a cause that the walker allows; first: the likeliest one;
viol.: as a violation, the others are notes. unknown: of provable refusals and, after the `+`, of the others. wrong
likewise. beyond: a cause where the walker knew none. clean: violations at requests with which nothing was wrong.
causes: refusals without exactly one finding that has a cause. Below each row: what lies behind its figures."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.walks.marking import WALKS, Marks, Wrong, mark

_COLUMNS = "{:<24}{:>7}{:>9}{:>10}{:>7}{:>7}{:>7}{:>7}{:>10}{:>7}{:>8}{:>7}{:>8}"


def lines(name: str, marks: Marks) -> Iterable[str]:
    """A capture's row of the table and, where there is anything to say, what lies behind its figures."""
    rate = f"{100 * marks.right / marks.provable:.1f}" if marks.provable else "-"
    unknown = f"{len(marks.unknown)}+{marks.unknown_unprovable}"
    wrong = f"{len(marks.wrong)}+{len(marks.wrong_unprovable)}"
    counts = (marks.steps, marks.refused, marks.provable, marks.right, rate, marks.first, marks.violations)
    yield _COLUMNS.format(name, *counts, unknown, wrong, marks.beyond, len(marks.accused), len(marks.uncaused))
    for word, some in (("wrong", marks.wrong), ("wrong, not provable", marks.wrong_unprovable)):
        by_kind: dict[str, list[object]] = defaultdict(list)
        for it in some:
            by_kind[it.kind].append(it.step.packet)
        yield from (f"    {word}: {kind}: {_few(packets)}" for kind, packets in sorted(by_kind.items()))
    by_kind = defaultdict(list)
    for step in marks.unknown:
        by_kind[" or ".join(sorted(step.first))].append(step.packet)
    yield from (f"    unknown: {kind}: {_few(packets)}" for kind, packets in sorted(by_kind.items()))
    if marks.uncaused:
        yield f"    not one cause: {_few(f'{step.packet} ({count})' for step, count in marks.uncaused)}"
    by_kind = defaultdict(list)
    for finding in marks.accused:
        by_kind[finding.code].append(finding.packet)
    yield from (f"    at clean requests: {code}: {_few(packets)}" for code, packets in sorted(by_kind.items()))
    if marks.found or marks.missed:
        missed = f"; missed {_few(step.packet for step in marks.missed)}" if marks.missed else ""
        unfounded = f"; unfounded {_few(finding.packet for finding in marks.unfounded)}" if marks.unfounded else ""
        yield f"    other mistakes found: {marks.found} of {marks.found + len(marks.missed)}{missed}{unfounded}"
    if marks.others:
        yield "    other violations: " + " · ".join(f"{code} {count}" for code, count in sorted(marks.others.items()))


def _few(items: Iterable[object], limit: int = 14) -> str:
    every = [str(item) for item in items]
    more = len(every) - limit
    return f"{len(every)} at {' '.join(every[:limit])}{f' and {more} more' if more > 0 else ''}"


def arguments(marks: Marks) -> Iterable[str]:
    """Every wrong word with its argument."""

    def told(it: Wrong) -> str:
        step, said = it.step, it.said
        return (
            f"  packet {step.packet}: {step.sent}, epoch {step.epoch}, answered {step.error_code}: {it.kind}\n"
            f"      any of {sorted(step.causes)}; said {said.code} ({said.verdict}): {said.argument}"
        )

    yield from map(told, (*marks.wrong, *marks.wrong_unprovable))
    for finding in marks.accused:
        yield f"  packet {finding.packet}, nothing was wrong: {finding.code}: {finding.argument}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.walks", description="how right kshark is on random walks against real brokers"
    )
    parser.add_argument("captures", nargs="*", type=Path, metavar="PCAP")
    parser.add_argument("-v", "--verbose", action="store_true", help="every wrong word with its argument")
    asked = parser.parse_args()
    captures: list[Path] = asked.captures or sorted(WALKS.glob("*.pcap"))
    if not captures:
        parser.error(f"no captures in {WALKS}; name some, or set KSHARK_SHARED")
    head = (
        "capture",
        "steps",
        "refused",
        "provable",
        "right",
        "%",
        "first",
        "viol.",
        "unknown",
        "wrong",
        "beyond",
        "clean",
        "causes",
    )
    print(_COLUMNS.format(*head))
    for path in captures:
        marks = mark(path)
        print(*lines(path.stem, marks), *(arguments(marks) if asked.verbose else ()), sep="\n", flush=True)


if __name__ == "__main__":
    main()
