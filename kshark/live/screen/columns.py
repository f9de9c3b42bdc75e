"""The columns of the table of members and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kshark.live.screen.cells import padded, shorter
from kshark.live.screen.model import Picture
from kshark.live.screen.rows import TROUBLE_NS, GroupRow, Held, Holding, Row, RowKey
from kshark.output.spans import CODE, DIM, ERROR, PLAIN, VALUE, WARN, Line, Span
from kshark.units import safe, shortened

_SECOND_NS: Final = 1_000_000_000
#: A lock with less time left is marked.
_SHORT_NS: Final = _SECOND_NS
#: What a late heartbeat and a lock that ends soon add to the trouble while they last.
_LATE: Final = 100.0
_SOON: Final = 15.0
_NOTHING: Final = Held(0, 0)


class Seen(NamedTuple):
    """A picture as columns need it: `of`: the partitions that each member and group holds records of; `width`: of
    the terminal."""

    picture: Picture
    of: Mapping[RowKey, Sequence[Holding]]
    width: int

    def held(self, row: Row) -> Held:
        return self.picture.held.get(row.key, _NOTHING)

    def lag(self, row: Row) -> int | None:
        """Return the records of its partitions that are not finished; None if that is unknown."""
        lags, group = self.picture.lags, row.key.group
        if row.key.member_id is None:
            return lags.get((group, None))
        known = [lag for place in row.places if (lag := lags.get((group, place))) is not None]
        return sum(known) if known else None

    def left_ns(self, row: Row) -> int | None:
        """Return the time until the first lock may expire; None without one."""
        held = self.held(row)
        return held.until_ns - self.picture.now_ns if held.records else None


class Column(NamedTuple):
    """`width`: cells; an elastic column has up to `most`. `rank`: columns with a higher one are left out first."""

    title: str
    rank: int
    width: int
    cell: Callable[[Row, Seen], Span]
    most: int = 0
    right: bool = True


def trouble_of(row: Row, seen: Seen) -> float:
    """Return how much trouble a member has: what happened to it fades, what lasts does not."""
    picture = seen.picture
    now_ns = picture.now_ns
    trouble = row.trouble.at(now_ns, TROUBLE_NS)
    if row.beat is not None and row.beat.is_late(now_ns):
        trouble += _LATE
    held = picture.held.get(row.key)
    return trouble if held is None or held.until_ns - now_ns >= _SHORT_NS else trouble + _SOON


def _mark(row: Row, seen: Seen) -> Span:
    trouble = trouble_of(row, seen)
    return ("!", ERROR) if row.violations and trouble >= 1 else ("·", WARN) if trouble >= 1 else (" ", PLAIN)


def _count(number: int, style: str = VALUE) -> Span:
    return (_short(number), style) if number else ("-", DIM)


def _short(number: int) -> str:
    """Return a number of at most five characters: `41237`, `912k`, `13M`."""
    if number < 100_000:
        return str(number)
    return f"{number // 1_000}k" if number < 10_000_000 else f"{number // 1_000_000}M"


def seconds(ns: int) -> str:
    """Return `0.8`, `12`, `3m`, `2h` or `4d`."""
    if abs(ns) < 10 * _SECOND_NS:
        return f"{ns / _SECOND_NS:.1f}"
    whole = ns // _SECOND_NS
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return str(whole)


def _epoch(row: Row, seen: Seen) -> Span:
    return ("-", DIM) if row.epoch is None else (str(row.epoch), VALUE)


def _fetches(row: Row, seen: Seen) -> Span:
    rate = row.fetches_per_second(seen.picture.now_ns)
    if row.epoch is None and not rate:
        return "-", DIM
    return ("0" if rate < 0.05 else f"{rate:.1f}" if rate < 100 else f"{rate:.0f}"), VALUE


def _lock(row: Row, seen: Seen) -> Span:
    left_ns = seen.left_ns(row)
    if left_ns is None:
        return "-", DIM
    return seconds(max(0, left_ns)), WARN if left_ns < _SHORT_NS else VALUE


def _beat(row: Row, seen: Seen) -> Span:
    beat, now_ns = row.beat, seen.picture.now_ns
    if beat is None:
        return "-", DIM
    if beat.left:
        return "left", DIM
    return seconds(max(0, now_ns - beat.time_ns)), ERROR if beat.is_late(now_ns) else VALUE


def _places(row: Row, seen: Seen) -> Span:
    """Name the partition of which it holds records, the first of several."""
    held = seen.of.get(row.key, ())
    if not held:
        return "-", DIM
    more = f" +{len(held) - 1}" if len(held) > 1 else ""
    return place_of(held[0], seen.picture.topics) + more, VALUE


def place_of(holding: Holding, topics: Mapping[str, str]) -> str:
    """Return `orders[1]`; the beginning of the topic's id if its name is unknown."""
    name = topics.get(holding.topic_id) or shortened(holding.topic_id, 6)
    return f"{safe(name)}[{holding.partition}]"


def _first(number: Callable[[Holding], int | None]) -> Callable[[Row, Seen], Span]:
    """Return the cell of a number of that partition."""

    def cell(row: Row, seen: Seen) -> Span:
        held = seen.of.get(row.key, ())
        value = number(held[0]) if held else None
        return ("-", DIM) if value is None else (_short(value), VALUE)

    return cell


def _name(row: Row) -> str:
    """Return what the client calls itself; of a group: the number of its members."""
    if isinstance(row, GroupRow):
        return f"{row.members} member" + ("s" if row.members != 1 else "")
    return row.client_id


def _in_flight(holding: Holding) -> int | None:
    return None if holding.start is None or holding.end is None else holding.end - holding.start


COLUMNS: Final = (
    Column("", 0, 1, _mark, right=False),
    Column("group", 1, 6, lambda row, _: (safe(row.key.group_id), VALUE), 22, right=False),
    Column("client", 0, 6, lambda row, _: (_name(row), VALUE), 24, right=False),
    Column("member", 6, 7, lambda row, _: (safe(row.key.member_id or "-"), DIM), 0, right=False),
    Column("epoch", 5, 5, _epoch),
    Column("fetch/s", 4, 7, _fetches),
    Column("broken", 8, 6, lambda row, _: _count(row.violations, ERROR)),
    Column("refused", 1, 7, lambda row, _: _count(row.refused, ERROR)),
    Column("redel", 3, 5, lambda row, _: _count(row.again)),
    Column("expired", 2, 7, lambda row, _: _count(row.expired, WARN)),
    Column("held", 3, 4, lambda row, seen: _count(seen.held(row).records)),
    Column("lock", 2, 4, _lock),
    Column("lag", 5, 4, lambda row, seen: ("-", DIM) if (lag := seen.lag(row)) is None else (_short(lag), VALUE)),
    Column("beat", 0, 4, _beat),
    Column("partition", 7, 9, _places, 20, right=False),
    Column("start", 9, 6, _first(lambda holding: holding.start)),
    Column("flight", 9, 6, _first(_in_flight)),
    Column("software", 8, 12, lambda row, _: (row.about.software or "-", DIM), 24, right=False),
    Column("address", 9, 15, lambda row, _: (row.about.client or "-", DIM), 21, right=False),
    Column("broker", 10, 15, lambda row, _: (row.about.broker or "-", DIM), 21, right=False),
)


def _negative(value: Callable[[Row, Seen], float]) -> Callable[[Row, Seen], Any]:
    return lambda row, seen: -value(row, seen)


def _level(row: Row, seen: Seen) -> tuple[int, int]:
    """Return steps of trouble, so that rows seldom change their places."""
    return -int(trouble_of(row, seen) + 1).bit_length(), -row.violations


#: The orders of the rows: their names, and keys for sorting.
SORTS: Final[tuple[tuple[str, Callable[[Row, Seen], Any]], ...]] = (
    ("trouble", _level),
    ("fetch/s", _negative(lambda row, seen: row.fetches_per_second(seen.picture.now_ns))),
    ("refused", _negative(lambda row, _: row.refused)),
    ("redel", _negative(lambda row, _: row.again)),
    ("expired", _negative(lambda row, _: row.expired)),
    ("held", _negative(lambda row, seen: seen.held(row).records)),
    ("lock", lambda row, seen: seen.held(row).until_ns or 1 << 63),
    ("lag", _negative(lambda row, seen: -1 if (lag := seen.lag(row)) is None else lag)),
    ("beat", lambda row, _: row.beat.time_ns if row.beat is not None and not row.beat.left else 1 << 63),
    ("client", lambda row, _: row.client_id),
)


#: Columns that groups do not have.
_OF_MEMBERS: Final = frozenset({"member", "epoch", "software", "address", "broker"})


class Table:
    """Lines of rows in the columns for which a width has room."""

    def __init__(self, rows: Sequence[Row], seen: Seen, width: int) -> None:
        """`rows`: those that are shown."""
        self._seen = seen
        self._columns = _fit(rows, seen, width)

    def title(self, sort: str) -> Line:
        """Return the titles; that of the order is marked."""
        return [
            (padded(column.title, size, right=column.right) + " ", CODE if column.title == sort else DIM)
            for column, size in self._columns
        ]

    def line(self, row: Row) -> Line:
        line: Line = []
        for column, size in self._columns:
            text, style = column.cell(row, self._seen)
            line += [(padded(text, size, right=column.right), style), (" ", PLAIN)]
        return line


def _fit(rows: Sequence[Row], seen: Seen, width: int) -> list[tuple[Column, int]]:
    """Return the columns that fit, with their widths: those with the lowest rank, elastic ones as wide as needed."""
    chosen: list[Column] = []
    left = width
    is_of_groups = any(row.key.member_id is None for row in rows)
    has_groups = is_of_groups or len({row.key[:2] for row in seen.picture.rows}) > 1
    columns = [
        column
        for column in COLUMNS
        if not (is_of_groups and column.title in _OF_MEMBERS) and (has_groups or column.title != "group")
    ]
    for column in sorted(columns, key=lambda column: column.rank):
        if column.width + 1 > left:
            break
        chosen.append(column)
        left -= column.width + 1
    sizes: dict[str, int] = {}
    for column in chosen:
        wanted = max((shorter(column.cell(row, seen)[0], column.most) for row in rows), default=0) if column.most else 0
        more = min(left, max(0, wanted - column.width))
        sizes[column.title] = column.width + more
        left -= more
    return [(column, sizes[column.title]) for column in COLUMNS if column.title in sizes]


def rows_seen(seen: Seen, sort: int, chosen: Callable[[Row], bool]) -> Iterator[Row]:
    """Yield the chosen rows in their order."""
    key = SORTS[sort][1]
    yield from sorted(filter(chosen, seen.picture.rows), key=lambda row: (key(row, seen), row.key))
