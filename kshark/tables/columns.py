"""Columns and tables, as data: the contract between `kshark export`, Spark jobs and readers of the Parquet files.

Each column is one row, with its reader, in the file of its table (README.md shows how to add one). Types are in Spark
SQL's notation (`bigint`, `array<struct<topic_id: string, partition: int>>`), so that every engine makes its schema from
the same text. Offsets are Kafka's; ranges include both ends; names of times end in their unit; null means "does not
apply here".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kshark.tables.blocks import Cells, Row
from kshark.tables.readers import Reader, columns_maker, its, row_maker


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    `type`: in Spark SQL's notation. `about`: the description for people. `of`: reads its cell. `since`: the version of
    its table that added the column, or changed its meaning; it is null in files of earlier ones. `needed`: false if a
    check gives the same verdicts, or fewer, where the column is null.
    """

    name: str
    type: str
    about: str
    #: None for a common column, which Block computes.
    of: Reader | None = None
    since: int = 1
    needed: bool = True

    def read(self, of: Reader) -> Column:
        """Return the same column with another reader."""
        return replace(self, of=of)


def quoted(text: str) -> str:
    """Return a text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Table:
    """One folder of Parquet files; `values` names the values that its columns may read."""

    name: str
    rows: str
    values: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def version(self) -> int:
        """The table's version; it rises when columns are added. Files of an earlier version lack them."""
        return max(column.since for column in self.columns)

    def of_version(self, version: int) -> Table:
        """Return the table with the columns that files of a version have."""
        return replace(self, columns=tuple(column for column in self.columns if column.since <= version))

    @property
    def ddl(self) -> str:
        """The schema in Spark SQL, with descriptions."""
        return ", ".join(f"{column.name} {column.type} COMMENT {quoted(column.about)}" for column in self.columns)

    @property
    def own(self) -> tuple[Column, ...]:
        """The columns after the common ones."""
        return self.columns[len(COMMON) :]

    def position(self, name: str) -> int:
        """Return the index of a column in a Row."""
        return _COMMON_CELLS + [column.name for column in self.own].index(name)

    def row_maker(self) -> Callable[..., Row]:
        """Compile a function of where, packet, time_ns, exchange and `values` that returns a row."""
        return row_maker(self.values, self._readers())

    def columns_maker(self) -> Callable[..., list[Cells]]:
        """Compile a function of a list for each of `values` that returns the cells of each own column."""
        return columns_maker(self.values, self._readers())

    def _readers(self) -> list[Reader]:
        readers = [column.of for column in self.own if column.of is not None]
        if len(readers) < len(self.own):
            raise ValueError(f"a column of {self.name} has no reader")
        return readers


#: A Row begins with where, packet, time_ns and exchange.
_COMMON_CELLS: Final = 4


def table(name: str, rows: str, values: str, *columns: Column) -> Table:
    """Return a table with the common columns before its own."""
    return Table(name, rows, tuple(values.split()), (*COMMON, *columns))


COMMON: Final = (
    Column("capture", "string", "name of the capture: its file, or several files read as one"),
    Column("flow_id", "string", "the TCP connection: capture name and number of its first packet there"),
    Column("packet", "bigint", "packet that completed the message, from 1 over the capture"),
    Column("broker", "string", "address:port of the connection's broker"),
    Column("client", "string", "address:port of the connection's client"),
    Column("ts", "timestamp", "time of the packet in UTC, in microseconds"),
    Column("ts_ns", "bigint", "the same in nanoseconds since 1970"),
    Column(
        "exchange",
        "bigint",
        "packet of the request (for an orphan: of the response); joins all tables with capture and flow_id; null: "
        "no exchange",
    ),
)

#: Columns of several tables; each table reads them from its own values.
GROUP: Final = Column("group_id", "string", "name of the group", its("group_id"))
MEMBER: Final = Column("member_id", "string", "id of the member in the group", its("member_id"))
API: Final = Column("api", "string", "Kafka's name of the API, as in ShareFetch", its("message.api"))
SESSION_KEY: Final = Column("session_key", "bigint", "hash of broker, group and member", its("session_key"))
SESSION: Final = Column("session", "int", "number of the share session, from 1 for each session_key", its("session"))
CORRELATION: Final = Column(
    "correlation_id",
    "int",
    "correlation id of the exchange; needed if one packet has several requests",
    its("message.correlation_id"),
)
TOPIC_ID: Final = Column("topic_id", "string", "id of the topic, in Kafka's 22 characters", its("topic_id"))
PARTITION: Final = Column("partition", "int", "number of the partition in its topic", its("partition"))
TOPIC: Final = (
    TOPIC_ID,
    Column("topic", "string", "name of the topic, if an earlier packet contains it", its("topic")),
    PARTITION,
)
PARTITIONS: Final = "array<struct<topic_id: string, partition: int>>"
