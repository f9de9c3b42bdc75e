"""Columns and tables, as data: the contract between `kshark export`, Spark jobs and readers of the Parquet files.

A column is one row, with its reader, in the file of its table (README.md here shows how to add one). Types are written
as Spark SQL writes them (`bigint`, `array<struct<topic_id: string, partition: int>>`), so that a schema is made from
the same text on every engine. Offsets are Kafka's, both ends of a range included; times end in their unit; null is
"does not apply here"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kshark.tables.blocks import Cells, Row
from kshark.tables.readers import Reader, columns_maker, its, row_maker


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `type` in Spark SQL's words, `about` for people, `of` reads its cell; `since` is the version of its
    table that brought it, or gave it another meaning."""

    name: str
    type: str
    about: str
    #: None of a common column, which a Block makes of its place.
    of: Reader | None = None
    since: int = 1

    def read(self, of: Reader) -> Column:
        """The same column, read from other values."""
        return replace(self, of=of)


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Table:
    """One folder of Parquet files; `values` names what its columns may read."""

    name: str
    rows: str
    values: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def version(self) -> int:
        """Counts up when columns come: a folder of an earlier version lacks them."""
        return max(column.since for column in self.columns)

    @property
    def ddl(self) -> str:
        """The schema as Spark SQL takes it, descriptions included."""
        return ", ".join(f"{column.name} {column.type} COMMENT {quoted(column.about)}" for column in self.columns)

    @property
    def own(self) -> tuple[Column, ...]:
        """The columns that not every table has."""
        return self.columns[len(COMMON) :]

    def position(self, name: str) -> int:
        """Where a column stands in a Row."""
        return _COMMON_CELLS + [column.name for column in self.own].index(name)

    def row_maker(self) -> Callable[..., Row]:
        """A function of where, packet, time_ns, exchange and `values`; it returns a row."""
        return row_maker(self.values, self._readers())

    def columns_maker(self) -> Callable[..., list[Cells]]:
        """A function of a list for each of `values`; it returns the cells of each of the table's own columns."""
        return columns_maker(self.values, self._readers())

    def _readers(self) -> list[Reader]:
        readers = [column.of for column in self.own if column.of is not None]
        if len(readers) < len(self.own):
            raise ValueError(f"a column of {self.name} has no reader")
        return readers


#: A Row begins with where, packet, time_ns and exchange.
_COMMON_CELLS: Final = 4


def table(name: str, rows: str, values: str, *columns: Column) -> Table:
    """A table, with the common columns before its own."""
    return Table(name, rows, tuple(values.split()), (*COMMON, *columns))


COMMON: Final = (
    Column("capture", "string", "name of the capture: its file, or several files read as one"),
    Column("flow_id", "string", "the TCP connection: capture name and number of its first packet there"),
    Column("packet", "bigint", "packet with which the message was complete, from 1 over the capture"),
    Column("broker", "string", "address:port of the connection's broker"),
    Column("client", "string", "address:port of the connection's client"),
    Column("ts", "timestamp", "time of the packet, UTC, in microseconds"),
    Column("ts_ns", "bigint", "the same in nanoseconds since 1970"),
    Column(
        "exchange",
        "bigint",
        "packet of the request (of an orphan: the answer): with capture and flow_id it joins all tables; null: of no "
        "exchange",
    ),
)

#: Columns of several tables; each reads them from what its rows have.
GROUP: Final = Column("group_id", "string", "group, by its name", its("group_id"))
MEMBER: Final = Column("member_id", "string", "member of the group", its("member_id"))
API: Final = Column("api", "string", "Kafka's name of the API, as in ShareFetch", its("message.api"))
SESSION_KEY: Final = Column("session_key", "bigint", "hash of broker, group and member", its("session_key"))
SESSION: Final = Column("session", "int", "number of the share session, from 1 for each session_key", its("session"))
CORRELATION: Final = Column(
    "correlation_id",
    "int",
    "of the exchange; tells those apart whose requests came in one packet",
    its("message.correlation_id"),
)
TOPIC_ID: Final = Column("topic_id", "string", "Kafka's 22 characters", its("topic_id"))
PARTITION: Final = Column("partition", "int", "of the topic, by its number", its("partition"))
TOPIC: Final = (
    TOPIC_ID,
    Column("topic", "string", "its name, where the capture told it before", its("topic")),
    PARTITION,
)
PARTITIONS: Final = "array<struct<topic_id: string, partition: int>>"
