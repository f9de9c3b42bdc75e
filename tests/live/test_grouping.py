"""A broken client repeats itself: people read its finding once, and then how often, now and then."""

from __future__ import annotations

from typing import Any

import pytest

from kshark import limits
from kshark.live.grouping import Grouping, short_line
from kshark.model import Finding
from kshark.output.spans import plain
from kshark.units import clock
from tests.output.test_findings import finding

START_NS = 1_795_231_172_000_000_000


class Watch:
    """A grouping with a watch: what it prints at which second."""

    def __init__(self) -> None:
        self.grouping = Grouping()
        self.printed: list[tuple[float, str]] = []
        self.ms = 0
        self.tick()

    def tick(self, seconds: float = 0.0) -> None:
        self.ms += round(1_000 * seconds)
        self._print(self.grouping.due(self._ns))

    def finds(self, **changed: Any) -> None:
        found: Finding = finding(time_ns=self._ns, **changed)
        form = self.grouping.add(found)
        if form is not None:
            self.printed.append((self.seconds, form))

    def end(self) -> list[tuple[float, str]]:
        self._print(self.grouping.rest())
        return self.printed

    @property
    def seconds(self) -> float:
        return self.ms / 1_000

    @property
    def _ns(self) -> int:
        return START_NS + self.ms * 1_000_000

    def _print(self, lines: Any) -> None:
        self.printed += [(self.seconds, plain(line)) for line in lines]


def test_one_bad_member_is_one_block_and_a_count_every_five_seconds() -> None:
    """400 packets a second: 200 refusals a second."""
    watch = Watch()
    for _ in range(12 * 200):
        watch.finds()
        watch.tick(0.005)
    printed = watch.end()
    assert [form for _, form in printed[:1]] == ["block"]
    assert [text for _, text in printed[1:]] == [
        f"{clock(START_NS + at, 3)}  EPOCH_SKIP_AHEAD ×{count}  violation by client billing-3 · skip_after_timeout · "
        f"group billing, member JUkzTnp0Qm6-aaaaaaaaaa, since {clock(START_NS, 3)} ({more} more)"
        for at, count, more in (
            (4_995_000_000, "1,000", "999"),
            (9_995_000_000, "2,000", "1,000"),
            (11_995_000_000, "2,400", "400"),
        )
    ]
    assert [round(seconds, 2) for seconds, _ in printed] == [0, 5, 10, 12]


def test_a_single_finding_has_no_count() -> None:
    watch = Watch()
    watch.finds()
    watch.tick(60)
    assert watch.end() == [(0, "block")]


def test_the_next_member_with_the_same_cause_is_one_line() -> None:
    watch = Watch()
    watch.finds()
    watch.finds(member_id="second", client_id="billing-4")
    watch.finds(cause="replay")
    watch.finds(verdict="unknown", blame="unknown", unknown_because="gap")
    assert [form for _, form in watch.end()] == ["block", "line", "block", "block"]


def test_a_line_says_whom_and_what() -> None:
    assert plain(short_line(finding(argument="used 6, 5 was due"))) == (
        f"{clock(finding().time_ns, 3)}  EPOCH_SKIP_AHEAD  violation by client billing-3 · skip_after_timeout · "
        "group billing, member JUkzTnp0Qm6-aaaaaaaaaa: used 6, 5 was due"
    )
    assert "client 10.0.4.17:51234: \\x1b" in plain(
        short_line(
            finding(verdict="note", cause=None, client_id=None, group_id=None, member_id=None, argument="\x1b[2J")
        )
    )


def test_members_without_number_are_counted_together() -> None:
    """A client that takes a new member id for each request."""
    watch = Watch()
    for number in range(4_000):
        watch.finds(member_id=f"m{number}", client_id=f"c{number}")
        watch.tick(0.005)
    printed = watch.end()
    assert len(printed) <= 4 * (5 + 1) + 2
    assert [form for _, form in printed[:6]] == ["block", *["line"] * 4, printed[5][1]]
    counts = [text for _, text in printed if "other members" in text]
    assert counts[0].startswith(f"{clock(START_NS + 4_995_000_000, 3)}  EPOCH_SKIP_AHEAD ×995")
    assert "violation · skip_after_timeout · other members, since" in counts[0]


def test_many_bad_members_are_one_count() -> None:
    """After a restart of a broker all members repeat themselves."""
    watch = Watch()
    for number in range(8_000):
        watch.finds(member_id=f"m{number % 40}", client_id=f"c{number % 40}")
        watch.tick(0.005)
    watch.end()
    assert len(watch.printed) <= 40 * 2
    last = watch.printed[-1][1]
    assert last.startswith(f"{clock(START_NS + 39_995_000_000, 3)}  EPOCH_SKIP_AHEAD ×8,")
    assert " violation · skip_after_timeout · " in last
    assert "40 members and others: c" in last or "40 members: c" in last


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIVE_CAUSES", 20)
    watch = Watch()
    for number in range(1_000):
        watch.finds(member_id=f"m{number}")
        watch.tick(1)
    assert len(watch.grouping._groups) == 21
    assert sum(form == "line" for _, form in watch.printed) == 19
    assert any("×" in text and "other members" in text for _, text in watch.printed)


def test_a_clock_that_is_set_back_stops_no_count() -> None:
    watch = Watch()
    watch.finds()
    watch.tick(1)
    watch.finds()
    watch.tick(-3_600)
    assert "×2" in watch.printed[-1][1]
    watch.finds()
    watch.tick(5)
    assert "×3" in watch.printed[-1][1]


def test_the_broker_is_named_if_it_is_to_blame() -> None:
    watch = Watch()
    for broker in ("10.0.1.5:9092", "10.0.1.6:9092"):
        for _ in range(2):
            watch.finds(blame="broker", broker=broker)
    first, second = (text for _, text in watch.end() if "×" in text)
    assert "broker 10.0.1.5:9092" in first
    assert "broker 10.0.1.6:9092" in second
