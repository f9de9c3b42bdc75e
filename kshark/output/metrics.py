"""`kshark stats --share` for a person: who gets nothing and why, then the metrics of each group, its members and its
partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kshark.metrics import METRICS, ListedGroup, ListedMember, ListedMetrics, ListedPartition, Metric
from kshark.output.spans import API, CODE, DIM, LABEL, PLAIN, VALUE, WARN, Line, Span, folded
from kshark.output.text_table import Cell, Column, table
from kshark.output.units import counted, duration, moment, number, safe, shortened, size

#: Columns of a table whose width is not limited, and characters of their titles.
_COLUMNS: Final = 12
_LONGEST: Final = 14
#: Metrics that are worth a look where they are not 0.
_WORRIES: Final = frozenset(
    {
        "fetches-failed",
        "fetches-unanswered",
        "records-redelivered",
        "acknowledgements-error-total",
        "acknowledgements-refused",
        "acknowledgement-requests-failed",
        "lock-timeouts",
        "session-releases",
        "session-evictions",
    }
)

Values = Mapping[str, float | int | None]


def metric_lines(found: ListedMetrics, width: int | None) -> Iterator[Line]:
    """A head of one line, then each group."""
    if not found.groups or found.first_time_ns is None or found.last_time_ns is None:
        yield [("no share group is in the capture", WARN)]
        return
    lasted = duration(found.last_time_ns - found.first_time_ns)
    yield [(f"{moment(found.first_time_ns)} UTC, {lasted} · {counted(len(found.groups), 'share group')}", PLAIN)]
    several = len({group.cluster_id for group in found.groups}) > 1
    for group in found.groups:
        yield []
        yield from _group(group, width, several)
    yield []
    yield [("kshark explain metrics says where each comes from; -T json has rates, too", DIM)]


def _group(group: ListedGroup, width: int | None, clusters: bool) -> Iterator[Line]:
    named = sorted(zip(_names(group.members), group.members, strict=True), key=lambda one: _rank(one[1]))
    cluster = f"cluster {safe(group.cluster_id or 'unknown')} · " if clusters else ""
    title: Span = ("null" if group.group_id is None else safe(group.group_id), API)
    yield from folded([title, (f"  {cluster}{_head(group)}", DIM)], width, 2)
    for name, member in named:
        if member.trouble is not None:
            yield from folded([("  ", PLAIN), (name, CODE), (f" {safe(member.trouble)}", WARN)], width, 4)
    shown = {metric.name for metric in METRICS["member"]}
    yield from _table(
        "group", "group", [("", {name: one for name, one in group.metrics.items() if name not in shown})], width
    )
    together = [("all", group.members_metrics)] if len(named) > 1 else []
    yield from _table("members", "member", [*together, *((name, one.metrics) for name, one in named)], width)
    yield from _table(
        "share partitions", "share partition", [(_partition(one), one.metrics) for one in group.partitions], width
    )


def _rank(member: ListedMember) -> tuple[bool, bool]:
    """Whoever got nothing, then whoever is in other trouble, then the others."""
    return member.trouble is None, member.last_records_ns is not None


def _head(group: ListedGroup) -> str:
    present, sessions = sum(member.present for member in group.members), Counter[str]()
    for member in group.members:
        sessions.update(member.sessions)
    told = [
        f"{counted(len(group.members), 'member')}, {number(present)} at the end",
        counted(int(group.metrics["num-partitions"] or 0), "share partition"),
    ]
    if sessions:
        told.append(f"sessions: {', '.join(f'{number(count)} {how}' for how, count in sessions.most_common())}")
    return " · ".join(told)


def _names(members: Sequence[ListedMember]) -> list[str]:
    """By client id, with the beginning of the member id where several have the same."""
    clients = Counter(member.client_id for member in members)
    return [
        shortened(member.member_id or "null", _LONGEST)
        if not member.client_id
        else shortened(member.client_id, _LONGEST)
        if clients[member.client_id] == 1
        else f"{shortened(member.client_id, _LONGEST - 5)} {shortened(member.member_id or 'null', 4)}"
        for member in members
    ]


def _partition(one: ListedPartition) -> str:
    return f"{shortened(one.topic or one.topic_id, _LONGEST - 5)}[{one.partition}]"


def _table(title: str, of: str, columns: Sequence[tuple[str, Values]], width: int | None) -> Iterator[Line]:
    """Metrics below each other, things side by side, as many as there is room for.

    Left out are metrics that no thing has, and those that another one shows already.
    """
    shown = [
        one
        for one in METRICS[of]
        if one.value is not None and not one.same_as and any(values.get(one.name) for _, values in columns)
    ]
    if not shown:
        return
    texts = {metric.name: [_shown(metric, values.get(metric.name)) for _, values in columns] for metric in shown}
    widths = [
        max(len(name), *(len(texts[metric.name][at]) for metric in shown)) for at, (name, _) in enumerate(columns)
    ]
    room = _fitting(widths, max(len(_title(metric)) for metric in shown), width)
    yield []
    rows: list[list[Cell]] = []
    for metric in shown:
        style = WARN if metric.name in _WORRIES else VALUE
        values: list[Cell] = [[(text, DIM if text == "0" else style)] for text in texts[metric.name][:room]]
        rows.append([[(_title(metric), LABEL)], *values])
    yield from table([Column(title), *(Column(name, right=True) for name, _ in columns[:room])], rows, width, indent=2)
    if room < len(columns):
        yield [(f"  {counted(len(columns) - room, of)} more: -T json", DIM)]


def _fitting(columns: Sequence[int], names: int, width: int | None) -> int:
    """How many columns have room beside the metrics' names; at least one."""
    if width is None:
        return min(len(columns), _COLUMNS)
    left, fitting = width - 2 - names, 0
    for each in columns:
        left -= each + 2
        fitting += left >= 0
    return max(1, fitting)


def _title(metric: Metric[Any]) -> str:
    return f"{metric.name}  ms" if metric.unit == "ms" else metric.name


def _shown(metric: Metric[Any], value: float | int | None) -> str:
    if value is None:
        return ""
    if metric.unit == "bytes":
        return size(round(value))
    return number(value) if isinstance(value, int) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
