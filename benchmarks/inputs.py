"""The inputs: what each is made of, how large, how tshark is told its ports. Made once, kept in benchmarks/work until
their makers change.

python -m benchmarks.inputs [NAME [MEGABYTES]]
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.places import CAPTURES, ROOT, WORK

#: Share consumers, and where the contents of records come from: text of changing words and numbers, and text mixed with
#: random bytes.
SHARE: Final = "share-java-explicit.pcap"
CONTENTS: Final = ("share-loss.pcap", "small-zstd.pcap")
#: Source files; when one changes, the inputs are created again.
MAKERS: Final = ("contents", "conversations", "making", "repeating", "wire")


@dataclass(frozen=True)
class Input:
    """A kind of traffic (benchmarks.making writes it), and the size in MB that `make bench` and `make bench-quick`
    read.

    `ports` are those beside 9092; `late`: segments are out of order.
    """

    name: str
    what: str
    megabytes: int
    quick_megabytes: int
    sources: tuple[str, ...] = CONTENTS
    ports: tuple[int, ...] = ()
    late: bool = False

    def path(self, megabytes: int) -> Path:
        """Return the file of about that size; create it if missing."""
        file = WORK / f"{self.name}-{megabytes}.pcap"
        stamp, mark = file.with_suffix(".made-by"), self._mark()
        if not file.exists() or not stamp.exists() or stamp.read_text() != mark:
            WORK.mkdir(exist_ok=True)
            print(f"making {file.name}", file=sys.stderr, flush=True)
            fresh = file.with_suffix(".part")
            command = [sys.executable, "-m", "benchmarks.making", self.name, str(megabytes * 1_000_000), str(fresh)]
            subprocess.run(command, cwd=ROOT, check=True)
            fresh.replace(file)
            stamp.write_text(mark)
        return file

    def _mark(self) -> str:
        """Return a hash of everything that the file depends on."""
        own = Path(__file__).parent
        parts = [own / f"{name}.py" for name in MAKERS] + [CAPTURES / name for name in self.sources]
        return hashlib.sha256(b"".join(path.read_bytes() for path in parts)).hexdigest()


_BROKER_AND_CONTROLLER: Final = (20092, 20093)

INPUTS: Final = {
    one.name: one
    for one in (
        Input(
            "old-versions",
            "Produce v3 and Fetch v4, which tshark reads to the last field: small batches, half of them compressed "
            "(snappy, lz4, gzip)",
            170,
            20,
        ),
        Input(
            "share-rpc",
            f"share groups of today: the connections of {SHARE}, going on and on",
            50,
            10,
            (SHARE,),
            _BROKER_AND_CONTROLLER,
        ),
        Input(
            "zstd",
            "Produce v10 and Fetch v12: batches of 100 to 500 records, compressed with zstd to about a half",
            140,
            20,
        ),
        Input(
            "short-connections",
            f"{SHARE} again and again, every copy with connections of its own",
            40,
            10,
            (SHARE,),
            _BROKER_AND_CONTROLLER,
        ),
        Input("one-flow", "old-versions, all in one connection", 60, 10),
        Input("reordered", "old-versions, one segment in ten up to three places late", 60, 10, late=True),
        Input(
            "large",
            "old-versions, share-rpc and zstd one after the other: four, one and five tenths",
            1000,
            30,
            (*CONTENTS, SHARE),
            _BROKER_AND_CONTROLLER,
        ),
    )
}


def main() -> None:
    """Create all inputs, or one, and print their paths."""
    names, sizes = sys.argv[1:2] or list(INPUTS), sys.argv[2:]
    for one in map(INPUTS.__getitem__, names):
        path = one.path(int(sizes[0]) if sizes else one.megabytes)
        print(f"{path}  {path.stat().st_size / 1e6:.0f} MB  {one.what}")


if __name__ == "__main__":
    main()
