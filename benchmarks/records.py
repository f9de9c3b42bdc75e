"""Measure records per second: columns of many batches, compared with the loop and kafka-python, on the same bytes in
the same run.

`python benchmarks/records.py [--rounds N]` prints a table; ratios hold from machine to machine, absolutes do not.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from kshark.records import RecordsReader
from kshark.records.batch import Record
from kshark.records.writer import write_batch

NEVER = 1 << 60


@dataclass(frozen=True)
class Shape:
    """`batches` batches of `count` records each, pending together."""

    name: str
    batches: int
    count: int
    value_bytes: int = 20
    headers: int = 0
    codec: str = "none"


SHAPES = (
    Shape("small records, batches of 10", 4000, 10),
    Shape("small records, batches of 500", 80, 500),
    Shape("small records, one batch", 1, 1_000),
    Shape("two headers each", 400, 50, headers=2),
    Shape("values of 300 bytes", 400, 50, value_bytes=300),
    Shape("values of 300 bytes, zstd", 40, 500, value_bytes=300, codec="zstd"),
    Shape("values of 300 bytes, lz4", 40, 500, value_bytes=300, codec="lz4"),
    Shape("one batch of one record", 1, 1),
    Shape("one batch of ten records", 1, 10),
)


def batches(shape: Shape) -> list[bytes]:
    draw = random.Random(7)
    out = []
    for n in range(shape.batches):
        first = n * shape.count
        records = [
            Record(
                first + i,
                1_790_000_000_000 + i * 3,
                b"key-%05d" % draw.randrange(100_000),
                draw.randbytes(shape.value_bytes // 2).hex().encode(),
                tuple((f"header{j}", b"value%d" % i) for j in range(shape.headers)),
            )
            for i in range(shape.count)
        ]
        out.append(write_batch(records, codec=shape.codec))
    return out


def ours(data: bytes, fields: list[tuple[int, int]], columns_from: int) -> Callable[[], int]:
    reader = RecordsReader(columns_from=columns_from)

    def run() -> int:
        made = [reader(data, start, end) for start, end in fields]
        reader.fill()
        reader.discard()
        return sum(len(batch.records) for field in made for batch in field.batches or ())

    return run


def kafka_python(pieces: list[bytes]) -> Callable[[], int] | None:
    try:
        from kafka.errors import UnsupportedCodecError
        from kafka.record.default_records import DefaultRecordBatch
    except ImportError:
        return None

    def run() -> int:
        total = 0
        for piece in pieces:
            batch = DefaultRecordBatch(piece)
            batch.validate_crc()
            total += len(list(batch))
        return total

    try:
        run()
    except UnsupportedCodecError:
        return None
    return run


def seconds(run: Callable[[], int], least: float = 0.05) -> float:
    """CPU time of one run, over enough of them to be measured."""
    times = 0
    begin = time.process_time()
    while (spent := time.process_time() - begin) < least:
        run()
        times += 1
    return spent / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(
        f"{'':34} {'columns':>12} {'loop':>12} {'kafka-python':>12} {'x loop':>7} {'x kafka-python':>15}   (M "
        f"records/s)"
    )
    for shape in SHAPES:
        pieces = batches(shape)
        data = b"".join(pieces)
        fields, at = [], 0
        for piece in pieces:
            fields.append((at, at + len(piece)))
            at += len(piece)
        runs = {
            "columns": ours(data, fields, 40),
            "loop": ours(data, fields, NEVER),
            "kafka-python": kafka_python(pieces),
        }
        assert len({run() for run in runs.values() if run}) == 1
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(rounds):
            for name, run in runs.items():
                if run:
                    best[name] = min(best[name], seconds(run))
        records = shape.batches * shape.count
        speed = [f"{records / best[name] / 1e6:12.2f}" if runs[name] else f"{'-':>12}" for name in runs]
        other = f"{best['kafka-python'] / best['columns']:15.1f}" if runs["kafka-python"] else f"{'-':>15}"
        print(f"{shape.name:34} {' '.join(speed)} {best['loop'] / best['columns']:7.1f} {other}")


if __name__ == "__main__":
    main()
