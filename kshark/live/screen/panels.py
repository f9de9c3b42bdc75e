"""Findings, the details of a member, and explanations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshark.analysis import Rule
from kshark.analysis.rules.causes import CAUSES
from kshark.error_names import ERROR_NAMES
from kshark.live.screen.causes import RECENT_NS, by_hurt
from kshark.live.screen.cells import cells, padded
from kshark.live.screen.columns import Seen, place_of, seconds
from kshark.live.screen.rows import Cause, GroupRow, Row
from kshark.output.catalogue import CODES, advice_of
from kshark.output.entries import conversation_lines
from kshark.output.findings import finding_lines
from kshark.output.spans import API, CODE, DIM, ERROR, GOOD, LABEL, NOTE, PLAIN, VALUE, WARN, Line, folded
from kshark.units import clock, counted, duration, number, safe

_STYLES: Final = {"violation": ERROR, "unknown": WARN, "note": NOTE}
#: Causes of a member, and ranges that it holds, that are shown.
_CAUSES: Final = 4
_RANGES: Final = 6
#: The longest code that is aligned, and the names of clients in a line.
_CODE: Final = 22
_NAMES: Final = 2
_SHORT_NS: Final = 1_000_000_000


def cause_line(cause: Cause, now_ns: int, width: int, *, spans: bool = False) -> Line:
    """Return one line: the last time (`spans`: the first one too), how often, what, who, and what happened."""
    finding = cause.finding
    style = DIM if now_ns - cause.last_ns > RECENT_NS else _STYLES[finding.verdict]
    times = "now" if cause.lasts else f"x{_times(cause.count)}" if cause.count > 1 else ""
    code = f"{finding.code} ?" if finding.verdict == "unknown" else finding.code
    if width < 60:
        return [(f"{times:<4} ", VALUE), (code, style), (f" {who_of(cause)}", PLAIN)]
    first = f"{clock(cause.first_ns, 1)[:8]}-" if spans and cause.count > 1 else ""
    time = f"{first}{clock(cause.first_ns if cause.lasts else cause.last_ns, 1)[:8]}"
    who, what = who_of(cause), what_of(cause)
    return [
        (f"{time:>17} " if spans else f"{time} ", DIM),
        (f"{times:<5} ", VALUE),
        (code.ljust(_CODE), style),
        (" " if who.startswith("broker ") and what.casefold().startswith(who) else f" {who}: ", VALUE),
        (what, PLAIN),
    ]


def who_of(cause: Cause) -> str:
    """Return `a, b +3`."""
    more = len(cause.who) - _NAMES
    return ", ".join(cause.who[:_NAMES]) + (f" +{more}" if more > 0 else "")


def _times(count: int) -> str:
    return str(count) if count < 10_000 else f"{count // 1000}k"


def what_of(cause: Cause) -> str:
    """Return in a few words what happened; of an incident its own sentence."""
    entry, why = CODES[cause.finding.code], CAUSES.get(cause.finding.cause or "")
    if why is not None:
        return why
    if isinstance(entry, Rule) and entry.act:
        return entry.act
    if isinstance(entry, Rule) and entry.accuses:
        return entry.text
    return cause.finding.argument


def sentence_of(cause: Cause) -> str:
    """Return who did what, or what happened; with the known bugs that may be the reason."""
    entry = CODES[cause.finding.code]
    if not isinstance(entry, Rule) or cause.finding.verdict != "violation" or not entry.act:
        return what_of(cause)
    tickets = f" Known bug: {', '.join(entry.tickets)}." if entry.tickets and cause.finding.blame == "broker" else ""
    why = CAUSES.get(cause.finding.cause or "")
    who = who_of(cause) if cause.finding.blame != "client" else f"client {who_of(cause)}"
    return f"{who[:1].upper()}{who[1:]} {entry.act}{'' if why is None or tickets else f': {why}'}.{tickets}"


def remedy(cause: Cause, width: int, most: int) -> list[Line]:
    """Return what happened, if the line of the cause has no room for it, and what to do: at most so many lines."""
    advice = advice_of(cause.finding.code, cause.finding.cause)
    lines = [*folded([("  → ", GOOD), (advice, PLAIN)], width, 4)] if advice else []
    fits = sum(cells(text) for text, _ in cause_line(cause, 0, width)) <= width
    happened = [] if fits else [*folded([("    ", PLAIN), (sentence_of(cause), DIM)], width, 4)]
    return [*_cut(happened, max(most - len(lines), most // 2)), *_cut(lines, most - min(len(happened), most // 2))][
        :most
    ]


def _cut(lines: list[Line], most: int) -> list[Line]:
    """Return the first lines; the last one ends with `…` if it is not the end."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], [*lines[most - 1], ("…", DIM)]] if most > 0 else []


def member_lines(row: Row, seen: Seen, width: int) -> list[Line]:
    """Return the details of a member, or of a group: who it is, what hurts most and what to do, its last requests, the
    records that it holds, its other findings."""
    own = causes_of(row, seen)
    lines: list[Line] = [
        [("group ", LABEL), (safe(row.key.group_id), VALUE), (f"  {counted(row.members, 'member')}", PLAIN)]
        if isinstance(row, GroupRow)
        else [("client ", LABEL), (row.client_id or "?", VALUE), ("  group ", LABEL), (safe(row.key.group_id), VALUE)]
    ]
    if not isinstance(row, GroupRow):
        about = " · ".join(filter(None, (row.about.software, row.about.client, f"broker {row.about.broker}")))
        lines.append([(about, DIM)])
        lines.append([("member ", LABEL), (safe(row.key.member_id or ""), DIM)])
        lines.append(_membership(row, seen))
    for at, cause in enumerate(own[:_CAUSES]):
        lines += [[], cause_line(cause, seen.picture.now_ns, width), *remedy(cause, width, 4)]
        if not at:
            lines += _does(row, seen, width)
    if not own:
        lines += _does(row, seen, width)
    if len(own) > _CAUSES:
        lines.append([(f"and {counted(len(own) - _CAUSES, 'more cause')}", DIM)])
    return lines


def _does(row: Row, seen: Seen, width: int) -> list[Line]:
    """Return the last requests of a member, and the ranges that it or its group holds."""
    talks = [] if isinstance(row, GroupRow) else [[], *_talks(row, width)]
    return [*talks, *_holdings(row, seen, width)]


def causes_of(row: Row, seen: Seen) -> list[Cause]:
    """Return the causes about a member or a group, what hurts first."""
    own = (cause for cause in seen.picture.causes if cause.key is not None and row.key in (cause.key, cause.key.group))
    return by_hurt(own, seen.picture.now_ns)


def _membership(row: Row, seen: Seen) -> Line:
    beat = row.beat
    if beat is None:
        return [("no heartbeat seen", DIM)]
    if beat.left:
        return [("left the group", DIM)]
    ago = f"  heartbeat {seconds(max(0, seen.picture.now_ns - beat.time_ns))} s ago, due every "
    return [
        (f"member epoch {beat.epoch}", PLAIN),
        (f"{ago}{duration(beat.interval_ns)}", ERROR if beat.is_late(seen.picture.now_ns) else PLAIN),
    ]


def _talks(row: Row, width: int) -> list[Line]:
    """Return the last requests, the latest first."""
    is_wide = width >= 60
    titles = f"{'time':<12} {'request':<19}" if is_wide else f"{'request':<12}"
    lines: list[Line] = [[(f"{titles} {'epoch':>6} {'latency':>8}  answer", DIM)]] if row.talks else []
    for talk in reversed(row.talks):
        epoch = "-" if talk.epoch is None else str(talk.epoch)
        latency = "" if talk.latency_ns is None else duration(talk.latency_ns)
        request = [(clock(talk.time_ns, 3) + " ", DIM), (padded(talk.api, 19), API)]
        if not is_wide:
            request = [(padded(talk.api.removeprefix("Share"), 12), API)]
        lines.append([*request, (f" {epoch:>6}", VALUE), (f" {latency:>8}  ", PLAIN), _answer(talk.error)])
    return lines


def _answer(error: int | None) -> tuple[str, str]:
    if error is None:
        return "no answer", WARN
    return ("ok", GOOD) if not error else (ERROR_NAMES.get(error, f"error {error}"), ERROR)


def _holdings(row: Row, seen: Seen, width: int) -> list[Line]:
    """Return the ranges that it holds, those whose locks end first."""
    now_ns = seen.picture.now_ns
    held = [
        (range_, holding)
        for holding in seen.of.get(row.key, ())
        for range_ in holding.ranges
        if row.key.member_id in (None, range_.member_id)
    ]
    if not held:
        return []
    held.sort(key=lambda it: it[0].until_ns)
    total = sum(range_.records for range_, _ in held)
    lines: list[Line] = [[], [("holds ", LABEL), (counted(total, "record"), VALUE)]]
    for range_, holding in held[:_RANGES]:
        left_ns = range_.until_ns - now_ns
        place = place_of(holding, seen.picture.topics)
        place = padded(place, min(cells(place), max(12, width // 3)))
        offsets = f" {range_.first_offset}-{range_.last_offset}"
        count = f"  delivery {range_.delivery_count}" if range_.delivery_count and range_.delivery_count > 1 else ""
        start = "" if holding.start is None else f"  start offset {holding.start}"
        style = WARN if left_ns < _SHORT_NS else VALUE
        lines.append(
            [
                (f"  {place}", PLAIN),
                (offsets, VALUE),
                (f"  lock {seconds(max(0, left_ns))} s", style),
                (count, WARN),
                (start if width >= 70 else "", DIM),
            ]
        )
    if len(held) > _RANGES:
        lines.append([(f"  and {counted(len(held) - _RANGES, 'more range')}", DIM)])
    return lines


def explained(cause: Cause, topics: Mapping[str, str], width: int) -> list[Line]:
    """Return what is known of a cause: what happened and what to do, its last finding in full, its row of the
    catalogue."""
    finding, entry = cause.finding, CODES[cause.finding.code]
    seen = f"{clock(cause.first_ns, 3)} to {clock(cause.last_ns, 3)}" if cause.count > 1 else clock(cause.last_ns, 3)
    lines: list[Line] = [[(f"{number(cause.count)} × ", VALUE), (finding.code, CODE), (f"  {seen}", DIM)]]
    lines += folded([(sentence_of(cause), VALUE)], width)
    lines += folded([("  → ", GOOD), (advice_of(cause.finding.code, cause.finding.cause), PLAIN)], width, 4)
    lines += [[], [("the last one", LABEL)]]
    lines += [part for line in finding_lines(finding, width, topics) for part in folded(line, width, 2)]
    facts = [("means", entry.text)]
    if isinstance(entry, Rule):
        facts += [("must be", entry.must), ("reference", entry.source), ("tickets", ", ".join(entry.tickets))]
    for name, text in facts:
        if text:
            lines += folded([(f"{name:<11}", LABEL), (text, PLAIN)], width, 11 if width >= 40 else 2)
    if isinstance(entry, Rule) and entry.wrong:
        lines += [[], *(part for line in conversation_lines(entry) for part in folded(line, width, 2))]
    return lines
