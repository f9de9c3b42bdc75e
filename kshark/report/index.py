"""The findings of the page by number, and the links between clients, findings and sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from kshark import limits
from kshark.endpoints import host_of
from kshark.model import Finding
from kshark.report.collected import Caller, GroupName, Member
from kshark.report.facts import FindingKind, MemberLine, Report, ShownFinding, Verdicts


class Row(NamedTuple):
    """A finding of the page. `client`, `group`, `member`: numbers of their entries, None without one."""

    number: int
    shown: ShownFinding
    client: int | None
    group: int | None
    member: int | None

    @property
    def finding(self) -> Finding:
        return self.shown.finding


class Entry(NamedTuple):
    """A client, group or member: its rows by the code of their findings, and the members that it has."""

    number: int
    rows: dict[str, list[Row]]
    members: list[int]

    @property
    def total(self) -> int:
        return sum(map(len, self.rows.values()))


class Index(NamedTuple):
    """The rows of each kind, in the order of the report, and the entries of each client, group and drawn member."""

    rows: list[list[Row]]
    clients: list[tuple[Verdicts, Entry]]
    groups: list[tuple[Verdicts, Entry]]
    members: list[Entry]


def index_of(report: Report, members: Sequence[MemberLine]) -> Index:
    """Number the findings of a report. `members`: those that the page draws."""
    clients = report.clients_in_findings[: limits.REPORT_CLIENTS]
    groups = report.groups_in_findings[: limits.REPORT_CLIENTS]
    of_client = {
        Caller(one.name, one.software or "", one.address or "", one.cluster or ""): number
        for number, one in enumerate(clients, 1)
    }
    of_group = {GroupName(group.cluster or "", group.name): number for number, group in enumerate(groups, 1)}
    of_member = {
        Member(line.capture, line.broker, line.group_id, line.member_id): number
        for number, line in enumerate(members, 1)
    }
    numbers = count(1)
    rows = [
        [_row(next(numbers), shown, of_client, of_group, of_member) for shown in kind.shown] for kind in report.findings
    ]
    every = [row for of_kind in rows for row in of_kind]
    return Index(
        rows,
        [*zip(clients, _entries(len(clients), ((row.client, row) for row in every)), strict=True)],
        [*zip(groups, _entries(len(groups), ((row.group, row) for row in every)), strict=True)],
        _entries(len(members), ((row.member, row) for row in every)),
    )


def _row(
    number: int,
    shown: ShownFinding,
    clients: dict[Caller, int],
    groups: dict[GroupName, int],
    members: dict[Member, int],
) -> Row:
    finding = shown.finding
    cluster = shown.cluster or ""
    caller = Caller(finding.client_id or "", finding.software or "", host_of(finding.client), cluster)
    member = Member(shown.capture, finding.broker, finding.group_id or "", finding.member_id or "")
    has_client = bool(finding.client or finding.client_id)
    return Row(
        number,
        shown,
        clients.get(caller) if has_client else None,
        groups.get(GroupName(cluster, finding.group_id)) if finding.group_id is not None else None,
        members.get(member),
    )


def _entries(total: int, rows: Iterable[tuple[int | None, Row]]) -> list[Entry]:
    entries = [Entry(number, {}, []) for number in range(1, total + 1)]
    for number, row in rows:
        if number is None:
            continue
        entry = entries[number - 1]
        entry.rows.setdefault(row.finding.code, []).append(row)
        if row.member is not None and row.member not in entry.members:
            entry.members.append(row.member)
    return entries


def codes_of(kinds: Iterable[FindingKind]) -> list[str]:
    """Return the codes of findings, sorted."""
    return sorted({kind.code for kind in kinds})


def anchors_of(kinds: Iterable[FindingKind]) -> list[str | None]:
    """Return the anchor of each kind: its code, for the first one with that code."""
    codes = [kind.code for kind in kinds]
    return [code if code not in codes[:index] else None for index, code in enumerate(codes)]
