"""Counts of a job for schedulers: `--metrics FILE`, as JSON, or for Prometheus if its name ends in `.prom`.

The file is written when the command ends, also by an error, and appears only when it is complete. The textfile
collector of Prometheus' node_exporter reads it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from kshark import __version__
from kshark.capture.files import sizes_of
from kshark.errors import Error, UnreadableInput, UsageError
from kshark.live.metrics.exposition import TEXT, exposition
from kshark.live.metrics.families import Family, Series

#: Their order is that of the JSON.
FAMILIES: Final = (
    Family("kshark_job_exit_code", "gauge", "0 good, 1 violations, 2 error, 3 nothing was judged.", ("command",)),
    Family("kshark_job_seconds", "gauge", "How long the job took.", ("command",)),
    Family("kshark_job_end_time_seconds", "gauge", "When the job ended, in seconds since 1970.", ("command",)),
    Family("kshark_job_captures", "gauge", "Captures read, failed, skipped (in the tables).", ("command", "result")),
    Family("kshark_job_bytes", "gauge", "Bytes of the captures named, compressed if they are.", ("command",)),
    Family("kshark_job_packets", "gauge", "Packets read. Not with tables.", ("command",)),
    Family("kshark_job_exchanges", "gauge", "Requests with their answers, or either alone.", ("command",)),
    Family("kshark_job_findings", "gauge", "Findings by verdict.", ("command", "verdict")),
    Family("kshark_job_rows", "gauge", "Rows by table. Only of an export.", ("command", "table")),
)  # fmt: skip
VERDICTS: Final = ("violation", "unknown", "note")


@dataclass
class JobMetrics:
    """Counts of a job; None: this command does not know it."""

    command: str
    captures: Counter[str] = field(default_factory=lambda: Counter(read=0, failed=0, skipped=0))
    bytes: int | None = None
    packets: int | None = None
    exchanges: int | None = None
    findings: dict[str, int] | None = None
    rows: dict[str, int] | None = None

    def name(self, captures: Iterable[list[str]]) -> None:
        """Note the files of the captures. A file that is gone has no size."""
        try:
            self.bytes = sum(sizes_of([*captures]))
        except (Error, OSError):
            self.bytes = None

    def judged(self, verdicts: Mapping[str, int], exchanges: int, packets: int | None = None) -> None:
        """Count a capture that was read and judged."""
        self.captures["read"] += 1
        self.exchanges = (self.exchanges or 0) + exchanges
        found = self.findings or dict.fromkeys(VERDICTS, 0)
        self.findings = {verdict: found[verdict] + verdicts.get(verdict, 0) for verdict in VERDICTS}
        if packets is not None:
            self.packets = (self.packets or 0) + packets

    def exported(self, captures: int, failed: int, skipped: int, rows: Mapping[str, int]) -> None:
        """Count the captures of an export, and the rows of its tables."""
        self.captures["failed"] += failed
        self.captures.update(read=captures - failed - skipped, skipped=skipped)
        self.exchanges, self.rows = rows.get("exchanges", 0), dict(rows)

    def values(self, exit_code: int, seconds: float) -> dict[str, Any]:
        """Return the counts as JSON has them: by the names of FAMILIES without their prefix."""
        numbers = {
            "exit_code": exit_code,
            "seconds": round(seconds, 3),
            "end_time_seconds": round(time.time(), 3),
            "captures": dict(self.captures),
            "bytes": self.bytes,
            "packets": self.packets,
            "exchanges": self.exchanges,
            "findings": self.findings,
            "rows": self.rows,
        }
        return {"command": self.command, "kshark": __version__, **numbers}


@contextmanager
def reported(metrics: JobMetrics, path: str | None) -> Iterator[list[int]]:
    """Write the metrics when the context ends. It is a list for the exit code; without one, it is the error's.

    Raises UsageError if the file cannot be written, before the job starts.
    """
    if path is None:
        yield []
        return
    if not os.access(Path(path).absolute().parent, os.W_OK):
        raise UsageError(f"--metrics {path}: no such folder, or it cannot be written")
    begin, codes = time.monotonic(), list[int]()
    try:
        yield codes
    except BaseException as error:
        codes[:] = [error.exit_code if isinstance(error, Error) else 2]
        metrics.captures["failed"] += isinstance(error, UnreadableInput)
        raise
    finally:
        _write(Path(path), metrics.values(codes[-1], time.monotonic() - begin))


def _write(path: Path, values: dict[str, Any]) -> None:
    text = prometheus(values) if path.suffix == ".prom" else msgspec.json.format(msgspec.json.encode(values)) + b"\n"
    partial = path.with_name(f".{path.name}.unfinished")
    try:
        partial.write_bytes(text)
        os.replace(partial, path)
    except OSError as error:
        raise UsageError(f"--metrics {path}: {(error.strerror or str(error)).lower()}") from None


def prometheus(values: Mapping[str, Any]) -> bytes:
    """Return the counts for Prometheus; families that this command does not know have no series."""
    series: Series = {}
    for family in FAMILIES:
        value = values[family.name.removeprefix("kshark_job_")]
        by = value if isinstance(value, dict) else {} if value is None else {None: value}
        series[family.name] = {
            (values["command"], *([] if label is None else [label])): (number,) for label, number in by.items()
        }
    return exposition([family for family in FAMILIES if series[family.name]], series, TEXT)
