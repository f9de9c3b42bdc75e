"""The first and the last lines of the screen: the state of the capture, and the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kshark.live.screen.cells import cells
from kshark.live.screen.model import Picture
from kshark.live.screen.state import State
from kshark.output.spans import CHOSEN, CODE, DIM, ERROR, GOOD, NOTE, PLAIN, VALUE, WARN, Line
from kshark.units import clock, counted, duration, number, safe, shortened, size

#: A delay is shown from here on; it is a warning from a second on.
_LATE_NS: Final = 1_000_000_000
#: Losses are named for this time.
_RECENT_NS: Final = 60_000_000_000
#: A part of a line with its rank: those with the highest are left out first.
_Part = tuple[int, Line]

_KEYS: Final = (
    (0, "q", "quit"),
    (1, "p", "pause"),
    (3, "/", "filter"),
    (5, "g", "group"),
    (2, "Enter", "details"),
    (2, "e", "explain"),
    (4, "w", "save"),
    (6, "s", "sort"),
    (7, "Tab", "findings"),
    (1, "?", "help"),
)


def header(picture: Picture, width: int, height: int, state: State) -> list[Line]:
    """Return two lines, and one if something stands in the way, or packets were lost lately; one on a low terminal."""
    first, second = _joined(_where(picture, state), width), _joined(_state(picture), width)
    if height < 6:
        return [second]
    more = [[(safe(picture.status.fault), ERROR)]] if picture.status.fault else []
    if height >= 16 and (lost := _lost(picture)):
        more.append(lost)
    return [first, second, *more]


def _where(picture: Picture, state: State) -> list[_Part]:
    status = picture.status
    parts: list[_Part] = [(0, [("kshark", CODE)])]
    if state.paused:
        parts.append((0, [(" PAUSED ", CHOSEN)]))
    parts += [
        (1, [(safe(name), ERROR if name in status.down else VALUE), (" down" if name in status.down else "", ERROR)])
        for name in status.interfaces[:3]
    ]
    if picture.filter:
        parts.append((7, [(f"'{safe(picture.filter)}'", DIM)]))
    parts.append((0, [(clock(picture.now_ns, 1)[:8], VALUE)]))
    up_ns = status.now_ns - status.since_ns
    parts.append((5, [(f"up {duration(up_ns) if up_ns >= 60_000_000_000 else f'{up_ns // 1_000_000_000} s'}", PLAIN)]))
    parts.append((2, [(f"{picture.rate:,.0f} packets/s", PLAIN)]))
    groups = {row.key[:2] for row in picture.rows}
    members = sum(row.beat is None or not row.beat.left for row in picture.rows)
    parts.append((4, [(counted(picture.brokers, "broker"), PLAIN)]))
    only = next(iter(groups))[1] if len(groups) == 1 else ""
    parts.append((4, [(f"group {shortened(only, 24)}" if only else counted(len(groups), "group"), PLAIN)]))
    parts.append((3, [(counted(members, "member"), PLAIN)]))
    return parts


def _state(picture: Picture) -> list[_Part]:
    status, verdicts = picture.status, picture.verdicts
    violations = verdicts.get("violation", 0)
    style = ERROR if violations else GOOD
    word = "VIOLATION" if violations else "violation"
    late = status.delay_ns >= _LATE_NS
    behind = f"behind {status.delay_ns / 1e9:.1f} s"
    behind += f" ({size(status.waiting)})" if late and status.waiting else ""
    parts: list[_Part] = [
        (0, [(f"{number(violations)} {word}{'' if violations == 1 else 's' if not violations else 'S'}", style)]),
        (1, [(f"{number(verdicts.get('unknown', 0))} not proved", WARN if verdicts.get("unknown") else PLAIN)]),
        (3, [(counted(verdicts.get("note", 0), "note"), NOTE if verdicts.get("note") else PLAIN)]),
        (0, [(f"lost {number(status.dropped)}", ERROR if status.dropped else PLAIN)]),
        (0 if late else 5, [(behind, WARN if late else PLAIN)]),
    ]
    if status.recorder:
        parts.append((4, [(f"rec {safe(status.recorder)}", PLAIN)]))
    return parts


def _lost(picture: Picture) -> Line:
    """Return when packets were lost lately; nothing if none were."""
    lost = picture.status.lost
    if not lost or lost[-1].until_ns < picture.now_ns - _RECENT_NS:
        return []
    last = lost[-1]
    span = f"{clock(last.since_ns, 1)} to {clock(last.until_ns, 1)}"
    return [(f"{counted(last.packets, 'packet')} lost {span} (no room): nobody is blamed for that", WARN)]


def footer(width: int, state: State) -> list[Line]:
    """Return the keys, or the filter that is typed, or the answer to a key."""
    if state.typing:
        return [[("/", CODE), (safe(state.filter), VALUE), ("▏", VALUE), ("  Enter keeps it, Esc ends it", DIM)]]
    if state.message:
        return [[(safe(state.message), WARN)]]
    parts: list[_Part] = []
    if state.filter:
        parts.append((0, [("/" + safe(state.filter), WARN), (" (Esc)", DIM)]))
    if state.group is not None:
        parts.append((0, [("group " + safe(state.group.group_id), WARN), (" (Esc)", DIM)]))
    if state.view != "overview":
        keys: Sequence[tuple[int, str, str]] = ((0, "q", "back"), (1, "up down", "scroll"), (2, "p", "pause"))
    else:
        keys = _KEYS
    parts += [(rank + 1, [(key, CODE), (f" {what}", DIM)]) for rank, key, what in keys]
    return [_joined(parts, width)]


def _joined(parts: list[_Part], width: int) -> Line:
    """Join parts with two spaces; without those of the highest ranks, as far as there is no room."""
    parts = [*parts]
    while len(parts) > 1 and sum(_cells(line) + 2 for _, line in parts) - 2 > width:
        worst = max(range(len(parts)), key=lambda at: (parts[at][0], at))
        del parts[worst]
    out: Line = []
    for _, line in parts:
        out += [("  ", PLAIN), *line] if out else line
    return out


def _cells(line: Line) -> int:
    return sum(cells(text) for text, _ in line)
