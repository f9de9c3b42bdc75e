"""However events, findings and sessions are shared out, the parts joined are the whole: to the byte."""

from __future__ import annotations

import pickle
import random
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshark import limits
from kshark.report.collected import Collected
from kshark.report.facts import to_json
from kshark.report.mergeable import Bins, Counts, Firsts, Sample
from kshark.report.summing import Origin, summed
from tests.report.made import NAME, REGISTRY, collected, seen
from tests.shared import CAPTURES


def told(counts: Collected) -> bytes:
    return to_json(summed(counts, [Origin(NAME, [NAME])], [], REGISTRY))


def shared_out(name: str, parts: int, seed: int) -> tuple[bytes, bytes]:
    """The report of a capture whole, and of its parts: each event, finding and session in any of them."""
    everything = seen(CAPTURES / f"{name}.pcap")
    dice = random.Random(seed)
    shares: list[tuple[list, list, list]] = [([], [], []) for _ in range(parts)]  # type: ignore[type-arg]
    for kind, items in enumerate(everything):
        for item in items:
            dice.choice(shares)[kind].append(item)
    dice.shuffle(shares)
    # a task's part travels to where it is joined
    joined = reduce(add, (pickle.loads(pickle.dumps(collected(*share))) for share in shares))
    return told(collected(*everything)), told(joined)


@pytest.mark.sweep(quick=3)
@pytest.mark.parametrize("name", ["adv-epochs", "adv-sessions-4.2.1", "adv-frames", "share-restart"])
@pytest.mark.parametrize("parts", [2, 7])
def test_any_split_gives_the_same_report(name: str, parts: int) -> None:
    whole, joined = shared_out(name, parts, seed=parts)
    assert joined == whole


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
    whole, joined = shared_out("adv-epochs", 5, seed=1)
    assert joined == whole
    assert b'"others": {}' not in whole


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
