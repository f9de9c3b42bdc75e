"""All commands agree on the members of share groups: at the end, and at any time before."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from kshark.analysis import Analyzer
from kshark.analysis.states.tables.member import ABSENT
from kshark.capture import open_captures
from kshark.groups import Groups
from kshark.metrics import APIS, ShareCounting, listed
from kshark.model import Event
from kshark.names import TopicNames
from kshark.pipeline import Engine, Options
from tests.cli.command import Run
from tests.conversation import registry
from tests.groups.test_witness import KILLED
from tests.shared import CAPTURES, SHARED

#: Captures with share groups.
BUNDLED = [KILLED, *sorted(CAPTURES.glob("share-*.pcap")), *sorted(CAPTURES.glob("a*.pcap"))]
FIELD = sorted(SHARED.joinpath("captures", "field").glob("*share*.pcap"))
WALKS = sorted(SHARED.joinpath("captures", "walks").glob("*.pcap"))
#: Parts of a capture after which all are compared.
PARTS = 5

#: By group, and member id: in the group, not in it, or unknown.
Presence = dict[str, dict[str, bool | None]]


class Counting:
    """One capture, read by the three stages that know members."""

    def __init__(self) -> None:
        self.groups, self.analyzer = Groups(), Analyzer(sessions=True)
        self.names = TopicNames(registry())

    def feed(self, events: list[Event]) -> None:
        for event in events:
            self.groups.feed(event)
            self.analyzer.feed(event)

    def by_groups(self) -> Presence:
        return {
            group.group_id: {one.member_id: one.present for one in group.members}
            for group in self.groups.listed({})
            if group.type == "share"
        }


def by_metrics(events: list[Event]) -> Presence:
    names = TopicNames(registry())
    counting = ShareCounting(names)
    counting.page(events)
    return {
        group.group_id or "": {one.member_id or "": one.present for one in group.members}
        for group in listed(counting.close(), names.by_id).groups
    }


def by_rules(analyzer: Analyzer) -> Presence:
    """The members of which the rules know whether they are in their group."""
    presence: Presence = {}
    for (_, group_id, member_id), member in analyzer._members._members.items():
        if member.states is not None and group_id and member_id:
            inside = {state.epoch != ABSENT for state in member.states}
            presence.setdefault(group_id, {})[member_id] = inside.pop() if len(inside) == 1 else None
    return presence


def counts(presence: Presence) -> dict[str, Counter[bool | None]]:
    """The members in each group, and those that may be."""
    found = {group_id: Counter(members.values()) for group_id, members in presence.items()}
    return {
        group_id: Counter({is_in: count for is_in, count in of.items() if is_in is not False})
        for group_id, of in found.items()
        if of[True] or of[None]
    }


def events_of(path: Path) -> list[Event]:
    pages = Engine(Options(records=False, bodies=APIS, embedded=True), registry()).pages(open_captures([path]))
    return [event for page in pages for event in page]


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize("path", [*BUNDLED, *FIELD, *WALKS], ids=lambda path: path.name)
def test_members_are_the_same_for_groups_metrics_and_rules(path: Path) -> None:
    """At several times and at the end."""
    events, counting = events_of(path), Counting()
    for part in range(PARTS):
        since, until = (len(events) * at // PARTS for at in (part, part + 1))
        counting.feed(events[since:until])
        ours = counting.by_groups()
        assert counts(by_metrics(events[:until])) == counts(ours)
        for group_id, members in by_rules(counting.analyzer).items():
            for member_id, is_in in members.items():
                found = ours.get(group_id, {}).get(member_id)
                ended = _end_of(counting.groups, group_id, member_id)
                # Rules learn of a deleted group or an expired session only by the member's next heartbeat.
                if None not in (found, is_in) and ended not in ("expired", "deleted", "unknown"):
                    assert found == is_in, (group_id, member_id, ended)


def _end_of(groups: Groups, group_id: str, member_id: str) -> str | None:
    ends = [
        one.ended.how
        for group in groups.listed({})
        for one in group.members
        if (group.group_id, one.member_id) == (group_id, member_id) and one.ended is not None
    ]
    return ends[0] if ends else None


def _json(kshark: Run, *words: object) -> list[Any]:
    return kshark(*words, "-T", "json").json


@pytest.mark.parametrize("name", ["killed", "share-java-explicit", "share-restart"])
def test_members_are_the_same_in_every_output(kshark: Run, name: str, tmp_path: Path) -> None:
    path = KILLED if name == "killed" else CAPTURES / f"{name}.pcap"
    share = [group for group in _json(kshark, "groups", path) if group["type"] == "share"]
    ours = {group["group_id"]: {one["member_id"]: one for one in group["members"]} for group in share}
    (metrics,) = _json(kshark, "stats", "--share", path)
    assert {
        group["group_id"]: {one["member_id"]: one["present"] for one in group["members"]} for group in metrics["groups"]
    } == {group_id: {name: one["present"] for name, one in members.items()} for group_id, members in ours.items()}
    heads = dict(re.findall(r"^(\S+)  (\d+ members?, \d+ at the end)", kshark("stats", "--share", path).out, re.M))
    for group_id, members in ours.items():
        many = "1 member" if len(members) == 1 else f"{len(members)} members"
        assert heads[group_id] == f"{many}, {sum(one['present'] is True for one in members.values())} at the end"

    for session in _json(kshark, "sessions", path):
        member = ours[session["group_id"]][session["member_id"]]
        # A member that left has closed its sessions.
        if member["ended"] is not None and member["ended"]["how"] == "left":
            assert session["closed"]["how"] != "open"

    assert kshark("export", path, "-o", tmp_path / "tables").code == 0
    beats: dict[tuple[str, str], int] = {}
    for row in parquet.read_table(tmp_path / "tables" / "heartbeats").to_pylist():
        if row["group_type"] == "share" and row["error_code"] == 0:
            beats[row["group_id"], row["member_id"]] = row["member_epoch"]
    for group_id, members in ours.items():
        for member_id, one in members.items():
            how = None if one["ended"] is None else one["ended"]["how"]
            if (group_id, member_id) in beats:
                assert (beats[group_id, member_id] == -1) == (how == "left")

    kshark("report", path, "-o", tmp_path / "report")
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert {(one["group_id"], one["member_id"]) for one in report["members"]} <= {
        (group_id, member_id) for group_id, members in ours.items() for member_id in members
    }


@pytest.mark.parametrize("until", ["+12s", "+25s", "+29s", "+40s"])
def test_members_are_the_same_at_any_time(kshark: Run, until: str) -> None:
    """Before and after members were killed, and after the session timeout."""
    ours = {
        group["group_id"]: [one["present"] for one in group["members"]]
        for group in _json(kshark, "groups", KILLED, "--until", until)
        if group["type"] in ("share", None)
    }
    (metrics,) = _json(kshark, "stats", "--share", KILLED, "--until", until)
    assert {group["group_id"]: [one["present"] for one in group["members"]] for group in metrics["groups"]} == ours
    for group in _json(kshark, "groups", KILLED, "--until", until):
        present = sum(one["present"] is True for one in group["members"])
        assert (group["history"][-1]["members"] if group["history"] else 0) == present
