"""`python -m tests.trouble.events --case NAME --release 4.4.0 -o DIR` records a case, `--compare DIR` sets what
happened beside what kshark reports.

Each case has a folder `DIR/RELEASE/NAME` with captures, `truth.jsonl` (the events) and `actions.jsonl` (all that was
done). The comparison has exit code 1 if an event is missing, false, or more than 200 ms off."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.broker.releases import RELEASES
from tests.broker.server import NoBroker
from tests.trouble.events.cases import CASES
from tests.trouble.events.scene import scene
from tests.trouble.events.truth import events_of, lines, paired, read_truth

_BAD: Final = ("MISSING", "FALSE", "LATE OR EARLY")


def record(name: str, release: str, output: Path) -> Path:
    """Record a case; return its folder. Raises NoBroker."""
    case, folder = CASES[name], (output / release / name).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with scene(RELEASES[release], folder, case) as there:
        case.run(there)
    for unneeded in (*folder.glob("broker-*/data"), folder / "classes"):
        shutil.rmtree(unneeded)
    return folder


def compare(folder: Path) -> int:
    """Print what happened in each case beside what kshark reports; return how many differ."""
    bad = 0
    for log in sorted(folder.rglob("truth.jsonl")):
        truths, allowed = read_truth(log), CASES[log.parent.name].allowed if log.parent.name in CASES else frozenset()
        for captures in (sorted(log.parent.glob("brokers.pcap*")), sorted(log.parent.glob("client-*.pcap*"))):
            if captures:
                print(f"{log.parent}: {captures[0].name}{' and others' if captures[1:] else ''}")
                command = (sys.executable, "-m", "kshark", "check", "-T", "json", *map(str, captures))
                done = subprocess.run(command, capture_output=True, text=True)
                reported = events_of(map(json.loads, done.stdout.splitlines()))
                pairs = [
                    pair
                    for pair in paired(truths, reported)
                    if pair.truth is not None or pair.event is None or pair.event.code not in allowed
                ]
                start = json.loads((log.parent / "actions.jsonl").read_text().partition("\n")[0])["time_ns"]
                print(*lines(pairs, start), sep="\n", flush=True)
                bad += sum(pair.result in _BAD for pair in pairs)
    return bad


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trouble.events", description="Captures of known events.")
    parser.add_argument("--case", choices=CASES, action="append", help="what happens (all cases, one after the other)")
    parser.add_argument(
        "--release", choices=RELEASES, default=[*RELEASES][-1], help="of brokers and clients (the newest)"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("out/events"), help="the folder for cases")
    parser.add_argument("--compare", type=Path, metavar="DIR", help="record nothing; judge the cases in this folder")
    given = parser.parse_args(arguments)
    if given.compare is not None:
        return int(compare(given.compare) > 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # processes are stopped on the way out
    for name in given.case or CASES:
        try:
            folder = record(name, given.release, given.output)
        except NoBroker as error:
            print(error, file=sys.stderr)
            return 2
        print(f"{folder}: {sum(1 for _ in (folder / 'truth.jsonl').open())} events", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
