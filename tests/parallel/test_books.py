"""Rules of other machines, judged by buckets: what they look at lies together, whatever the keys of all machines have
in common."""

from __future__ import annotations

from random import Random

import pytest

from kshark.analysis import RULES, Analyzer
from kshark.analysis.rules import BOOK, RuleBook
from kshark.model import Weird
from kshark.parallel import sorting
from kshark.pipeline import JUDGED
from tests.analysis.rules.others import OF_CONNECTIONS, OF_GROUPS
from tests.shared import CAPTURES
from tests.shares import Told, as_one, capture_of, in_shares

OF_BOTH = (*OF_GROUPS, *OF_CONNECTIONS)


@pytest.fixture
def book(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RuleBook:
    """The catalogue and other rules, wherever buckets are filled or judged."""
    book = RuleBook((*RULES, *request.param))
    monkeypatch.setattr(sorting, "_KEY", book.bucket)
    monkeypatch.setattr(sorting, "_WHOLE", book.apis & sorting._BRIEF.keys())
    monkeypatch.setattr(sorting, "_READ", book.apis | sorting._BRIEF.keys())
    assert Analyzer.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(Analyzer.__init__.__kwdefaults__, "book", book)
    return book


def both(name: str, seed: int) -> tuple[Told, Told]:
    random, batches = Random(seed), capture_of(CAPTURES / name)
    return as_one(batches, JUDGED), in_shares(batches, JUDGED, [100, 300], 3, random)


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("book", [OF_GROUPS, OF_BOTH], indirect=True, ids=["groups", "connections"])
def test_what_rules_of_other_machines_find_is_found_in_buckets(book: RuleBook) -> None:
    found: set[str] = set()
    for seed, name in enumerate(["share-restart.pcap", "share-restart.pcap", "adv-acks.pcap", "adv-members.pcap"]):
        one, other = both(name, seed)
        assert other.findings == one.findings
        assert other.told == one.told
        found |= {finding.code for finding in one.findings}
    assert found >= {rule.code for rule in book.rules if rule in OF_BOTH}


def test_weirds_that_rules_are_about_are_told_to_every_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Weird] = []
    monkeypatch.setattr(Analyzer, "_weird", lambda _, weird: heard.append(weird) or [])
    one, _ = both("tcp-hostile.pcap", 1)
    expected = [event for event in one.events if isinstance(event, Weird) and event.code in BOOK.weirds]
    assert len(expected) == 30
    told = [weird for weird in heard if weird.code in BOOK.weirds]
    assert told[:30] == expected
    assert told[30:] == expected * (len(told) // 30 - 1) != []
