"""What is compared, as data: commands by name, and the rows that set one against another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.inputs import Input
from benchmarks.measure import Command, found, kshark
from benchmarks.places import WORK

FILTER: Final = (
    "-Y",
    "kafka.api in {ShareFetch ShareAcknowledge} && kafka.correlation_id > 10 && !(kafka.client_id contains admin)",
)
FIELDS: Final = ("-T", "fields", "-e", "kafka.api_key", "-e", "kafka.correlation_id")
#: Where segments come late, tshark leaves out half of the messages unless it is told to sort them.
SORTED: Final = ("-o", "tcp.reassemble_out_of_order:TRUE")


@dataclass(frozen=True)
class Row:
    """`own` must be at least so many times as fast as `peer` (both names of COMMANDS) on an input; `hoped` is the
    moonshot."""

    input: str
    what: str
    own: str
    peer: str
    at_least: float
    hoped: float | None = None
    measure: Literal["cpu_s", "wall_s"] = "cpu_s"


ROWS: Final = (
    Row("old-versions", "every message and record as JSON", "json", "tshark json", 5, 7),
    Row("share-rpc", "every message and record as JSON", "json", "tshark json", 3, 4),
    Row("zstd", "every message and record as JSON", "json", "tshark json", 1.5, 3),
    Row("old-versions", "the same with --no-records", "no records", "tshark json", 4, 8),
    Row("share-rpc", "the same with --no-records", "no records", "tshark json", 4, 8),
    Row("zstd", "the same with --no-records", "no records", "tshark json", 4, 8),
    Row("old-versions", "API key and correlation id", "fields", "tshark fields", 5, 10),
    Row("share-rpc", "API key and correlation id", "fields", "tshark fields", 5, 10),
    Row("zstd", "API key and correlation id", "fields", "tshark fields", 5, 10),
    Row("share-rpc", "the same with a filter on the header", "filtered fields", "fields", 0.95, 1),
    Row("short-connections", "every message and record as JSON", "json", "tshark json", 3, 4),
    Row("one-flow", "every message and record as JSON", "json", "tshark json", 5, 7),
    Row("reordered", "every message and record as JSON", "json", "tshark json", 5, 7),
    Row("old-versions", "export beside read -T json", "export", "json", 1),
    Row("share-rpc", "export beside read -T json", "export", "json", 1),
    Row("share-rpc", "check beside read -T json", "check", "json", 1 / 1.5),
    Row(
        "large",
        "two captures by two processes beside one, wall time",
        "two jobs",
        "two captures",
        1.5,
        measure="wall_s",
    ),
)


def command(name: str, traffic: Input, file: str) -> Command | None:
    """The command line behind a name; None where its program is not here."""
    match name:
        case "json":
            return kshark("read", "-T", "json", file)
        case "no records":
            return kshark("read", "-T", "json", "--no-records", file)
        case "fields":
            return kshark("read", *FIELDS, file)
        case "filtered fields":
            return kshark("read", *FIELDS, *FILTER, file)
        case "export":
            return kshark("export", "-q", "-o", str(WORK / "tables"), file)
        case "check":
            return kshark("check", "-T", "json", file)
        case "two captures":
            return kshark("read", "-T", "json", "--each", file, file)
        case "two jobs":
            return kshark("read", "-T", "json", "--each", "--jobs", "2", file, file)
        case "tshark json":
            return _tshark(traffic, file, "-Y", "kafka", "-J", "kafka", "-T", "json")
        case "tshark fields":
            return _tshark(traffic, file, "-Y", "kafka", *FIELDS)
    raise KeyError(name)


def _tshark(traffic: Input, file: str, *arguments: str) -> Command | None:
    program = found("tshark")
    ports = [word for port in traffic.ports for word in ("-d", f"tcp.port=={port},kafka")]
    return (
        None if program is None else [program, "-n", *(SORTED if traffic.late else ()), *ports, "-r", file, *arguments]
    )


def commands_of(rows: Sequence[Row], traffic: Input, file: str) -> dict[str, Command]:
    """Every command that the rows need, each once."""
    names = dict.fromkeys(name for row in rows for name in (row.peer, row.own))
    return {name: line for name in names if (line := command(name, traffic, file)) is not None}
