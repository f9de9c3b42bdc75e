"""Groups as text: a head, changes of state, a row for each member, administrative operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from kshark.groups import Coordinator, GroupOffset, GroupSetting, GroupState, ListedGroup, ListedMember
from kshark.output.operations import operation_lines
from kshark.output.rebalances import rebalance_lines
from kshark.output.spans import API, DIM, ERROR, GOOD, LABEL, PLAIN, VALUE, WARN, Line, folded
from kshark.output.text_table import Cell, Column, table
from kshark.units import clock, counted, number, safe

_INDENT: Final = 2
#: Most changes of state of each group without `-V`.
_SHOWN: Final = 6
#: States and ends that need no attention; all others are highlighted.
_STATES: Final = {"Stable": GOOD, "Empty": PLAIN, "Dead": PLAIN}
_ENDS: Final = {"left": GOOD, "deleted": PLAIN, "away": PLAIN}

_MEMBERS: Final = (
    Column("member", elastic=12),
    Column("instance", elastic=8),
    Column("client", elastic=8),
    Column("software", elastic=8, drop=3),
    Column("address", elastic=8, drop=4),
    Column("rack", elastic=4),
    Column("joined", drop=2),
    Column("last seen", drop=1),
    Column("ended"),
    Column("epoch", right=True),
    Column("assignment", elastic=16),
    Column("refused", elastic=8),
    Column("acknowledges, inferred", elastic=8, drop=5),
)
_OFFSETS: Final = (
    Column("partition", elastic=12),
    Column("offset", right=True),
    Column("end", right=True),
    Column("lag", right=True),
    Column("shown"),
)
#: Most partitions of each group without `-V`: those with the greatest lag.
_PARTITIONS: Final = 8
_HISTORY: Final = (
    Column("packet", right=True, drop=1),
    Column("time"),
    Column("state"),
    Column("members", right=True, drop=2),
    Column("group epoch", right=True),
    Column("assignment epoch", right=True),
    Column("generation", right=True),
    Column("known"),
)


def group_lines(group: ListedGroup, width: int | None, *, verbose: bool, clusters: bool = False) -> Iterator[Line]:
    """Return one group, and an empty line.

    `verbose`: every change. `clusters`: the name of its cluster.
    """
    yield from folded(_head(group, clusters), width, _INDENT)
    for missing in group.not_captured:
        yield from folded([("  not captured: ", LABEL), (safe(missing), WARN)], width, 2 * _INDENT)
    if verbose:
        yield from table(_HISTORY, [_change(row) for row in group.history], width, _INDENT)
    else:
        yield from folded(_states(group), width, 2 * _INDENT)
    if len(group.coordinators) > 1:
        yield from folded(_moves(group.coordinators, verbose=verbose), width, 2 * _INDENT)
    if settings := _settings(group.settings, verbose=verbose):
        yield from folded(settings, width, 2 * _INDENT)
    if group.members:
        yield from table(_MEMBERS, [_member(member) for member in group.members], width, _INDENT)
    yield from folded(_assigned_to_nobody(group), width, 2 * _INDENT) if group.unassigned else ()
    if group.rebalances is not None:
        left_out = group.rebalances_left_out or 0
        yield from rebalance_lines(group.rebalances, left_out, width, verbose=verbose)
    if group.offsets:
        yield from _offsets(group.offsets, width, verbose=verbose)
    yield from operation_lines(group.operations, width, verbose=verbose, indent=_INDENT)
    discarded = (
        ("change", group.history_left_out),
        ("member", group.members_left_out),
        ("operation", group.operations_left_out),
    )
    discarded_counts = [counted(count, noun) for noun, count in discarded if count]
    if discarded_counts:
        yield [(f"  {' and '.join(discarded_counts)} before these were discarded", WARN)]
    yield []


def total_line(groups: Sequence[ListedGroup], left_out: int) -> Line:
    """Return `3 groups: 2 share, 1 classic; 4 members, 1 fenced`."""
    types = Counter(group.type or "of unknown type" for group in groups)
    members = [member for group in groups for member in group.members]
    ends = Counter(member.ended.how for member in members if member.ended is not None and member.silent is None)
    type_counts = ", ".join(f"{number(count)} {type}" for type, count in types.most_common())
    line: Line = [(counted(len(groups), "group"), API), (f": {type_counts}" if type_counts else "", PLAIN)]
    if members:
        line.append((f"; {counted(len(members), 'member')}", PLAIN))
        line += [
            (f", {number(count)} {how.replace('_', ' ')}", _ENDS.get(how, WARN)) for how, count in ends.most_common()
        ]
        if silent := sum(member.silent is not None for member in members):
            line.append((f", {number(silent)} silent", WARN))
    if left_out:
        line.append((f"; {counted(left_out, 'group')} with the oldest activity were discarded", WARN))
    return line


def _head(group: ListedGroup, clusters: bool) -> Line:
    type = f"{group.type} group" if group.type else "group of unknown type"
    line: Line = [(safe(group.group_id), VALUE), (f"  {type}", API)]
    if clusters:
        line += [(" · cluster ", LABEL), (safe(group.cluster_id or "unknown"), VALUE)]
    if group.protocol_type not in (None, "consumer"):
        line.append((f" of protocol type {safe(group.protocol_type or '')}", PLAIN))
    if group.coordinators:
        line += [(" · coordinator ", LABEL), (_coordinator(group.coordinators[-1]), VALUE)]
    if group.assignor:
        line += [(" · assignor ", LABEL), (safe(group.assignor), VALUE)]
    for name in ("group_epoch", "assignment_epoch", "generation"):
        value = getattr(group, name)
        if value is not None:
            line += [(f" · {name.replace('_', ' ')} ", LABEL), (number(value), VALUE)]
    return line


def _coordinator(coordinator: Coordinator) -> str:
    """Return the address that responded; otherwise its advertised name."""
    address = coordinator.broker or coordinator.host or ""
    return safe(address if coordinator.node_id is None else f"{address} (node {coordinator.node_id})")


def _moves(coordinators: Sequence[Coordinator], *, verbose: bool) -> Line:
    line: Line = [("  coordinator ", LABEL)]
    shown = coordinators if verbose else coordinators[-_SHOWN:]
    if len(shown) < len(coordinators):
        line.append((f"… {counted(len(coordinators) - len(shown), 'move')} before (-V) … ", DIM))
    for index, coordinator in enumerate(shown):
        line += [
            (" → " if index else "", WARN),
            (_coordinator(coordinator), VALUE),
            (f" {clock(coordinator.time_ns, 3)}", DIM),
        ]
    return line


def _offsets(offsets: Sequence[GroupOffset], width: int | None, *, verbose: bool) -> Iterator[Line]:
    """Return a row for each partition; without `verbose` for those with the greatest lag."""
    ranked = sorted(offsets, key=lambda offset: -1 if offset.lag is None else offset.lag, reverse=True)
    kept = {id(offset) for offset in (ranked if verbose else ranked[:_PARTITIONS])}
    rows: list[list[Cell]] = [
        [
            safe(f"{offset.topic}[{offset.partition}]"),
            str(offset.offset),
            _end(offset),
            [("?", DIM)] if offset.lag is None else [(number(offset.lag), WARN if offset.lag else GOOD)],
            [(f"{offset.source} {clock(offset.time_ns, 3)}", DIM), (f" (packet {offset.packet})" * verbose, DIM)],
        ]
        for offset in offsets
        if id(offset) in kept
    ]
    yield from table(_OFFSETS, rows, width, _INDENT)
    if len(rows) < len(offsets):
        yield [(f"  {counted(len(offsets) - len(rows), 'partition')} with less lag: -V", DIM)]


def _end(offset: GroupOffset) -> Cell:
    """Return the end of the partition; none beside a lag that an answer gave for its own time."""
    if offset.end_offset is None:
        return [("?", DIM)] if offset.lag is None else ""
    return "" if offset.source == "described" and offset.lag is not None else str(offset.end_offset)


def _settings(settings: Sequence[GroupSetting], *, verbose: bool) -> Line:
    """Return the group's own settings; `verbose`: also defaults, and the packets that show them."""
    line: Line = []
    for setting in settings:
        if setting.source != "group" and not verbose:
            continue
        line += [(f"{' · ' if line else '  settings '}", LABEL), (f"{safe(setting.name)} ", PLAIN)]
        line.append(("hidden", DIM) if setting.value is None else (safe(setting.value) or '""', VALUE))
        origin = {"broker": "the brokers' default, ", "default": "not set by the group, "}.get(setting.source, "")
        line += [(f" ({origin}packet {setting.packet})", DIM)] if verbose else []
    return line


def _states(group: ListedGroup) -> Line:
    """Return the last changes of state, and of type."""
    rows = [
        (before, row)
        for before, row in pairwise((None, *group.history))
        if row is not None and (before is None or (row.type, row.state) != (before.type, before.state))
    ]
    line: Line = [("  state ", DIM)]
    if len(rows) > _SHOWN:
        line.append((f"… {counted(len(rows) - _SHOWN, 'change')} before (-V) … ", DIM))
    for index, (before, row) in enumerate(rows[-_SHOWN:]):
        line.append((" → " if index else "", DIM))
        if before is not None and row.type != before.type:
            line.append((f"{row.type} ", API))
        line += [(row.state or "unknown", _STATES.get(row.state or "", WARN)), (f" {_time(row)}", DIM)]
    return line


def _time(row: GroupState) -> str:
    return clock(row.time_ns, 3) if row.because is None else f"about {clock(row.time_ns)[:8]}"


def _change(row: GroupState) -> list[Cell]:
    state: Line = [(row.state or "?", _STATES.get(row.state or "", WARN))]
    epochs = ["" if epoch is None else str(epoch) for epoch in (row.group_epoch, row.assignment_epoch, row.generation)]
    packet, known = (str(row.packet), row.source) if row.because is None else ("", f"{row.source}, session expired")
    return [packet, _time(row), state, number(row.members), *epochs, [(known, DIM)]]


def _member(member: ListedMember) -> list[Cell]:
    ended = member.ended
    refused = ", ".join(f"{code} ×{number(count)}" for code, count in member.rejected.items())
    how = member.acknowledges
    style: Line = [] if how is None else [(f"{how.style}: " if how.style else "", VALUE), (how.because, DIM)]
    return [
        safe(member.member_id),
        safe(member.instance_id or ""),
        safe(member.client_id or ""),
        safe(" ".join(part for part in (member.software, member.software_version) if part)),
        member.address or "",
        safe(member.rack_id or ""),
        clock(member.joined.time_ns, 3)
        if member.joined is not None
        else [("earlier", DIM)]
        if member.present or ended
        else "",
        "" if member.last is None else clock(member.last.time_ns, 3),
        _ended(member),
        "" if member.epoch is None else str(member.epoch),
        _assignment(member),
        [(refused, ERROR)],
        style,
    ]


def _assigned_to_nobody(group: ListedGroup) -> Line:
    """Return `assigned to nobody: orders:2,3`."""
    parts = (f"{one.topic}:{','.join(map(str, one.partitions))}" for one in group.unassigned)
    return [("  assigned to nobody ", LABEL), (safe(" ".join(parts)), WARN)]


def _ended(member: ListedMember) -> Line:
    ended, silent = member.ended, member.silent
    if silent is not None:
        after = f"{silent.session_timeout_ms / 1000:g} s"
        expiry = f"out by default after {after}" if silent.source == "default" else f"session timeout {after}"
        return [(f"no heartbeat since {clock(silent.time_ns)[:8]}, {expiry}", WARN)]
    if ended is not None and ended.how == "expired":
        return [("session expired", WARN), (f" about {clock(ended.time_ns)[:8]}", DIM)]
    if ended is not None:
        return [(f"{ended.how.replace('_', ' ')} ", _ENDS.get(ended.how, WARN)), (clock(ended.time_ns, 3), DIM)]
    return [] if member.present else [("unknown" if member.present is None else "never in it", WARN)]


def _assignment(member: ListedMember) -> Cell:
    """Return `orders:0,1 payments:2`, like Kafka's tools; for Streams the subtopologies: `0:0,1 standby 1:2`."""
    entries = [(assigned.topic or assigned.topic_id or "", assigned.partitions) for assigned in member.assignment or ()]
    entries += [
        (
            assigned.subtopology if assigned.role == "active" else f"{assigned.role} {assigned.subtopology}",
            assigned.partitions,
        )
        for assigned in member.tasks or ()
    ]
    parts = [f"{name}:{','.join(map(str, partitions))}" for name, partitions in entries if partitions]
    return safe(" ".join(parts)) if parts or member.assigned is None else [("none", DIM)]
