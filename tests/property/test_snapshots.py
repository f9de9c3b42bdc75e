"""A capture cut at any packet: whoever puts the state away there, and goes on from what is loaded, tells the same as
who never stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from kshark import limits
from kshark.analysis import Analyzer
from kshark.errors import UsageError
from kshark.model import PacketBatch
from kshark.pipeline import Engine, Options
from kshark.snapshot import load, save
from kshark.tables import Rows
from tests.packets import Tcp, Wire, batch, batches
from tests.property.event_values import value_of
from tests.property.mangled import anything, packets_of
from tests.shared import CAPTURES, ROOT, sample_of

ALL = sorted(CAPTURES.glob("*.pcap"))
#: What consumers ask for: rows of all tables, rows of records, findings alone.
ASKED = Options(records="headers", embedded=True), Options(embedded=True), Options(records=False)


class Run:
    """Everything that an engine, an analysis and rows tell, as text."""

    def __init__(self, options: Options) -> None:
        self.told: list[Any] = []
        self.state: tuple[Engine, Analyzer, Rows] = (
            Engine(options),
            Analyzer(sessions=True, steps=True),
            Rows("c", records=options.records is True),
        )

    def feed(self, item: PacketBatch) -> None:
        self._take(self.state[0].feed(item))

    def close(self) -> None:
        engine, analyzer, rows = self.state
        self._take(engine.close())
        self._tell(rows.page([*analyzer.close(), *analyzer.listed()]))
        self._tell(rows.rest())
        self.told.append(msgspec.json.encode(analyzer.summary()))

    def again(self) -> int:
        """Goes on from a snapshot; its size."""
        data = save(*self.state)
        self.state = load(data)  # type: ignore[assignment]
        return len(data)

    def _take(self, pages: Iterable[Any]) -> None:
        _, analyzer, rows = self.state
        for page in pages:
            self.told += map(value_of, page)
            self._tell(rows.page(page))
            self._tell(rows.page([*analyzer.page(page), *analyzer.listed()]))
        self._tell(rows.rest())

    def _tell(self, blocks: Iterable[Any]) -> None:
        self.told += [(table, repr(row)) for table, block in blocks for row in block.rows()]


def told(items: Iterable[PacketBatch], options: Options, random: Random | None = None, share: float = 1) -> list[Any]:
    """`random`: behind so many of the items the state is put away and taken up again."""
    run = Run(options)
    for item in items:
        run.feed(item)
        if random is not None and random.random() < share:
            run.again()
    run.close()
    return run.told


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("capture", sample_of(ALL, 10, seed=2), ids=lambda path: path.stem)
def test_nobody_can_tell_where_the_state_was_put_away(capture: Path) -> None:
    random = Random(zlib.crc32(capture.name.encode()))
    packets = packets_of(capture)
    edges = sorted({0, len(packets), *(random.randrange(len(packets)) for _ in range(6))})
    parts = list(batches(packets, [after - before for before, after in pairwise(edges)]))
    options = ASKED[random.randrange(3)]
    assert told(parts, options, random) == told(parts, options)


#: So low that a short capture reaches them.
LOW = {
    "OPEN_BYTES": 3_200,
    "RECOGNITION_BYTES": 3_000,
    "SEARCH_BYTES": 9_000,
    "REORDER_SEGMENTS": 5,
    "TOPICS": 9,
    "FLOWS": 4,
    "SESSIONS": 2,
}


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 400))])
def test_nor_in_the_middle_of_damage(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LOW.items() if seed % 2 else ():
        monkeypatch.setattr(limits, name, value)
    random = Random(seed)
    packets = packets_of(random.choice(ALL[: len(ALL) // 2] if seed < 4 else ALL))
    at = random.randrange(max(1, len(packets) - 150))
    packets = anything(packets[at : at + 150], random)
    parts = list(batches(packets, [random.choice((1, 1, 2, 5)) for _ in packets]))
    options = ASKED[seed % 3]
    assert told(parts, options, random, share=0.3) == told(parts, options)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_goes_on(tmp_path: Path, seed: str) -> None:
    """What depends on a process (hashes of texts, addresses) is made anew there."""
    packets = packets_of(CAPTURES / "share-restart.pcap")
    first, second = batch(packets[:900]), batch(packets[900:], 901)
    run = Run(ASKED[0])
    run.feed(first)
    (tmp_path / "state").write_bytes(save(*run.state))
    script = (
        "import sys\nfrom pathlib import Path\nfrom tests.property.test_snapshots import *\n"
        "run = Run(ASKED[0]); run.state = load(Path(sys.argv[1]).read_bytes())\n"
        "run.feed(batch(packets_of(CAPTURES / 'share-restart.pcap')[900:], 901)); run.close(); "
        "print(zlib.crc32(repr(run.told).encode()))"
    )
    run.told.clear()
    run.feed(second)
    run.close()
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "state")],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(zlib.crc32(repr(run.told).encode())), done.stderr


@pytest.mark.sweep
def test_thousands_of_open_connections_and_requests_are_one_level_after_the_other() -> None:
    """However long the chain of references, no recursion; and a connection takes what the module says."""
    wire = Wire()
    for number in range(3_000):
        Tcp(wire, f"10.0.{number >> 8}.{number & 255}:50000").open()
    run = Run(ASKED[0])
    before = len(save(*run.state))
    run.feed(batch(wire.packets))
    assert run.again() - before < 100 * 3_000


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"kshark snapshot kshark 0.0.1\n...", "of kshark 0.0.1 "), (b"PK\x03\x04", "of something else ")],
)
def test_a_snapshot_of_another_version_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(
        UsageError, match=f"a snapshot {said}cannot be read by kshark .*; start again, or use the version that wrote it"
    ):
        load(data)


def test_a_damaged_snapshot_is_refused() -> None:
    data = save(Engine())
    for damaged in data[:-7], data[:60] + b"\0" + data[61:]:
        with pytest.raises(UsageError, match="a damaged snapshot cannot be read"):
            load(damaged)
