"""Walks against real brokers: `python -m tests.broker --release 4.3.1 --seed 7 --steps 2000 -o DIR` takes one, `--long`
all of them.

Exit code 1 when a broker answered what the model or the in-flight machine had not foretold, or kshark accused a clean
step; `--long` also when an outcome was rare."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.broker.releases import RELEASES
from tests.broker.report import rare, surprises, table
from tests.broker.run import MANY, Done, Plan, run
from tests.broker.server import NoBroker
from tests.broker.verdicts import verdicts

#: A long run of one release: seeds with room for so many sessions and so many restarts.
LONG: Final = ((1, MANY, 0), (2, MANY, 2), (3, MANY, 1), (4, 3, 1), (5, MANY, 0))
LONG_STEPS: Final = 2_400


def plans(arguments: argparse.Namespace) -> list[Plan]:
    """What is to be done."""
    releases = arguments.release or list(RELEASES)
    if not arguments.long:
        return [
            Plan(release, arguments.seed, arguments.steps, arguments.room, arguments.restarts) for release in releases
        ]
    return [
        Plan(release, arguments.seed * 10 + at, LONG_STEPS, room, restarts, scenarios=at == 1)
        for release in releases
        for at, room, restarts in LONG
    ]


def report(done: Done) -> list[str]:
    """Says what a run showed; returns what was wrong."""
    counts, accused = verdicts(done.capture, done.expected)
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    how = "captured" if done.captured else "put together from the clients' bytes"
    print(
        f"{done.plan.name}: {len(done.expected['steps'])} steps, {how}; refusals: {said}; clean steps accused: "
        f"{len(accused)}",
        flush=True,
    )
    return [*surprises(done), *(f"{done.plan.name}, {text}" for text in accused)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.broker", description="Random walks of share clients against real brokers."
    )
    parser.add_argument(
        "--release", action="append", choices=RELEASES, help="the broker's release (all of them unless given)"
    )
    parser.add_argument("--seed", type=int, default=1, help="what is done is chosen by it (1)")
    parser.add_argument("--steps", type=int, default=2_000, help="how many requests (2000)")
    parser.add_argument("--room", type=int, default=MANY, help="how many share sessions the broker holds (2000)")
    parser.add_argument("--restarts", type=int, default=0, help="how often the broker restarts (0)")
    parser.add_argument(
        "--long", action="store_true", help="more than 10,000 steps of each release, by five seeds, and the scenarios"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("out/broker"),
        help="the folder for captures and what is known of them",
    )
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # brokers are stopped on the way out
    runs: list[Done] = []
    wrong: list[str] = []
    try:
        for plan in plans(given):
            runs.append(run(plan, given.output))
            wrong += report(runs[-1])
    except NoBroker as error:
        print(f"no broker: {error}", file=sys.stderr)
        return 2
    if given.long:
        wrong += rare(runs)
    print(table(runs))
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
