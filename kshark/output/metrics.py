"""`kshark stats --share` as text: members without records and why, then metrics of groups, members and partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kshark.metrics import METRICS, ListedGroup, ListedMember, ListedMetrics, ListedPartition, Metric
from kshark.output.spans import API, CODE, DIM, LABEL, PLAIN, VALUE, WARN, Line, Span, folded
from kshark.output.text_table import Cell, Column, table
from kshark.units import counted, duration, moment, number, safe, shortened, size

#: Most columns of a table without a width limit, and most characters of their titles.
_COLUMNS: Final = 12
_LONGEST: Final = 14
#: Metrics that are highlighted if they are not 0.
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


def metric_lines(metrics: ListedMetrics, width: int | None) -> Iterator[Line]:
    """Return a head of one line, then each group."""
    if not metrics.groups or metrics.first_time_ns is None or metrics.last_time_ns is None:
        yield [("the capture has no share group", WARN)]
        return
    lasted = duration(metrics.last_time_ns - metrics.first_time_ns)
    yield [(f"{moment(metrics.first_time_ns)} UTC, {lasted} · {counted(len(metrics.groups), 'share group')}", PLAIN)]
    several = len({group.cluster_id for group in metrics.groups}) > 1
    for group in metrics.groups:
        yield []
        yield from _group(group, width, several)
    yield []
    yield [("kshark explain metrics describes each metric; -T json also has rates", DIM)]


def _group(group: ListedGroup, width: int | None, clusters: bool) -> Iterator[Line]:
    named = sorted(zip(_names(group.members), group.members, strict=True), key=lambda pair: _rank(pair[1]))
    cluster = f"cluster {safe(group.cluster_id or 'unknown')} · " if clusters else ""
    title: Span = ("null" if group.group_id is None else safe(group.group_id), API)
    yield from folded([title, (f"  {cluster}{_head(group)}", DIM)], width, 2)
    if group.begins is not None:
        yield from folded([("  ", PLAIN), (group.begins, WARN)], width, 4)
    if group.waits is not None:
        yield from folded([("  ", PLAIN), (safe(group.waits), WARN)], width, 4)
    for name, member in named:
        if member.trouble is not None:
            yield from folded([("  ", PLAIN), (name, CODE), (f" {safe(member.trouble)}", WARN)], width, 4)
    shown = {metric.name for metric in METRICS["member"]}
    yield from _table(
        "group", "group", [("", {name: value for name, value in group.metrics.items() if name not in shown})], width
    )
    together = [("all", group.members_metrics)] if len(named) > 1 else []
    yield from _table("members", "member", [*together, *((name, member.metrics) for name, member in named)], width)
    yield from _table(
        "share partitions",
        "share partition",
        [(_partition(partition), partition.metrics) for partition in group.partitions],
        width,
    )


def _rank(member: ListedMember) -> tuple[bool, bool]:
    """Return the sort key: members without records first, then members with other trouble."""
    return member.trouble is None, member.last_records_ns is not None


def _head(group: ListedGroup) -> str:
    present, sessions = Counter(member.present for member in group.members), Counter[str]()
    for member in group.members:
        sessions.update(member.sessions)
    unknown = f", {number(present[None])} unknown" if present[None] else ""
    parts = [
        f"{counted(len(group.members), 'member')}, {number(present[True])} at the end{unknown}",
        counted(int(group.metrics["num-partitions"] or 0), "share partition"),
    ]
    if sessions:
        parts.append(f"sessions: {', '.join(f'{number(count)} {how}' for how, count in sessions.most_common())}")
    return " · ".join(parts)


def _names(members: Sequence[ListedMember]) -> list[str]:
    """Return the client ids, with the start of the member id if several members share one."""
    clients = Counter(member.client_id for member in members)
    return [
        shortened(member.member_id or "null", _LONGEST)
        if not member.client_id
        else shortened(member.client_id, _LONGEST)
        if clients[member.client_id] == 1
        else f"{shortened(member.client_id, _LONGEST - 5)} {shortened(member.member_id or 'null', 4)}"
        for member in members
    ]


def _partition(partition: ListedPartition) -> str:
    return f"{shortened(partition.topic or partition.topic_id, _LONGEST - 5)}[{partition.partition}]"


def _table(title: str, of: str, columns: Sequence[tuple[str, Values]], width: int | None) -> Iterator[Line]:
    """Return metrics as rows and things as columns, as many as fit.

    Omits metrics without a value, and metrics with the same content as another one.
    """
    shown = [
        metric
        for metric in METRICS[of]
        if metric.value is not None and not metric.same_as and any(values.get(metric.name) for _, values in columns)
    ]
    if not shown:
        return
    texts = {metric.name: [_shown(metric, values.get(metric.name)) for _, values in columns] for metric in shown}
    widths = [
        max(len(name), *(len(texts[metric.name][index]) for metric in shown)) for index, (name, _) in enumerate(columns)
    ]
    fitting = _fitting(widths, max(len(_title(metric)) for metric in shown), width)
    yield []
    rows: list[list[Cell]] = []
    for metric in shown:
        style = WARN if metric.name in _WORRIES else VALUE
        values: list[Cell] = [[(text, DIM if text == "0" else style)] for text in texts[metric.name][:fitting]]
        rows.append([[(_title(metric), LABEL)], *values])
    yield from table(
        [Column(title), *(Column(name, right=True) for name, _ in columns[:fitting])], rows, width, indent=2
    )
    if fitting < len(columns):
        yield [(f"  {counted(len(columns) - fitting, of)} more: -T json", DIM)]


def _fitting(columns: Sequence[int], names: int, width: int | None) -> int:
    """Return the number of columns that fit beside the metrics' names; at least one."""
    if width is None:
        return min(len(columns), _COLUMNS)
    left_over, fitting = width - 2 - names, 0
    for column in columns:
        left_over -= column + 2
        fitting += left_over >= 0
    return max(1, fitting)


def _title(metric: Metric[Any]) -> str:
    return f"{metric.name}  ms" if metric.unit == "ms" else metric.name


def _shown(metric: Metric[Any], value: float | int | None) -> str:
    if value is None:
        return ""
    if metric.unit == "bytes":
        return size(round(value))
    return number(value) if isinstance(value, int) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
