"""Share traffic that is hard to judge: CPU seconds a megabyte and peak memory of `kshark check`, beside ordinary
traffic in the same run.

python -m benchmarks.hostile [--megabytes N] [SHAPE...]
"""

from __future__ import annotations

import argparse
from multiprocessing import get_context
from pathlib import Path

from benchmarks.inputs import INPUTS
from benchmarks.measure import kshark, run
from benchmarks.places import WORK
from tests.analysis.shapes import SHAPES, Shape
from tests.conversation import Conversation
from tests.packets import pcap

#: Number of exchanges for estimating the size of one exchange of a shape.
_SAMPLE = 50


def made(shape: Shape, megabytes: float) -> Path:
    """Create a capture of that shape and approximate size."""
    talk = Conversation()
    shape(talk, _SAMPLE)
    exchanges = int(megabytes * 1e6 / len(pcap(talk.wire.packets)) * _SAMPLE)
    talk = Conversation()
    shape(talk, exchanges)
    WORK.mkdir(exist_ok=True)
    file = WORK / f"hostile-{shape.__name__}.pcap"
    file.write_bytes(pcap(talk.wire.packets))
    return file


def measured(file: Path) -> tuple[float, float]:
    """Return CPU seconds per megabyte, and megabytes of memory, of `kshark check`."""
    came = run(kshark("check", "-T", "json", str(file)))
    return came.cpu_s / (file.stat().st_size / 1e6), came.memory_mb


def main() -> None:
    by_name = {shape.__name__: shape for shape in SHAPES}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"all unless told: {', '.join(by_name)}")
    parser.add_argument("--megabytes", type=float, default=5, help="of each capture (5)")
    asked = parser.parse_args()
    if unknown := [name for name in asked.shapes if name not in by_name]:
        parser.error(f"no shape {unknown[0]!r}")
    ordinary, _ = measured(INPUTS["share-rpc"].path(10))
    print(f"{'ordinary share traffic':34} {ordinary:6.2f} s/MB")
    for name in asked.shapes or by_name:
        with get_context("spawn").Pool(1) as maker:  # its memory would count for whom this process starts
            file = maker.apply(made, (by_name[name], asked.megabytes))
        seconds, memory = measured(file)
        print(f"{name:34} {seconds:6.2f} s/MB  {seconds / ordinary:5.1f} times  {memory:5.0f} MB", flush=True)
        file.unlink()


if __name__ == "__main__":
    main()
