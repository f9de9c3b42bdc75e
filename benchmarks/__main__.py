"""`make bench`: kshark beside tshark on the same files, interleaved. Prints CPU seconds, their ratio, and peak memory."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.inputs import replicated
from benchmarks.measure import in_turn, kshark, tshark

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("KSHARK_SHARED") or ROOT.parent / "shared")


def sources() -> dict[str, tuple[Path, int]]:
    """What is measured: a capture to repeat, and to how many MB."""
    large = SHARED / "captures/librdkafka-mock/mid.pcap"
    return {
        "old versions, many records": (large if large.exists() else ROOT / "captures/small-zstd.pcap", 300),
        "share RPCs": (ROOT / "captures/share-java-explicit.pcap", 100),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="peak memory at 100 MB and at 1 GB of share RPCs")
    asked = parser.parse_args()
    print(f"{'traffic':<30}{'MB':>6}{'kshark s':>10}{'tshark s':>10}{'ratio':>8}{'kshark MB':>11}{'tshark MB':>11}")
    for name, (path, megabytes) in sources().items():
        file = str(replicated(path, megabytes))
        peer = tshark("-n", "-r", file, "-Y", "kafka", "-J", "kafka", "-T", "json", *ports(path))
        commands = [kshark("read", "-T", "json", file), *([peer] if peer else [])]
        runs = in_turn(commands, asked.rounds)
        own = min(run.cpu_s for run in runs[0])
        memory = max(run.memory_mb for run in runs[0])
        size = os.path.getsize(file) // 1_000_000
        if peer:
            other = min(run.cpu_s for run in runs[1])
            peak = max(run.memory_mb for run in runs[1])
            print(f"{name:<30}{size:>6}{own:>10.2f}{other:>10.2f}{other / own:>7.2f}x{memory:>11.0f}{peak:>11.0f}")
        else:
            print(f"{name:<30}{size:>6}{own:>10.2f}{'no tshark':>10}{'':>8}{memory:>11.0f}")
    if asked.memory:
        path, _ = sources()["share RPCs"]
        for megabytes in (100, 1000):
            (runs_of,) = in_turn([kshark("read", "-T", "json", str(replicated(path, megabytes)))], 1)
            print(f"memory at {megabytes} MB: {runs_of[0].memory_mb:.0f} MB, {runs_of[0].cpu_s:.1f} s")


def ports(path: Path) -> list[str]:
    """tshark knows Kafka by port only: the brokers' ports of the capture, as decode-as arguments."""
    import json

    summary = path.with_suffix(".summary.json")
    text = json.dumps(json.loads(summary.read_text())) if summary.exists() else ""
    known = json.loads(summary.read_text()) if summary.exists() else {}
    found = set()
    if isinstance(known.get("brokers"), str):
        found |= {end.rsplit(":", 1)[1] for end in known["brokers"].split(",")}
    for key in ("ports", "listeners"):
        value = known.get(key)
        if isinstance(value, dict):
            found |= {str(v) for v in (*value, *value.values()) if str(v).isdigit()}
    return [word for port in sorted(found) for word in ("-d", f"tcp.port=={port},kafka")] if text else []


if __name__ == "__main__":
    main()
