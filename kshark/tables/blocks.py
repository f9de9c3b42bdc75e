"""Rows of one table as columns, about a thousand at a time: for Parquet files and for Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

#: A row: (where, packet, time in nanoseconds, exchange, then the cells of the table's own columns); UNSET is null too.
Row = tuple[Any, ...]

_encode_into = msgspec.json.Encoder().encode_into


@dataclass(slots=True, eq=False)
class Where:
    """The capture and the connection of a row.

    Rows of one connection share the object, so a block converts its names only once.
    """

    capture: str
    flow_id: str | None
    broker: str | None
    client: str | None


class Texts:
    """A column of JSON texts in one bytes object, without a Python string for each.

    `begins`: the index in `data` where each text begins, None for null; the last entry is the end of the last text.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        """Encode each value; None and UNSET are null."""
        self.data = data = bytearray()
        self.begins: list[int | None] = []
        begins = self.begins
        for value in values:
            if value is None or value is UNSET:
                begins.append(None)
            else:
                begins.append(len(data))
                _encode_into(value, data, -1)
        begins.append(len(data))

    def __len__(self) -> int:
        return len(self.begins) - 1

    def __iter__(self) -> Iterator[str | None]:
        texts: list[str | None] = []
        end = len(self.data)
        for begin in self.begins[-2::-1]:
            texts.append(None if begin is None else self.data[begin:end].decode())
            end = end if begin is None else begin
        return reversed(texts)


#: The cells of a column, null as None or UNSET; None if all cells are null.
Cells: TypeAlias = "Sequence[Any] | Texts | None"


@dataclass(slots=True, eq=False)
class Block:
    """Rows of one table as columns.

    `where`, `packet`, `time_ns` and `exchange` give the common columns, `own` are the table's own columns.
    """

    where: Sequence[Where]
    packet: Sequence[int | None]
    time_ns: Sequence[int | None]
    exchange: Sequence[int | None]
    own: Sequence[Cells]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Block:
        """Make a block of at least one row."""
        where, packet, time_ns, exchange, *own = zip(*rows, strict=True)
        return cls(where, packet, time_ns, exchange, own)

    def __len__(self) -> int:
        return len(self.packet)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Return a tuple for each row in the order of the table's columns; null is None."""
        own = [[None] * len(self) if cells is None else cells for cells in self.own]
        for where, packet, time_ns, exchange, *cells in zip(
            self.where, self.packet, self.time_ns, self.exchange, *own, strict=True
        ):
            ts = None if time_ns is None else time_ns // 1000
            common = (where.capture, where.flow_id, packet, where.broker, where.client, ts, time_ns, exchange)
            yield common + tuple(map(_plain, cells))


def _plain(cell: Any) -> Any:
    """Return a cell with None for null."""
    match cell:
        case list():
            return [_plain(member) for member in cell]
        case tuple():
            return tuple(map(_plain, cell))
        case _:
            return None if cell is UNSET else cell
