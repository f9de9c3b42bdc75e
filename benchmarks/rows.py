"""The comparisons as data: commands by name, and rows that compare two of them."""

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
#: Where segments come late, tshark leaves out half of the messages unless it is configured to sort them.
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


#: Arguments of kshark's commands by name, and how often the file is named.
_KSHARK: Final[dict[str, tuple[tuple[str, ...], int]]] = {
    "json": (("read", "-T", "json"), 1),
    "no records": (("read", "-T", "json", "--no-records"), 1),
    "fields": (("read", *FIELDS), 1),
    "filtered fields": (("read", *FIELDS, *FILTER), 1),
    "export": (("export", "-q", "-o", str(WORK / "tables")), 1),
    "check": (("check", "-T", "json"), 1),
    "two captures": (("read", "-T", "json", "--each"), 2),
    "two jobs": (("read", "-T", "json", "--each", "--jobs", "2"), 2),
}
_TSHARK: Final[dict[str, tuple[str, ...]]] = {
    "tshark json": ("-J", "kafka", "-T", "json"),
    "tshark fields": tuple(FIELDS),
}


def command(name: str, traffic: Input, file: str) -> Command | None:  # one program a case
    """Return the command line of a name; None if its program is not installed."""
    if name in _KSHARK:
        arguments, files = _KSHARK[name]
        return kshark(*arguments, *[file] * files)
    return _tshark(traffic, file, "-Y", "kafka", *_TSHARK[name])


def _tshark(traffic: Input, file: str, *arguments: str) -> Command | None:
    program = found("tshark")
    ports = [word for port in traffic.ports for word in ("-d", f"tcp.port=={port},kafka")]
    return (
        None if program is None else [program, "-n", *(SORTED if traffic.late else ()), *ports, "-r", file, *arguments]
    )


def commands_of(rows: Sequence[Row], traffic: Input, file: str) -> dict[str, Command]:
    """Return every command of the rows once."""
    names = dict.fromkeys(name for row in rows for name in (row.peer, row.own))
    return {name: line for name in names if (line := command(name, traffic, file)) is not None}
