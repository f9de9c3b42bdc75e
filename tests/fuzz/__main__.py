"""`python -m tests.fuzz`: damaged input for so many minutes; counts at the end, exit code 1 if anything failed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.kinds import KINDS
from tests.fuzz.lane import Lane, Saved, replay, write

#: Failures after which a run ends: more of the same teach nothing.
ENOUGH = 20


def main() -> int:
    asked = arguments()
    kinds = [kind for kind in KINDS if not asked.only or kind.name in asked.only]
    if asked.replay is not None:
        failure = replay(asked.replay, list(KINDS))
        print("it does not fail" if failure is None else failure.text)
        return failure is not None
    lane = Lane(kinds, asked.seed)
    failures: dict[str, Saved] = {}
    if asked.number is not None:
        failed = [lane.one(kind, asked.number) for kind in kinds]
        failures = {f"{it.kind}: {it.what}": it for it in failed if it is not None}
    until = time.monotonic() + 60 * asked.minutes
    while asked.number is None and time.monotonic() < until and len(failures) < ENOUGH:
        failed_now = lane.run(lane.next())
        if (
            failed_now is not None
            and failures.setdefault(f"{failed_now.kind}: {failed_now.what}", failed_now) is failed_now
        ):
            told(failed_now, asked.output)
    if asked.number is not None:
        for it in failures.values():
            told(it, asked.output)
    print_counts(lane)
    return bool(failures)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Damaged input of every kind; what fails is made small."
    )
    parser.add_argument("--minutes", type=float, default=1, help="how long (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="other cases (default %(default)s)")
    names = [kind.name for kind in KINDS]
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        metavar="KIND",
        help=f"only this kind: {', '.join(names)}; may be repeated",
    )
    parser.add_argument("--number", type=int, help="only the case with this number")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="a failure that was written, again")
    parser.add_argument(
        "-o",
        dest="output",
        type=Path,
        default=Path("out/fuzz"),
        metavar="FOLDER",
        help="failures (default %(default)s)",
    )
    return parser.parse_args()


def told(saved: Saved, folder: Path) -> None:
    path = write(saved, folder)
    print(
        f"{saved.kind} {saved.number}: {saved.what}\n{saved.text}    python -m tests.fuzz --replay {path}\n", flush=True
    )


def print_counts(lane: Lane) -> None:
    """A row for each kind, and what was told of its cases."""
    print(f"{'kind':10} {'cases':>9} {'items':>11} {'bytes':>14} {'CPU s':>8} {'items a s':>10}")
    for name, it in lane.counts.items():
        print(
            f"{name:10} {it.cases:9,} {it.items:11,} {it.size:14,} {it.cpu_s:8.1f} {it.items / (it.cpu_s or 1):10,.0f}"
        )
    for name, it in lane.counts.items():
        if it.codes:
            print(f"\n{name}: " + " · ".join(f"{code} {count:,}" for code, count in sorted(it.codes.items())))


if __name__ == "__main__":
    sys.exit(main())
