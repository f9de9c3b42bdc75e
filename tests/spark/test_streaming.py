"""`spark.readStream.format("kshark")`: rotated captures as one that goes on. Most tests play Spark's part, which is a
few calls."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from getpass import getuser
from itertools import pairwise, product
from pathlib import Path
from random import Random
from shutil import which
from typing import Any

import pytest

from benchmarks.repeating import continued
from benchmarks.wire import Wire
from kshark.errors import UsageError
from tests.packets import Packet, pcap
from tests.property.mangled import packets_of
from tests.shared import CAPTURES, sample_of

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kshark.tables import TABLES
from kshark_spark.datasource import CaptureReader, arguments
from kshark_spark.frames import write_tables
from kshark_spark.selection import Selection
from kshark_spark.state import snapshots
from kshark_spark.streaming import RotatedReader

RESTART, EPOCHS = CAPTURES / "share-restart.pcap", CAPTURES / "adv-epochs.pcap"
OLD_S = 1_700_000_000
#: The same capture as a stream and as files is called otherwise.
NAMES = "capture", "flow_id", "ts"


def rotated(folder: Path, packets: Sequence[Packet], edges: Sequence[int], first: int = 0) -> list[Path]:
    """Files as tcpdump -C writes them, complete for long."""
    folder.mkdir(exist_ok=True)
    files = []
    for number, (begin, end) in enumerate(pairwise(edges), first):
        files.append(folder / f"trace.pcap{number or ''}")
        files[-1].write_bytes(pcap(packets[begin:end], link_type=packets[0].link_type))
        os.utime(files[-1], (OLD_S + number, OLD_S + number))
    return files


def comparable(row: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in row.items() if name not in NAMES}, default=str)


def of_batch(folder: Path, table: str) -> list[str]:
    """The rows of `spark.read` of that folder."""
    reader = CaptureReader(arguments({"path": str(folder)}), Selection({table: columns(table)}))
    return [comparable(row) for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def apart_from_events(rows: list[str]) -> list[str]:
    """Without the event that explains a finding: a stream reports findings before it knows a later event."""
    return sorted(re.sub(r'"event_(code|packet)": ("[A-Z_]+"|\d+|null)', "", row) for row in rows)


def columns(table: str) -> list[str]:
    return [column.name for column in TABLES[table].columns]


@dataclass
class Spark:
    """Asks a stream as Spark does: what an offset log and a sink would keep is kept, everything else dies with
    `killed`."""

    folder: Path
    table: str = "findings"
    options: dict[str, str] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    offsets: list[dict[str, Any]] = field(default_factory=list)
    #: The last batch is begun, and not done.
    begun: bool = False

    def __post_init__(self) -> None:
        self.killed()

    def killed(self) -> None:
        given = {"path": f"file://{self.folder}", "state": str(self.folder.with_name("state")), **self.options}
        self.reader = RotatedReader(given, Selection({self.table: columns(self.table)}))
        self.offsets = self.offsets or [self.reader.initialOffset()]

    def final(self) -> None:
        """Started once more, to end the capture."""
        self.options["final"] = "true"
        self.killed()
        assert self.batch()
        assert not self.batch()

    def batch(self, *, dies: bool = False) -> bool:
        """The next micro-batch, or the last one again if it was not done; whether there was one. `dies`: in the middle
        of its rows."""
        if not self.begun:
            self.reader.commit(self.offsets[-1])
            latest = self.reader.latestOffset()
            if latest == self.offsets[-1]:
                return False
            self.offsets.append(latest)
            self.begun = True
        rows = self._read(*self.offsets[-2:])
        first = next(rows, None)
        if dies:
            return True
        self.rows += [row for row in (first, *rows) if row is not None]
        self.begun = False
        return True

    def _read(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        for part in self.reader.partitions(start, end):
            for batch in self.reader.read(part):
                yield from map(comparable, batch.to_pylist())


# -- as one capture

TOGETHER = [
    *product(
        (RESTART, EPOCHS, CAPTURES / "tcp-var-missed.pcap"),
        ("findings", "sessions", "steps", "exchanges", "flows", "weirds"),
    )
]


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("case", sample_of(TOGETHER, 6, seed=1), ids=lambda case: f"{case[0].stem} {case[1]}")
def test_file_by_file_with_deaths_between_it_tells_what_is_told_of_all_at_once(
    tmp_path: Path, case: tuple[Path, str]
) -> None:
    capture, table = case
    random = Random(capture.name + table)
    packets = packets_of(capture)
    edges = [0, *sorted(random.sample(range(1, len(packets)), 5)), len(packets)]
    stream = Spark(tmp_path / "in", table, {"settled": "0"})
    (tmp_path / "in").mkdir()
    for number in range(6):
        rotated(tmp_path / "in", packets, edges[number : number + 2], number)
        if random.random() < 0.5:
            stream.batch(dies=True)
            stream.killed()
        stream.batch()
    stream.final()
    assert apart_from_events(stream.rows) == apart_from_events(of_batch(tmp_path / "in", table))


def test_what_only_the_end_tells_is_told_when_it_is_final(tmp_path: Path) -> None:
    packets = packets_of(EPOCHS)
    rotated(tmp_path / "in", packets, [0, len(packets) // 2, len(packets)])
    stream = Spark(tmp_path / "in", "flows", {"settled": "0"})
    stream.batch()
    every, so_far = of_batch(tmp_path / "in", "flows"), list(stream.rows)
    assert 0 < len(so_far) < len(every)
    assert so_far == every[: len(so_far)]
    stream.final()
    assert stream.rows == every
    rotated(tmp_path / "in", packets, [0, 10], 7)
    with pytest.raises(UsageError, match="this stream ended with final"):
        stream.batch()


# -- which files


def test_the_newest_file_of_a_series_waits_until_it_is_settled_or_another_one_begins(tmp_path: Path) -> None:
    packets = packets_of(EPOCHS)
    first, second = rotated(tmp_path / "in", packets, [0, 200, 400])
    other = tmp_path / "in" / "eth1.pcap0"
    other.write_bytes(second.read_bytes())
    os.utime(second)
    os.utime(other)
    (tmp_path / "in" / "notes0.txt").write_text("no capture")
    stream = Spark(tmp_path / "in", options={"settled": "3600"})
    stream.batch()
    assert [file.path for file in stream.reader._state.files] == [str(first)]
    rotated(tmp_path / "in", packets, [400, 600], 2)
    os.utime(tmp_path / "in" / "trace.pcap2")
    stream.batch()
    assert [file.path for file in stream.reader._state.files] == [str(first), str(second)]


def test_a_file_that_grows_when_it_was_read_is_told_of_once_and_what_came_late_is_not_read(tmp_path: Path) -> None:
    packets = packets_of(EPOCHS)
    first, _ = rotated(tmp_path / "in", packets, [0, 200, 400])
    size = first.stat().st_size
    stream = Spark(tmp_path / "in", "weirds", {"settled": "0"})
    stream.batch()
    first.write_bytes(first.read_bytes() + bytes(100))
    assert stream.batch()
    first.write_bytes(first.read_bytes() + bytes(100))
    assert not stream.batch()
    rotated(tmp_path / "in", packets, [400, 500], 2)
    stream.batch()
    stream.final()
    (streamed,) = [row for row in map(json.loads, stream.rows) if row["code"] == "CAPTURE_UNREAD"]
    assert (streamed["detail"], streamed["size_bytes"]) == (f"{first}: grew after it was read", 100)
    assert stream.reader._state.files[0].size == size


def test_bytes_that_come_between_taking_and_reading_are_not_read(tmp_path: Path) -> None:
    packets = packets_of(EPOCHS)
    first, _ = rotated(tmp_path / "in", packets, [0, 200, 400])
    stream, calm = Spark(tmp_path / "in", "exchanges", {"settled": "0"}), of_batch(tmp_path / "in", "exchanges")
    stream.batch(dies=True)
    first.write_bytes(first.read_bytes() + pcap(packets[:200], link_type=packets[0].link_type)[24:])
    stream.killed()
    stream.batch()
    assert stream.rows
    assert stream.rows == calm[: len(stream.rows)]


@pytest.mark.sweep
@pytest.mark.skipif(which("tcpdump") is None, reason="tcpdump is not installed")
def test_tcpdump_rotates_and_all_but_its_last_file_are_complete(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with (tmp_path / "whole.pcap").open("wb") as out:
        continued(EPOCHS, Wire(out), 2_500_000)
    command = [
        "tcpdump",
        "-Z",
        getuser(),
        "-r",
        str(tmp_path / "whole.pcap"),
        "-C",
        "1",
        "-w",
        str(tmp_path / "in" / "eth0.pcap"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    stream = Spark(tmp_path / "in", "exchanges", {"settled": "3600"})
    stream.batch()
    assert [Path(file.path).name for file in stream.reader._state.files] == ["eth0.pcap", "eth0.pcap1"]
    stream.final()
    assert apart_from_events(stream.rows) == apart_from_events(of_batch(tmp_path / "in", "exchanges"))


def test_a_ring_writes_over_its_oldest_file(tmp_path: Path) -> None:
    """tcpdump -C 1 -W 2: a name that comes again is another file."""
    packets = packets_of(EPOCHS)
    edges = [0, 150, 300, 450, len(packets)]
    stream = Spark(tmp_path / "in", options={"settled": "0"})
    for number, (begin, end) in enumerate(pairwise(edges)):
        (path,) = rotated(tmp_path / "in", packets, [begin, end], number % 2)
        os.utime(path, (OLD_S + number, OLD_S + number))
        stream.batch()
    stream.final()
    rotated(tmp_path / "all", packets, edges)
    assert apart_from_events(stream.rows) == apart_from_events(of_batch(tmp_path / "all", "findings"))


def test_a_file_that_is_gone_or_written_over_before_it_was_read_is_told(tmp_path: Path) -> None:
    packets = packets_of(EPOCHS)
    first, second, _ = rotated(tmp_path / "in", packets, [0, 200, 400, 600])
    stream = Spark(tmp_path / "in", "weirds", {"settled": "0"})
    stream.batch(dies=True)
    first.unlink()
    second.write_bytes(pcap(packets[600:700], link_type=packets[0].link_type))
    stream.killed()
    stream.batch()
    stream.final()
    streamed = [row["detail"] for row in map(json.loads, stream.rows) if row["code"] == "CAPTURE_UNREAD"]
    assert streamed == [f"{first}: no such file or directory", f"{second}: overwritten before it was read"]


# -- what is kept


def test_two_snapshots_are_kept_and_where_one_is_missing_the_files_before_are_read_again(tmp_path: Path) -> None:
    packets = packets_of(RESTART)
    edges = [*range(0, len(packets), 300), len(packets)]
    stream = Spark(tmp_path / "in", options={"settled": "0"})
    (tmp_path / "in").mkdir()
    for number in range(len(edges) - 1):
        rotated(tmp_path / "in", packets, edges[number : number + 2], number)
        stream.batch()
        stream.reader.commit(stream.offsets[-1])
        if number == 3:  # nobody looked at that batch's rows to their end
            (tmp_path / "state" / "snapshot-4").unlink()
    assert sorted(snapshots(tmp_path / "state")) == [len(edges) - 2, len(edges) - 1]
    stream.final()
    assert apart_from_events(stream.rows) == apart_from_events(of_batch(tmp_path / "in", "findings"))


def test_whoever_dies_while_a_file_is_noted_did_not_take_it(tmp_path: Path) -> None:
    packets = packets_of(EPOCHS)
    rotated(tmp_path / "in", packets, [0, 200, len(packets)])
    stream = Spark(tmp_path / "in", options={"settled": "0"})
    stream.reader.latestOffset()
    notes = tmp_path / "state" / "files.jsonl"
    notes.write_bytes(notes.read_bytes()[:-9])
    stream.killed()
    assert [Path(file.path).name for file in stream.reader._state.files] == ["trace.pcap"]
    stream.final()
    assert apart_from_events(stream.rows) == apart_from_events(of_batch(tmp_path / "in", "findings"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"each": "true"}, "a stream has no option each"),
        ({"settled": "soon"}, 'settled is a number of seconds, not "soon"'),
        ({"final": "now"}, 'final is true or false, not "now"'),
        ({"stat": "x"}, 'no option "stat"'),
        ({"path": "s3://bucket/captures"}, "s3://bucket/captures: a stream's folders must be local or mounted"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Spark(tmp_path, options=options)


def test_a_stream_needs_a_folder_and_a_state_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match='a stream needs a folder for its state; name one with option\\("state", DIR\\)'
    ):
        RotatedReader({"path": str(tmp_path)}, Selection({"findings": []}))
    packets = packets_of(EPOCHS)
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="in: not a folder; a stream reads the captures of a folder or a pattern"):
        RotatedReader(
            {"path": str(tmp_path / "in"), "state": str(tmp_path / "other")}, Selection({"findings": []})
        ).latestOffset()
    rotated(tmp_path / "in", packets, [0, 200, 400])
    Spark(tmp_path / "in", "findings", {"table": "findings", "settled": "0"}).batch()
    with pytest.raises(UsageError, match=r"the state of another stream \(table findings\); use one folder per stream"):
        Spark(tmp_path / "in", "flows", {"table": "flows", "settled": "0"}).batch()


def test_a_checkpoint_without_its_state_is_refused(tmp_path: Path) -> None:
    packets = packets_of(EPOCHS)
    rotated(tmp_path / "in", packets, [0, 200, 400])
    stream = Spark(tmp_path / "in", options={"settled": "0"})
    stream.batch()
    for path in (tmp_path / "state").iterdir():
        path.unlink()
    (tmp_path / "in" / "trace.pcap").unlink()
    stream.killed()
    with pytest.raises(
        UsageError,
        match="the state does not match the checkpoint; start again with new folders for both",
    ):
        stream.batch()


# -- Spark itself


@pytest.mark.spark
def test_spark_goes_on_from_its_checkpoint_and_tables_are_those_of_a_batch(spark: Any, tmp_path: Path) -> None:
    """Two tables, of which each micro-batch is decoded once."""
    packets = packets_of(RESTART)
    edges = [0, 700, len(packets)]
    from pyspark.errors import StreamingQueryException

    def write(blocks: Any, batch: int) -> None:
        write_tables(blocks, tmp_path / "out", batch)

    def run(**options: str) -> None:
        stream = (
            spark.readStream.format("kshark")
            .option("table", "findings,flows")
            .option("state", str(tmp_path / "state"))
            .options(**options)
        )
        query = (
            stream.load(str(tmp_path / "in"))
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )
        for attempts_left in reversed(range(5)):
            try:
                query.trigger(availableNow=True).start().awaitTermination()
                return
            except StreamingQueryException as error:
                # Spark gives its Python worker 10 s to start, however busy the machine is
                if not attempts_left or "failed to connect back" not in str(error):
                    raise

    for number in range(2):
        rotated(tmp_path / "in", packets, edges[number : number + 2], number)
        run(settled="3600") if number % 2 else run()
    run(final="true")
    for table in ("findings", "flows"):
        batch = spark.read.format("kshark").option("table", table).load(str(tmp_path / "in"))
        streamed = spark.read.parquet(str(tmp_path / "out" / table)).drop("batch")
        assert streamed.schema == batch.schema
        rows = [
            apart_from_events([comparable(row.asDict(recursive=True)) for row in frame.collect()])
            for frame in (streamed, batch)
        ]
        assert rows[0]
        assert rows[0] == rows[1]
        assert {row.capture for row in streamed.select("capture").distinct().collect()} == {"in"}
