"""Captures that miss packets, or in which payloads are not what was sent: nobody is accused of what the whole capture
does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Final

import msgspec

from kshark.model import Finding
from tests.fuzz.kind import Broken, Kind, Seen, shorter
from tests.shared import CAPTURES, SHARED
from tests.thinning import Whole, added, findings_of, place_of, removals

#: Captures in which clients of share groups speak.
FROM: Final = {
    str(path.relative_to(root)): path
    for root, pattern in ((CAPTURES, "*.pcap"), (SHARED / "captures", "*/*.pcap"))
    for path in sorted(root.glob(pattern))
    if path.stat().st_size < 500_000 and path.parent.name in ("captures", "walks", "kafka-4", "clients")
}


class Loss(msgspec.Struct):
    """The places of the packets of a capture that are missing."""

    capture: str
    words: str
    missing: list[int]


@lru_cache(maxsize=24)
def loaded(name: str) -> tuple[Whole, list[Finding]]:
    """A capture, and what is found in the whole of it."""
    whole = Whole.load(FROM[name])
    return whole, findings_of(whole, whole.everything())


class Losses(Kind[Loss]):
    name = "losses"
    case = Loss
    share = 4

    def make(self, random: Random) -> Loss:
        name = random.choice([*FROM])
        whole, _ = loaded(name)
        words, keep = (
            random.choice([*removals(whole, random, singles=3, others=1)])
            if whole.pairs
            else ("nothing", whole.everything())
        )
        return Loss(name, words, (~keep).nonzero()[0].tolist())

    def check(self, case: Loss) -> Seen:
        whole, known = loaded(case.capture)
        found = findings_of(whole, whole.without(case.missing))
        if more := added(known, found):
            raise Broken("missing packets accuse", [f"{it.code} at {place_of(it)}: {it.argument}" for it in more])
        left = len(whole.number) - len(case.missing)
        return Seen(left, sum(int(it.length.sum()) for it in whole.batches), Counter(it.code for it in found))

    def smaller(self, case: Loss) -> Iterator[Loss]:
        yield from (Loss(case.capture, case.words, missing) for missing in shorter(case.missing))
