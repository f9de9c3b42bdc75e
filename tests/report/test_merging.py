"""However captures are shared out, the parts joined are the whole: to the byte."""

from __future__ import annotations

import pickle
import random
from functools import cache, reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark import limits
from kshark.report.collected import Collected
from kshark.report.facts import to_json
from kshark.report.mergeable import Bins, Counts, Firsts, Sample
from kshark.report.summing import Origin, summed
from tests.report.made import REGISTRY, collected, seen
from tests.shared import CAPTURES

#: Share sessions, refusals, odd frames, a restart.
NAMES = ("adv-epochs", "adv-sessions-4.2.1", "adv-frames", "share-restart", "tcp-var-ng")


def told(counts: Collected) -> bytes:
    origins = [Origin(name, [name]) for name in sorted(counts.captures)]
    return to_json(summed(counts, origins, [], REGISTRY))


@cache
def parts() -> list[bytes]:
    """The counts of each capture, as a task sends them."""
    paths = [next(CAPTURES.glob(f"{name}.pcap*")) for name in NAMES]
    return [pickle.dumps(collected(*seen(path), name=path.name)) for path in paths]


def joined(order: list[bytes]) -> Collected:
    return reduce(add, map(pickle.loads, order))


@pytest.mark.parametrize("seed", [1, 2])
def test_captures_joined_in_any_order_give_the_same_report(seed: int) -> None:
    dice = random.Random(seed)
    shuffled = dice.sample(parts(), len(NAMES))
    cut = dice.randint(1, len(NAMES) - 1)
    assert told(joined(shuffled[:cut]) + joined(shuffled[cut:])) == told(joined(parts()))


def test_what_is_bounded_is_bounded_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With limits so low that nearly all is cut."""
    for name, limit in {
        "STATISTICS_ROWS": 2,
        "REPORT_TICKS": 8,
        "REPORT_CELLS": 5,
        "REPORT_FINDINGS": 1,
        "REPORT_MEMBERS": 2,
    }.items():
        monkeypatch.setattr(limits, name, limit)
    parts.cache_clear()  # the limits hold while a capture is counted
    whole = told(joined(parts()))
    assert told(joined(parts()[::-1])) == whole
    assert b'"others": {}' not in whole
    parts.cache_clear()


@given(st.lists(st.tuples(st.integers(0, 1 << 62), st.sampled_from("abcdefgh"))), st.randoms())
def test_counts_bins_samples_and_firsts_do_not_depend_on_order(
    items: list[tuple[int, str]], dice: random.Random
) -> None:
    def made(some: list[tuple[int, str]]) -> tuple[Counts[str], Bins, Sample[str, int], Firsts[str, int]]:
        counts, bins, sample, first = (
            Counts[str](3),
            Bins(4),
            Sample[str, int](5),
            Firsts[str, int](3, lambda number: number),
        )
        for number, name in some:
            counts.add(name)
            bins.add(number, name)
            sample.add(number, name, number)
            first.add(name, number)
        return counts, bins, sample, first

    cut = dice.randint(0, len(items))
    shuffled = dice.sample(items, len(items))
    whole, joined = made(items), made(shuffled[:cut])
    for mine, theirs in zip(joined, made(shuffled[cut:]), strict=True):
        mine.update(theirs)
    for counts in (whole[0], joined[0]):
        counts.bound()
    assert (joined[0], joined[0].others) == (whole[0], whole[0].others)
    assert (joined[1].cells, joined[1].width_ns) == (whole[1].cells, whole[1].width_ns)
    assert joined[2].of(set("abcdefgh")) == whole[2].of(set("abcdefgh"))
    kept = [[firsts[name] for name in "abcdefgh"] for firsts in (whole[3], joined[3])]
    assert kept[0] == kept[1]
    assert sum(map(len, kept[0])) <= max(3, len({name for _, name in items}))
    assert all(kept[0]["abcdefgh".index(name)] for _, name in items)


def test_no_event_is_told_twice() -> None:
    events, findings, sessions = seen(CAPTURES / "adv-acks.pcap")
    assert told(collected(events, findings, sessions) + Collected()) == told(collected(events, findings, sessions))
