"""Records in flight for a person: a row a change, a table of what records are in, who holds them, one record's life."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kshark.analysis import Delivery, Holder, InFlightRange, InFlightState
from kshark.output.spans import API, DIM, ERROR, GOOD, LABEL, PLAIN, VALUE, WARN, Line, Span
from kshark.output.text_table import Cell, Column, cropped, table
from kshark.output.units import clock, counted, duration, number, safe

if TYPE_CHECKING:
    from kshark.produced import DeadLetter, Produced

#: Group, topic id and partition.
_Place = tuple[str | None, str, int]
#: Events and states that stand out.
_STYLES: Final = {
    "accepted": GOOD, "acknowledged": GOOD, "acquired": VALUE, "released": WARN, "rejected": ERROR, "gap": WARN,
    "lock_timeout": ERROR,
    "session_released": WARN, "leader_changed": WARN, "offset_reset": WARN, "archived": WARN, "unknown": DIM,
}  # fmt: skip
#: Of a change: what stands below the other columns in a narrow terminal.
_BELOW: Final = Column("records of", elastic=10), Column("in flight afterwards", elastic=20, drop=1)
_INDENT: Final = 8
#: So many of the ranges in flight stand in a row.
_SHOWN: Final = 12
_CHANGES: Final = (
    Column("packet", right=True),
    Column("time"),
    _BELOW[0],
    Column("event"),
    Column("by", elastic=8),
    Column("offsets", elastic=8),
    Column("start", right=True),
    Column("end", right=True),
    _BELOW[1],
)
_RANGES: Final = (
    Column("offsets", right=True),
    Column("records", right=True),
    Column("state"),
    Column("delivered", right=True),
    Column("by"),
)
_HOLDERS: Final = (
    Column("records of", elastic=10),
    Column("held by", elastic=10),
    Column("address", drop=2),
    Column("records", right=True),
    Column("offsets", elastic=10),
    Column("since"),
    Column("for", right=True),
    Column("lock", right=True),
    Column("start offset"),
)


def delivery_lines(deliveries: Sequence[Delivery], width: int | None, *, offset: int | None = None) -> Iterator[Line]:
    """A row for each change, then how many there were; of one `offset` that record's own."""
    names, places = _names(deliveries), _places(deliveries)
    if deliveries:
        yield from _changes([_change(one, names, places, offset) for one in deliveries], width)
        yield []
    elif offset is not None:
        yield [(f"offset {offset}: nobody was handed it, as far as the capture tells", PLAIN)]
        return
    yield [(f"{counted(len(deliveries), 'change')} in {counted(len(places), 'share partition')}", API)]


def _changes(rows: list[list[Cell]], width: int | None) -> Iterator[Line]:
    """The rows as a table; where it is too wide for that, what is in flight stands below each row, and whose records
    these are."""
    whole = [*table(_CHANGES, rows, width)]
    if width is None or len(whole) == 1 + len(rows):
        yield from whole
        return
    kept = [at for at, column in enumerate(_CHANGES) if column not in _BELOW]
    titles, *lines = table([_CHANGES[at] for at in kept], [[row[at] for at in kept] for row in rows], width)
    yield titles
    for at, line in enumerate(lines):  # more than there are rows where there is no room for all of these, either
        yield line
        if at < len(rows):
            place, in_flight = (rows[at][_CHANGES.index(column)] for column in _BELOW)
            yield cropped(
                [(f"{' ' * _INDENT}{place}", VALUE), *([("  ", PLAIN), *in_flight] if in_flight else [])], width
            )


def moment_line(now_ns: int, *, at_end: bool) -> Line:
    """When it is that the records are looked at."""
    return [(f"at {clock(now_ns, 3)}{', where the capture ends' if at_end else ''}", DIM)]


def state_lines(states: Sequence[InFlightState], holders: Sequence[Holder], width: int | None) -> Iterator[Line]:
    """A table for each share partition."""
    names, places = _names(holders), _places(states)
    for state in states:
        start, end = _number(state.start_offset), _number(state.end_offset)
        yield []
        yield [
            (places[_key(state)], VALUE),
            ("  start offset ", LABEL),
            (start, VALUE),
            ("  end offset ", LABEL),
            (end, VALUE),
        ]
        if state.ranges:
            yield from table(_RANGES, [_state(one, names) for one in state.ranges], width, indent=2)
    if not states:
        yield [("no share group had acquired records", PLAIN)]


def holder_lines(holders: Sequence[Holder], now_ns: int, width: int | None) -> Iterator[Line]:
    """A row for each member and share partition, the one that holds longest first."""
    if not holders:
        yield [("nobody holds a record, as far as the capture tells", PLAIN)]
        return
    names, places = _names(holders), _places(holders)
    yield from table(
        _HOLDERS, [_holder(one, names, places, now_ns) for one in sorted(holders, key=lambda one: one.since_ns)], width
    )


def produced_lines(born: Sequence[Produced], offset: int, width: int | None) -> Iterator[Line]:
    """Where a record came from."""
    if not born:
        yield [(f"offset {offset}: its Produce is not in the capture", DIM)]
    for one in born:
        batch = f"in the batch of offsets {_offsets([(one.base_offset, one.last_offset)])}"
        producer = (
            ""
            if one.producer_id < 0
            else f", producer {one.producer_id} epoch {one.producer_epoch} sequence {one.base_sequence}"
        )
        where = f"{safe(one.topic or one.topic_id or '?')}[{one.partition}]"
        yield [
            (f"offset {offset} of {where} produced by ", PLAIN),
            (f"{safe(one.client_id or one.client)}", VALUE),
            (f" at {clock(one.time_ns, 3)} {batch}{producer} (packet {one.packet})", PLAIN),
        ]


def dead_letter_lines(letters: Sequence[DeadLetter]) -> Iterator[Line]:
    """Where a record lies that its group gave up."""
    for one in letters:
        queue = f"{safe(one.queue or one.queue_id or '?')}[{one.queue_partition}]"
        group = f" by group {safe(one.group_id)}" if one.group_id else ""
        reason = f": {safe(one.reason)}" if one.reason else ""
        yield [
            (f"offset {one.offset} of {safe(one.topic or '?')}[{one.partition}] given up{group}, put into ", PLAIN),
            (f"{queue} at offset {one.queue_offset}", VALUE),
            (f" at {clock(one.time_ns, 3)} (packet {one.packet}){reason}", PLAIN),
        ]


def _names(deliveries: Iterable[Delivery | Holder]) -> dict[str | None, str]:
    """Members by their client id, where that is one member's alone, else by both."""
    ids: dict[str, set[str | None]] = {}
    known: dict[str | None, str] = {}
    for one in deliveries:
        if one.client_id is not None:
            ids.setdefault(one.client_id, set()).add(one.member_id)
            known[one.member_id] = one.client_id
    return {
        member: safe(client_id) if len(ids[client_id]) == 1 else f"{safe(client_id)}/{safe(member or 'null')[:8]}"
        for member, client_id in known.items()
    }


def _by(member_id: str | None, names: dict[str | None, str]) -> str:
    return "" if member_id is None else names.get(member_id, safe(member_id))


def _change(one: Delivery, names: dict[str | None, str], places: dict[_Place, str], offset: int | None) -> list[Cell]:
    by = _by(one.member_id, names)
    ranges = [its for its in one.ranges if offset is None or its.first_offset <= offset <= its.last_offset]
    more = max(len(ranges) - _SHOWN, 0) + one.more_ranges
    return [
        str(one.packet),
        clock(one.time_ns, 3),
        places[_key(one)],
        [_styled(one.event)],
        by,
        _offsets(one.offsets) if offset is None else str(offset),
        _number(one.start_offset),
        _number(one.end_offset),
        [
            *(span for at, its in enumerate(ranges[:_SHOWN]) for span in _span(its, names, "  " if at else "")),
            *([(f"  … {number(more)} more", DIM)] if more else ()),
        ],
    ]


def _span(one: InFlightRange, names: dict[str | None, str], before: str) -> Line:
    count = "" if one.delivery_count is None else f" ×{one.delivery_count}"
    by = _by(one.member_id, names)
    state = _styled(one.state)
    return [
        (f"{before}{_offsets([(one.first_offset, one.last_offset)])} ", PLAIN),
        state,
        (f"{count} {by}".rstrip(), DIM),
    ]


def _state(one: InFlightRange, names: dict[str | None, str]) -> list[Cell]:
    return [
        _offsets([(one.first_offset, one.last_offset)]),
        number(one.last_offset - one.first_offset + 1),
        [_styled(one.state)],
        "" if one.delivery_count is None else f"×{one.delivery_count}",
        _by(one.member_id, names),
    ]


def _holder(one: Holder, names: dict[str | None, str], places: dict[_Place, str], now_ns: int) -> list[Cell]:
    left = one.until_ns - now_ns
    lock: Span = (f"{duration(left)} left", PLAIN) if left > 0 else ("out", ERROR)
    return [
        places[_key(one)],
        names.get(one.member_id, safe(one.member_id or "null")),
        one.client,
        number(one.records),
        _offsets(one.offsets),
        clock(one.since_ns, 3),
        duration(now_ns - one.since_ns),
        [lock],
        [("waits for it", WARN) if one.blocks_start else ("", PLAIN)],
    ]


def _key(one: Delivery | InFlightState | Holder) -> _Place:
    return one.group_id, one.topic_id, one.partition


def _places(listed: Iterable[Delivery | InFlightState | Holder]) -> dict[_Place, str]:
    """Whose records, for a person; topics of one name (made anew, or of two clusters) are told apart by their ids."""
    ids: dict[str, set[_Place]] = {}
    of_key = {_key(one): of(one) for one in listed}
    for key, place in of_key.items():
        ids.setdefault(place, set()).add(key)
    return {key: place if len(ids[place]) == 1 else f"{place} {safe(key[1])[:8]}…" for key, place in of_key.items()}


def of(one: Delivery | InFlightState | Holder) -> str:
    """Whose records, for a person: group, topic and partition."""
    return f"{safe(one.group_id or 'null')} · {safe(one.topic or one.topic_id)}[{one.partition}]"


def _offsets(ranges: Iterable[tuple[int, int]]) -> str:
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges if first <= last)


def _number(offset: int | None) -> str:
    return "?" if offset is None else str(offset)


def _styled(word: str) -> Span:
    return word.replace("_", " "), _STYLES.get(word, PLAIN)
