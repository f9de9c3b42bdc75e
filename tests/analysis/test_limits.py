"""What a limit of kshark gives up is nobody's fault: with tiny limits there are no other violations than with the usual
ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import pytest

from kshark import limits
from kshark.analysis import Analyzer
from kshark.model import Event
from kshark.pipeline import JUDGED, Engine
from kshark.registry import Registry
from tests.analysis.rules.promises import PROMISES, Promise
from tests.conversation import events
from tests.packets import Packet, batches
from tests.property.mangled import packets_of
from tests.shared import CAPTURES

#: Every limit of a table or a length that stages or rules keep, with a value that small captures exceed.
TINY: Final[dict[str, int]] = {
    "PAIRS": 1,
    "HEADERS": 3,
    "FRAGMENTS": 1,
    "FLOWS": 2,
    "SORTED_NS": 1,
    "SORTED_PACKETS": 1,
    "SORTED_BYTES": 1,
    "SILENCE_PACKETS": 1,
    "PROXY_HEADERS": 1,
    "PROXY_HELD_BYTES": 20,
    "PAUSES": 1,
    "CLOCK_DOUBTS": 1,
    "REMEMBERED_FLOWS": 1,
    "REORDER_BYTES": 1_000,
    "LATE_BYTES": 1_000,
    "REORDER_SEGMENTS": 1,
    "HELD_NS": 1,
    "REORDER_NS": 1,
    "TLS_KEYS": 1,
    "TLS_HELLO_BYTES": 100,
    "TLS_WAITING_BYTES": 500,
    "TLS_HELD_BYTES": 500,
    "TLS_EARLY_RECORDS": 1,
    "TLS_LOST_RECORDS": 1,
    "TLS_FIRST_RECORDS": 1,
    "TLS_TRIES": 2,
    "FRAME_BYTES": 400,
    "HEAD_BYTES": 20,
    "REQUEST_BYTES": 300,
    "ANSWER_BYTES": 300,
    "UNREAD_BYTES": 10,
    "UNFINISHED_BYTES": 200,
    "UNACKED_PACKETS": 1,
    "CUT_MESSAGE_BYTES": 50,
    "FRAME_PIECES": 1,
    "RECOGNITION_BYTES": 100,
    "HELD_BYTES": 100,
    "OPEN_BYTES": 1,
    "MANY_OPEN": 1,
    "IDS_APART": 1,
    "ACQUISITIONS": 1,
    "DECOMPRESSED_BYTES": 100,
    "PENDING_RECORD_BYTES": 1,
    "ANY_RECORD_BYTES": 10,
    "RECORD_BYTES_PER_BYTE": 1,
    "MESSAGE_RECORD_BYTES": 100,
    "ANY_RECORDS": 1,
    "MESSAGE_RECORDS": 2,
    "FAULTS_PER_BODY": 1,
    "WEIRDS_PER_FLOW": 1,
    "REFUSALS": 1,
    "SESSIONS": 1,
    "MEMBERS_OF_CONNECTION": 1,
    "WAITING_STEPS": 1,
    "WAITING_VERDICTS": 1,
    "OVERLAPPING_STEPS": 1,
    "SESSION_PARTITIONS": 1,
    "HELD_RANGES": 1,
    "CLUSTERS": 1,
    "SHARE_PARTITIONS": 1,
    "IN_FLIGHT_RANGES": 1,
    "RECORD_SPANS": 1,
    "LISTED_RANGES": 1,
    "DONE_RANGES": 1,
    "RATIONED": 1,
    "PENDING_VERDICTS": 1,
    "STORED_RANGES": 1,
    "SENDERS_OF_A_STATE": 1,
    "UNFINISHED_OPERATIONS": 1,
    "HOLES": 2,
    "LOSSY_HOSTS": 1,
    "RESTARTS_PER_BROKER": 1,
    "CLIENT_IDS": 1,
    "REPEATED_ANSWERS": 1,
    "REPEATED_BYTES": 1,
    "TOPICS": 1,
    "BROKERS": 1,
    "BOUNDARY_CANDIDATES": 1,
    "SEARCHED_PIECES": 1,
    "SEARCH_BYTES": 200,
    "SEARCH_PIECES": 4,
    "CLOSED_FLOWS": 1,
    "CLOSED_FLOWS_PER_PAIR": 1,
    "ENDED_UNANSWERED": 0,
}
#: Limits of files and outputs, which no rule reads; sizes of buffers and costs.
ELSEWHERE: Final = frozenset(
    {
        "BATCH_BYTES", "BATCH_PACKETS", "PACKET_BYTES", "BLOCK_BYTES", "INTERFACES", "NUMBERING_RUNS", "CLOCKS_NS",
        "FRAGMENT_BYTES", "FRAGMENT_NS", "PACKET_KINDS", "MEASURED_FLOWS", "MEASURED_HOLES", "MEASURED_SEGMENTS",
        "LATE_SEGMENT_BYTES", "TLS_SECRETS_BYTES", "OPEN_REQUEST_BYTES", "RECORDS_PER_BYTE", "TELEMETRY_BYTES",
        "TELEMETRY_VALUES", "STRUCTURES_PER_MESSAGE", "NESTING", "UNNAMED", "STATISTICS_ROWS", "GROUPS",
        "GROUP_MEMBERS", "GROUP_CHANGES", "REPORT_FINDINGS", "REPORT_CLIENTS", "REPORT_MEMBERS", "REPORT_CELLS",
        "REPORT_TICKS", "LISTED_SESSIONS", "SILENCE_NS", "STOPPED_PACKETS", "LIVE_CAUSES", "DROPPED_PACKETS",
        "ACCEPTING_ADDRESSES", "BEYOND_NS", "BREAKDOWN_CELLS", "BREAKDOWN_ROWS", "BROKER_ENDS",
        "CHECKING_HOSTS", "CLOSINGS", "CONNECTIONS_OF_MEMBER", "HEARD_SECONDS", "INCIDENTS", "LOST_CONNECTIONS",
        "LOST_PATHS", "OUTAGE_NS", "OVERDUE_NS", "OVERDUE_WAITING_NS", "QUIET_NS", "QUIET_TIMES",
        "RETRIED_PLACES", "RETRYING", "SERVED_CLIENTS", "SILENT_NS", "TIMED_PACKETS", "TIMELINE_ENTRIES",
        "TLS_FAILURES", "TOPICS_OF_CONNECTION", "UNACKED_NS", "USUAL_TIMES", "WINDOW_CLOSED_NS", "EXCUSED_NS",
        "EXCUSED_EACH_TICK", "LASTING", "SCREEN_MEMBERS", "SCREEN_CAUSES", "SNAP_LENGTH", "SPOOL_BYTES",
        "LOG_LINE_BYTES", "LOGGED_NS", "LOGGED_BYTES", "LOGGED_IDS", "LOGGED_ORDER_NS", "STORED_WRITES",
        "TRANSACTIONS", "TRANSACTIONAL_PARTITIONS", "PRODUCERS", "HASHED_KEYS",
    }
)  # fmt: skip
REGISTRY: Final = Registry()
SHARING: Final = [
    CAPTURES / f"{name}.pcap"
    for name in ("share-java-explicit-4.1.2", "share-leaders", "share-restart", "security-sasl", "adv-acks")
]
#: Packets of a capture that are read.
MOST: Final = 3_000


def test_every_limit_is_here() -> None:
    assert TINY.keys() | ELSEWHERE == {name for name in vars(limits) if name.isupper()}
    assert not TINY.keys() & ELSEWHERE


def accused(events: Iterable[Event]) -> set[tuple[str, int]]:
    analyzer = Analyzer()
    found = [*analyzer.page(events), *analyzer.close()]
    return {(it.code, it.packet) for it in found if it.verdict == "violation"}


def read(packets: list[Packet]) -> Iterator[Event]:
    for page in Engine(JUDGED, REGISTRY).pages(batches(packets, [20] * (len(packets) // 20))):
        yield from page


@cache
def usual(promise: Promise) -> set[tuple[str, int]]:
    return accused(events(promise()[0]))


def accused_for(name: str, promises: Iterable[Promise], monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The violations that a tiny limit adds, by conversation."""
    expected = {promise: usual(promise) for promise in promises}
    monkeypatch.setattr(limits, name, TINY[name])
    return {it.__name__: new for it, known in expected.items() if (new := accused(events(it()[0])) - known)}


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize("name", TINY)
def test_few_conversations_of_the_rules_are_not_accused_for_a_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each limit has others."""
    assert accused_for(name, Random(name).sample([*PROMISES], len(PROMISES) // 5), monkeypatch) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_no_conversation_of_the_rules_is_accused_for_a_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of each row, on both of its sides."""
    assert accused_for(name, PROMISES, monkeypatch) == {}


@cache
def read_of(path: Path) -> tuple[list[Packet], set[tuple[str, int]]]:
    """The packets of a capture, and its violations with the usual limits."""
    packets = packets_of(path)[:MOST]
    return packets, accused(read(packets))


@pytest.mark.sweep(quick=4)
@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param(name, path, marks=() if path in quick else pytest.mark.slow, id=f"{name}-{path.stem}")
        for name in TINY
        for quick in [Random(name).sample(SHARING, 1)]
        for path in SHARING
    ],
)
def test_no_capture_is_accused_for_a_limit(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packets, expected = read_of(path)
    monkeypatch.setattr(limits, name, TINY[name])
    assert accused(read(packets)) <= expected
