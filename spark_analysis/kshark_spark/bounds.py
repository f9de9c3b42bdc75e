"""Conditions of `where` that a task applies before it makes rows. Spark applies all of them again.

So they only have to keep each row that Spark will keep; and they may leave out rows, never change one. Therefore a
capture is read as a whole or not at all, and only tables whose rows do not depend on earlier exchanges leave out
exchanges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
from pyspark.sql import datasource as filters

from kshark.capture.captures import Captures
from kshark.model import Exchange, Message, PacketBatch
from kshark.tables import OF_RECORDS

_INT64: Final = np.iinfo(np.int64)
_EQUAL: Final = (filters.EqualTo, filters.EqualNullSafe)
_AT_LEAST: Final = (filters.GreaterThan, filters.GreaterThanOrEqual)
_AT_MOST: Final = (filters.LessThan, filters.LessThanOrEqual)
#: Columns whose values an exchange has before its row is made; in each table it is the value of its first message.
_OF_MESSAGES: Final = ("api", "api_key", "broker", "client")
_OTHERS: Final = ("capture", "table")
#: Tables that may leave out exchanges.
_INDEPENDENT: Final = frozenset({"exchanges", "record_batches", *OF_RECORDS})


@dataclass
class Range:
    """Bounds of a number, both included."""

    first: int = _INT64.min
    last: int = _INT64.max

    def cut(self, first: int, last: int) -> None:
        self.first, self.last = max(self.first, first), min(self.last, last)

    @property
    def is_open(self) -> bool:
        return (self.first, self.last) == (_INT64.min, _INT64.max)


@dataclass
class Bounds:
    """Bounds of times in nanoseconds and of packets, and the allowed values of other columns."""

    time_ns: Range = field(default_factory=Range)
    packet: Range = field(default_factory=Range)
    values: dict[str, set[Any]] = field(default_factory=dict)

    def add(self, conditions: Iterable[filters.Filter], tables: Iterable[str]) -> None:
        """Add conditions, which all hold; those of unknown kinds are left to Spark.

        `tables`: the columns of a read of several tables; `inline` keeps no row whose array is null.
        """
        known = {*tables}
        for condition in conditions:
            name = ".".join(getattr(condition, "attribute", ()))
            if isinstance(condition, filters.IsNotNull) and name in known:
                self._allow("table", {name})
            elif isinstance(condition, filters.In):
                self._equal(name, condition.value)
            elif isinstance(condition, _EQUAL) and condition.value is not None:
                self._equal(name, (condition.value,))
            elif isinstance(condition, (*_AT_LEAST, *_AT_MOST)):
                self._compare(name, condition.value, is_lower=isinstance(condition, _AT_LEAST))

    def _equal(self, name: str, values: Sequence[Any]) -> None:
        if name in _OF_MESSAGES or name in _OTHERS:
            self._allow(name, {*values})
        elif len(values) == 1:
            self._compare(name, values[0], is_lower=True)
            self._compare(name, values[0], is_lower=False)

    def _allow(self, name: str, values: set[Any]) -> None:
        self.values[name] = self.values.get(name, values) & values

    def _compare(self, name: str, value: Any, *, is_lower: bool) -> None:
        match name, value:
            case "packet", int():
                first = last = value
                bounds = self.packet
            case "ts_ns", int():
                first = last = value
                bounds = self.time_ns
            case "ts", datetime():
                first = _microseconds(value) * 1000
                last, bounds = first + 999, self.time_ns  # `ts` has no nanoseconds
            case _:
                return
        bounds.cut(*((first, _INT64.max) if is_lower else (_INT64.min, last)))

    def allows(self, name: str, value: Any) -> bool:
        """True if rows with that value of a column may be kept."""
        return name not in self.values or value in self.values[name]

    def may_contain(self, files: Sequence[str]) -> bool:
        """True if a packet of the capture is in the period: the time of each row is that of a packet."""
        if self.time_ns.is_open:
            return True
        for item in Captures(files, lambda _: None):
            if isinstance(item, PacketBatch):
                times = np.asarray(item.time_ns)
                if bool(((times >= self.time_ns.first) & (times <= self.time_ns.last)).any()):
                    return True
        return False

    def wanted(self, tables: Iterable[str]) -> Callable[[Exchange], bool] | None:
        """Return which exchanges may have rows; None: all."""
        conditions = self.values.keys() & {*_OF_MESSAGES}
        if not _INDEPENDENT.issuperset(tables) or (not conditions and self.time_ns.is_open and self.packet.is_open):
            return None
        allowed = {name: self.values[name] for name in conditions}
        return lambda exchange: _has(allowed, exchange.request or exchange.response) and self._overlaps(exchange)

    def _overlaps(self, exchange: Exchange) -> bool:
        """True if a time and a packet between request and response are inside the bounds."""
        messages = [message for message in (exchange.request, exchange.response) if message is not None]
        times = [message.time_ns for message in messages]
        packets = [message.packet for message in messages]
        return (
            min(times) <= self.time_ns.last
            and max(times) >= self.time_ns.first
            and min(packets) <= self.packet.last
            and max(packets) >= self.packet.first
        )


def _has(allowed: Mapping[str, set[Any]], message: Message | None) -> bool:
    return all(getattr(message, name) in values for name, values in allowed.items())


def _microseconds(time: datetime) -> int:
    """Return a time in microseconds since 1970; a datetime's own timestamp() is a float, which rounds."""
    seconds = int(time.replace(microsecond=0).timestamp())
    return seconds * 1_000_000 + time.microsecond
