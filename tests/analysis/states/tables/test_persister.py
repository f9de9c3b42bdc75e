"""The table of share coordinators, held against what real ones answered."""

from __future__ import annotations

from collections import Counter

from kshark.analysis import RULES, Analyzer, Rule
from kshark.analysis.facts.state_steps import ACCEPTED, FENCED_LEADER, FENCED_STATE, INVALID
from kshark.analysis.rules import RuleBook
from kshark.analysis.rules.rule import NOTES, Check
from kshark.analysis.states.stored.state import StoredSituation
from kshark.analysis.states.tables import PERSISTER
from kshark.analysis.states.tables.persister import StoredCondition, reply_due
from kshark.pipeline import Options
from tests.shared import CAPTURES
from tests.thinning import Whole, pages_of


def test_real_coordinators_answer_by_the_table() -> None:
    answered: Counter[tuple[int, StoredCondition]] = Counter()

    def look(now: StoredSituation) -> None:
        held = now.stored.held(now.step)
        if (
            held is not None
            and now.step.negative is None
            and now.step.reply in (ACCEPTED, INVALID, FENCED_STATE, FENCED_LEADER)
        ):
            answered[now.step.call.api_key, held] += 1
            assert now.step.reply is reply_due(now.step.call.api_key, held), now.step.story

    rule = Rule(
        number=None,
        code="SEEN",
        text="It was seen.",
        source="",
        blame=(),
        verdicts=NOTES,
        machine=PERSISTER,
        checks=(Check(look),),
    )
    for name in ("adv-members", "adv-sessions-4.2.1", "seed-messy", "share-restart", "share-java-explicit"):
        analyzer = Analyzer(book=RuleBook((*RULES, rule)))
        for page in pages_of(
            Whole.load(CAPTURES / f"{name}.pcap").batches, Options(records=False, bodies=PERSISTER.apis | {18})
        ):
            analyzer.page(page)
    assert {api_key for api_key, _ in answered} >= {83, 84, 85, 86, 87}
    assert {held for _, held in answered} == set(StoredCondition)
