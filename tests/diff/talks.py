"""Conversations before and after a change, and their comparison."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from kshark.capture import open_captures
from kshark.diff import Comparison, Counting, Difference, Profile, compare
from kshark.headlines import capture_headlines
from kshark.model import Event
from kshark.output.findings import FindingCounts
from kshark.pipeline import JUDGED, Engine
from kshark.run import Run
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation, Thinned, events, registry
from tests.thinning import Mask, Whole, pages_of


def consumers(
    rounds: int = 60,
    *,
    skips: Collection[int] = (),
    slow: Collection[int] = (),
    slow_s: float = 0.05,
    throttled: Collection[int] = (),
    release: str = "4.2",
    version: str = "2.10.0",
    fetch_version: int = 1,
) -> Conversation:
    """One client that opens a share session in each round, uses it and closes it.

    `skips`: rounds in which it skips an epoch, is refused, and opens a new session. `slow`: rounds in which the broker
    takes `slow_s` longer to answer an acknowledgement. `throttled`: rounds in which the broker throttles it.
    """
    talk = Conversation(release=release)
    connection = talk.connection(introduced=False)
    connection.api_versions(release, "librdkafka", version)
    for number in range(rounds):
        member = talk.member(f"m{number}", connection=connection)
        member.share_fetch(0, version=fetch_version).answered()
        asked = member.share_acknowledge(1)
        if number in slow:
            talk.pause(slow_s)
        asked.answered(throttle_time_ms=20 if number in throttled else 0)
        talk.pause(0.05)
        if number in skips:
            member.share_fetch(5, version=fetch_version).answered(INVALID_SHARE_SESSION_EPOCH)
            member.share_fetch(0, version=fetch_version).answered()
        member.share_acknowledge(-1).answered()
    connection.close()
    return talk


def every(rounds: int, step: int) -> range:
    """Every so many of the rounds."""
    return range(1, rounds, step)


def profile_of(talk: Conversation | Thinned, name: str = "talk") -> Profile:
    return _profile([events(talk, JUDGED)], name)


def profile_of_capture(path: Path) -> Profile:
    return _profile(Engine(JUDGED, registry()).pages(open_captures([path])), path.name)


def profile_of_part(whole: Whole, keep: Mask, name: str) -> Profile:
    return _profile(pages_of(whole.thinned(keep), JUDGED), name)


def _profile(pages: Iterable[list[Event]], name: str) -> Profile:
    run, counting, counts = Run(registry(), coverage=True), Counting(registry(), name), FindingCounts()
    for page in pages:
        run.page(page)
        counting.page(page)
    run.close()
    for finding in run.findings:
        counts.add(finding)
        counting.finding(finding)
    remarks = [headline.text for headline in capture_headlines(run.observed, counts)]
    return counting.close(run.observed, run.observed.rules(), remarks)


def compared(before: Profile, after: Profile, threshold: float = 2.0) -> Comparison:
    return compare(before, after, registry(), threshold)


def rows(before: Conversation, after: Conversation, threshold: float = 2.0) -> dict[str, Difference]:
    """The rows of two conversations by kind and name, as in `finding EPOCH_SKIP_AHEAD by librdkafka`."""
    found = compared(profile_of(before), profile_of(after), threshold).rows
    assert len({(row.kind, row.name) for row in found}) == len(found)
    return {f"{row.kind} {row.name}": row for row in found}


@cache
def healthy() -> Conversation:
    """The client of `consumers` without a fault."""
    return consumers()
