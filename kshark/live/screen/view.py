"""The lines of the screen: a pure function of a picture, the size of the terminal and what the user has chosen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec.structs import asdict, replace

from kshark.live.screen.causes import by_hurt
from kshark.live.screen.cells import beside, fitted
from kshark.live.screen.columns import SORTS, Seen, Table, rows_seen
from kshark.live.screen.header import footer, header
from kshark.live.screen.model import Picture
from kshark.live.screen.panels import (
    cause_line,
    causes_of,
    explained,
    member_lines,
    remedy,
)
from kshark.live.screen.rows import RATE_NS, TROUBLE_NS, Cause, GroupRow, Holding, Row, RowKey
from kshark.live.screen.state import HELP, State
from kshark.output.spans import CHOSEN, CODE, DIM, PLAIN, Line
from kshark.units import counted

#: From this size on, findings and the chosen member are side by side below the rows.
_WIDE: Final = 132
_HIGH: Final = 36
#: The screen has lines between its parts from this height on.
_ROOMY: Final = 16
#: Lines of what to do about the cause under the cursor.
_REMEDY: Final = 4
#: Rows beside which a line about the others would take too much.
_FEW: Final = 4

T = TypeVar("T")


def lines(picture: Picture, width: int, height: int, state: State) -> list[Line]:
    """Return at most `height` lines of at most `width` cells. The state's cursor moves to a line that is shown."""
    top = header(picture, width, height, state)
    bottom = footer(width, state) if height > 6 else []
    room = max(0, height - len(top) - len(bottom))
    seen = Seen(picture, _of_rows(picture.holdings), width)
    rows, causes = _rows(seen, state), _causes(picture, state)
    _move(rows, causes, state)
    if state.view == "overview":
        body = _overview(rows, causes, seen, width, room, state)
    else:
        page = _page(rows, causes, seen, width, state)
        state.top = max(0, min(state.top, len(page) - room))
        body = page[state.top : state.top + room]
    body = body[:room]
    whole = [*top, *body, *([[]] * (room - len(body))), *bottom]
    return [fitted(line, width) for line in whole[:height]]


def _of_rows(holdings: Sequence[Holding]) -> dict[RowKey, list[Holding]]:
    of: defaultdict[RowKey, list[Holding]] = defaultdict(list)
    for holding in holdings:
        of[holding.group].append(holding)
        for member_id in dict.fromkeys(range_.member_id for range_ in holding.ranges):
            of[holding.group._replace(member_id=member_id)].append(holding)
    return dict(of)


def _rows(seen: Seen, state: State) -> list[Row]:
    """Return the rows of the chosen group or filter, or groups, in their order."""
    group, text = state.group, state.filter.casefold()

    def passes(row: Row) -> bool:
        return (group is None or row.key[:2] == group[:2]) and (not text or text in _searched(row))

    if state.by_group:
        seen = seen._replace(picture=replace(seen.picture, rows=_groups(filter(passes, seen.picture.rows), seen)))
        return [*rows_seen(seen, state.sort, lambda _: True)]
    return [*rows_seen(seen, state.sort, passes)]


def _searched(row: Row) -> str:
    return "\n".join((row.key.group_id, row.client_id, row.key.member_id or "", *row.about)).casefold()


def _groups(rows: Sequence[Row] | filter[Row], seen: Seen) -> list[Row]:
    """Return a row for each group: sums, the latest time, and the oldest heartbeat of those that did not leave."""
    groups: dict[RowKey, GroupRow] = {}
    now_ns = seen.picture.now_ns
    for row in rows:
        of = groups.get(row.key.group)
        if of is None:
            fields = asdict(row) | {"key": row.key.group, "epoch": None, "talks": ()}
            groups[row.key.group] = GroupRow(**fields)
            continue
        of.members += 1
        of.rate = of.rate.plus(row.rate.at(now_ns, RATE_NS), now_ns, RATE_NS)
        of.trouble = of.trouble.plus(row.trouble.at(now_ns, TROUBLE_NS), now_ns, TROUBLE_NS)
        of.refused += row.refused
        of.again += row.again
        of.expired += row.expired
        of.violations += row.violations
        of.since_ns = min(of.since_ns, row.since_ns)
        if row.beat is not None and not row.beat.left:
            is_older = of.beat is None or of.beat.left or row.beat.time_ns < of.beat.time_ns
            of.beat = row.beat if is_older else of.beat
    return [*groups.values()]


def _causes(picture: Picture, state: State) -> list[Cause]:
    """Return the causes that the group and the filter leave, what hurts first."""
    group, text = state.group, state.filter.casefold()
    return by_hurt(
        (
            cause
            for cause in picture.causes
            if (group is None or (cause.finding.group_id or "") == group.group_id)
            and (not text or text in f"{cause.finding.code}\n{cause.who[0]}\n{cause.finding.group_id}".casefold())
        ),
        picture.now_ns,
    )


def _move(rows: Sequence[Row], causes: Sequence[Cause], state: State) -> None:
    """Move the cursor."""
    if state.by_group and state.chosen is None and rows:
        state.chosen = rows[0].key  # Enter shows its members
    if not state.move:
        return
    if state.on_causes:
        state.cause = _moved([cause.sort for cause in causes], state.cause, state.move)
    else:
        state.chosen = _moved([row.key for row in rows], state.chosen, state.move)
    state.move = 0


def _moved(keys: Sequence[T], chosen: T | None, by: int) -> T | None:
    return keys[max(0, min(_at(keys, chosen) + by, len(keys) - 1))] if keys else None


def _at(keys: Sequence[T], chosen: T | None) -> int:
    return keys.index(chosen) if chosen in keys else 0


# -- the first page


def _overview(
    rows: Sequence[Row], causes: Sequence[Cause], seen: Seen, width: int, height: int, state: State
) -> list[Line]:
    if not rows and not causes:
        return _nothing(seen.picture, state)
    row_at = _at([row.key for row in rows], state.chosen)
    cause_at = _at([cause.sort for cause in causes], state.cause)
    is_wide = width >= _WIDE and height >= _HIGH
    wanted = len(rows) + 1 + (len(rows) > 0)
    least = min(wanted, max(4, height // 2))
    below = height - least if is_wide else min(height - least, len(causes) + _REMEDY + (height >= _ROOMY))
    table = _table(rows, row_at, seen, width, height - below, state)
    rule: list[Line] = [[("─" * width, DIM)]] if height >= _ROOMY else []
    room = height - len(table) - len(rule)
    if is_wide:
        half = (width - 3) // 2
        left = _found(causes, cause_at, seen, half, room, state)
        right = member_lines(rows[row_at], seen, width - half - 3) if rows else []
        return [*table, *rule, *beside(left, right, half, room)]
    return [*table, *rule, *_found(causes, cause_at, seen, width, room, state)]


def _nothing(picture: Picture, state: State) -> list[Line]:
    if state.filter or state.group is not None:
        return [[], [("  Nothing passes the filter. Esc shows everything again.", PLAIN)]]
    if picture.status.packets:
        text = "no member of a group has sent a request yet"
        return [[], [(f"  {counted(picture.status.packets, 'packet')}, {text}.", PLAIN)]]
    return [[], [("  Waiting for packets.", PLAIN)]]


def _table(rows: Sequence[Row], at: int, seen: Seen, width: int, height: int, state: State) -> list[Line]:
    """Return the titles, the rows around the cursor, and how many others there are."""
    if height < 2:
        return []
    room = height - 1
    is_cut = len(rows) > room > _FEW
    room -= is_cut
    first = max(0, min(at - room // 2, len(rows) - room))
    shown = rows[first : first + room]
    table = Table(shown, seen, width)
    out = [table.title(SORTS[state.sort][0])]
    for index, row in enumerate(shown, first):
        line = table.line(row)
        out.append(_chosen(line, 5) if index == at and not state.on_causes else line)
    if is_cut:
        others = len(rows) - len(shown)
        noun = "group" if state.by_group else "member"
        before = f"{first:,} before, " if first else ""
        out.append([(f"  {before}{counted(others, 'more ' + noun)} by {SORTS[state.sort][0]}", DIM)])
    return out


def _chosen(line: Line, spans: int) -> Line:
    """Return a line under the cursor: its first spans are marked, the others keep their colours."""
    return [*((text, CHOSEN) for text, _ in line[:spans]), *line[spans:]]


def _found(causes: Sequence[Cause], at: int, seen: Seen, width: int, height: int, state: State) -> list[Line]:
    """Return the causes around the cursor, with what to do about the one under it."""
    if not causes:
        return [[("  No findings.", DIM)]][:height]
    most = max(_REMEDY if height >= _FEW * 2 else 2, height - len(causes))
    help_lines = remedy(causes[at], width, max(0, min(most, height - 1)))
    room = height - len(help_lines)
    first = max(0, min(at - room // 2, len(causes) - room))
    out: list[Line] = []
    for index, cause in enumerate(causes[first : first + room], first):
        line = cause_line(cause, seen.picture.now_ns, width, spans=width < seen.width)
        out.append(_chosen(line, 3) if index == at and state.on_causes else line)
        out += help_lines if index == at else []
    return out


# -- pages over it


def _page(rows: Sequence[Row], causes: Sequence[Cause], seen: Seen, width: int, state: State) -> list[Line]:
    if state.view == "help":
        keys = [[(f"  {key:<9}", CODE), (text, PLAIN)] for key, text in HELP]
        return [[], *keys]
    row = rows[_at([row.key for row in rows], state.chosen)] if rows else None
    if state.view == "details":
        return [] if row is None else member_lines(row, seen, width)
    cause = causes[_at([cause.sort for cause in causes], state.cause)] if causes else None
    if row is not None and state.chosen is not None and not state.on_causes:
        cause = next(iter(causes_of(row, seen)), cause)
    return [[("  No findings yet.", PLAIN)]] if cause is None else explained(cause, seen.picture.topics, width)
