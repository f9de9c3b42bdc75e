"""Share sessions and their requests in the tables: as `kshark sessions` lists them, joined to the rest, every refusal
with its cause."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kshark.analysis import Analyzer, PackedSessions, ShareSession
from kshark.face import analysed, pages
from kshark.pipeline import Options
from tests.shared import CAPTURES, shared
from tests.tables.test_tables import Tables, key, tables

SHARING = [
    "adv-epochs.pcap",
    "adv-sessions-4.2.1.pcap",
    "adv-races-4.1.2.pcap",
    "share-restart.pcap",
    "share-loss.pcap",
    "java-limit.pcap",
]
WALKS = ["aimed.pcap", "aimed-4.1.2.pcap", "walk-412-1.pcap", "walk-wild-1.pcap"]


def judged(capture: Path) -> Tables:
    """The rows of a capture, with all that the analysis tells."""
    told = analysed(pages((capture,), Options(records=False)))
    return tables(event for page in told for events in page for event in events)


def listed(capture: Path) -> list[ShareSession]:
    """What `kshark sessions -V -T json` tells."""
    analyzer = Analyzer(sessions=True, steps=True)
    for page in pages((capture,), Options(records=False)):
        analyzer.page(page)
    analyzer.close()
    return [*PackedSessions(analyzer.listed())]


def moment(packet: int | None, time_ns: int | None, **more: Any) -> dict[str, Any] | None:
    return None if packet is None else {"packet": packet, "time_ns": time_ns, **more}


def session_of(row: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
    """A row of `sessions`, and those of its `steps`, as the JSON line."""
    same = (
        "broker",
        "group_id",
        "member_id",
        "session",
        "first_epoch",
        "last_epoch",
        "requests",
        "accepted",
        "connections",
    )
    return {
        **{name: row[name] for name in same},
        "opened": moment(row["opened_packet"], row["opened_ts_ns"]),
        "closed": moment(row["closed_packet"], row["closed_ts_ns"], how=row["ended"]),
        "rejected": {str(code): times for code, times in row["rejected"]},
        "steps": [step_of(step) for step in steps],
    }


def step_of(row: dict[str, Any]) -> dict[str, Any]:
    expected = row["expected"]
    same = ("packet", "api", "epoch", "error_code", "outcome", "cause")
    return {
        **{name: row[name] for name in same},
        "expected": expected[0] if expected and len(expected) == 1 else expected,
    }


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("name", SHARING)
def test_they_are_those_of_kshark_sessions(name: str) -> None:
    found = judged(CAPTURES / name)
    steps: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in found["steps"]:
        steps.setdefault((row["session_key"], row["session"]), []).append(row)
    rows = sorted(found["sessions"], key=lambda row: row["packet"])
    told = [session_of(row, steps.pop((row["session_key"], row["session"]))) for row in rows]
    assert told == msgspec.to_builtins(listed(CAPTURES / name))
    assert {session for _, session in steps} <= {None}


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize("name", SHARING)
def test_every_share_request_is_a_step_and_stands_where_it_does(name: str) -> None:
    found = judged(CAPTURES / name)
    same = (
        "flow_id",
        "exchange",
        "correlation_id",
        "broker",
        "client",
        "ts_ns",
        "api",
        "group_id",
        "member_id",
        "epoch",
        "error_code",
    )
    steps = Counter(tuple(row[column] for column in same) for row in found["steps"])
    assert steps == Counter(
        tuple(row[column] for column in same) for row in found["share_requests"] if row["epoch"] is not None
    )
    firsts = Counter((*key(row), row["client"]) for row in found["share_requests"])
    assert {firsts[*key(row), row["client"]] for row in found["sessions"]} == {1}


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("name", WALKS)
def test_every_refusal_has_the_cause_of_its_finding(name: str) -> None:
    """One more than the last accepted epoch, which anybody would expect at first, explains four in five of them."""
    found = judged(shared("captures", "walks", name))
    causes = Counter((*key(row), row["cause"]) for row in found["findings"])
    refused = [row for row in found["steps"] if row["error_code"] in (122, 123)]
    assert refused
    assert {causes[*key(row), row["cause"]] for row in refused} == {1}
    assert {row["cause"] for row in found["steps"] if row["error_code"] not in (122, 123)} == {None}
    assert naively_explained(found) < len(refused)


def naively_explained(found: Tables) -> int:
    """Refusals that the last accepted epoch plus one tells."""
    due: dict[tuple[Any, ...], int | None] = {}
    explained = 0
    for row in sorted(found["share_requests"], key=lambda row: row["packet"]):
        session = row["broker"], row["group_id"], row["member_id"]
        match row["error_code"]:
            case 0:
                due[session] = None if row["epoch"] == -1 else row["epoch"] + 1
            case 122:
                explained += due.get(session) is None
            case 123:
                explained += due.get(session) not in (None, row["epoch"])
    return explained


def test_a_session_is_listed_when_it_is_over_and_once() -> None:
    """The first sessions of three members ended with their broker; the member that came last has one that goes on."""
    analyzer = Analyzer(sessions=True)
    for page in pages((CAPTURES / "share-restart.pcap",), Options(records=False)):
        analyzer.page(page)
    over, again = [*PackedSessions(analyzer.listed())], analyzer.listed()
    analyzer.close()
    last = [*PackedSessions(analyzer.listed())]
    assert again == []
    assert (len(over), len(last)) == (5, 3)
    assert {session.closed.how for session in over if session.closed is not None} == {"broker_restart"}


def test_of_a_check_nothing_is_listed() -> None:
    analyzer = Analyzer()
    for page in pages((CAPTURES / "share-restart.pcap",), Options(records=False)):
        analyzer.page(page)
    analyzer.close()
    assert analyzer.listed() == []
    assert analyzer.summary()["sessions"] == 8
