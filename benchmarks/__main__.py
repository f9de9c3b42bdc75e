"""Compare kshark with its peers, on the same files in the same run: `make bench`, `make bench-quick`.

    python -m benchmarks [--quick] [--rounds N] [--only INPUT] [--huge]

Prints a table; a full run of 5 rounds or more also writes benchmarks/RESULTS.md and results.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.inputs import INPUTS
from benchmarks.report import markdown, table

HERE = Path(__file__).resolve().parent
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="smaller inputs, one round, nothing written: about a minute"
    )
    parser.add_argument("--rounds", type=int, help="rounds of each comparison (5; with --quick 1)")
    parser.add_argument(
        "--only", action="append", choices=sorted(INPUTS), help="only this input (repeatable); nothing written"
    )
    parser.add_argument("--huge", action="store_true", help="5 GB beside 0.5 GB too: time, and memory over time")
    asked = parser.parse_args()
    bench = Bench(
        quick=asked.quick, rounds=asked.rounds or (1 if asked.quick else ROUNDS), only=asked.only, huge=asked.huge
    )
    results = bench.run()
    print(table(results))
    if not asked.quick and not asked.only and bench.rounds >= ROUNDS:
        (HERE / "RESULTS.md").write_text(markdown(results))
        (HERE / "results.json").write_text(json.dumps(results.plain(), indent=1) + "\n")


if __name__ == "__main__":
    main()
