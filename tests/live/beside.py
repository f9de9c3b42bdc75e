"""`python -m tests.live.beside FOLDER COMMAND...` runs a command with `kshark live` and tcpdump beside it on loopback.

What live says, what `kshark check` says of the file that live wrote, and of tcpdump's, must be the same findings.
Prints how long after their last packet findings were printed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import Any

from tests.live.wire import found

#: Live has judged everything when it says nothing for so long.
_QUIET_S = 5.0
KSHARK = (sys.executable, "-m", "kshark")


def main(folder: Path, command: list[str]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    written, dumped = folder / "live.pcapng", folder / "tcpdump.pcap"
    lines: list[tuple[int, dict[str, Any]]] = []
    live = subprocess.Popen(
        [*KSHARK, "live", "-i", "lo", "-f", "tcp", "-q", "-T", "json", "-w", str(written)],
        stdout=subprocess.PIPE,
        stderr=(folder / "live.err").open("w"),
    )
    assert live.stdout is not None
    reading = Thread(target=lambda: lines.extend((time.time_ns(), json.loads(line)) for line in live.stdout or ()))
    reading.start()
    dump = subprocess.Popen(
        ["tcpdump", "-i", "lo", "-B", "262144", "-s", "0", "--nano", "-Z", "root", "-w", str(dumped), "tcp"]
    )
    while "capturing on" not in (folder / "live.err").read_text():
        time.sleep(0.1)
    subprocess.run(command, check=False)
    dump.terminate()
    dump.wait()
    before = -1
    while before < len(lines):
        before = len(lines)
        time.sleep(_QUIET_S)
    live.send_signal(signal.SIGINT)
    reading.join()
    findings = [line for _, line in lines if "verdict" in line]
    print(Counter(f"{finding['verdict']} {finding['code']}" for finding in findings))
    late = sorted((at - line["time_ns"]) / 1e6 for at, line in lines if line.get("verdict") == "violation")
    if late:
        print(f"violations after {late[len(late) // 2]:.0f} ms (median), {late[len(late) * 9 // 10]:.0f} ms (90 %)")
    print((folder / "live.err").read_text())
    sides = {"live": found(findings), "-w": found(checked(written)), "tcpdump": found(checked(dumped))}
    for name, other in sides.items():
        print(f"{name}: {len(other):,} findings, {'equal' if other == sides['live'] else 'NOT EQUAL'}")
        for one in [*(Counter(other) - Counter(sides["live"])), *(Counter(sides["live"]) - Counter(other))][:10]:
            print("   only on one side:", one)
    return int(len({tuple(side) for side in sides.values()}) > 1)


def checked(path: Path) -> list[dict[str, Any]]:
    """Return the findings of `kshark check`."""
    done = subprocess.run([*KSHARK, "check", "-T", "json", str(path)], stdout=subprocess.PIPE, check=False)
    return [line for line in map(json.loads, done.stdout.splitlines()) if "verdict" in line]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
