"""The rows of rules: each is whole, and what is derived from them is what they say."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from kshark.analysis import APIS, RULES, Analyzer, Rule
from kshark.analysis.facts.argument import EXCHANGE, Argument
from kshark.analysis.facts.calls import REFUSALS
from kshark.analysis.facts.machine import StepType
from kshark.analysis.rules import BOOK, RuleBook
from kshark.analysis.rules.rule import CATCH_ALL, KINDS, NOTES, REPLIES, Check
from kshark.analysis.runners.stateless import Exchanged
from kshark.analysis.states.tables import (
    CONNECTION,
    CONSUMER,
    GENERATION,
    IN_FLIGHT,
    MACHINES,
    MEMBER,
    PERSISTER,
    SESSION,
    Machine,
)
from kshark.anomaly import CATALOGUE
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.registry import Registry
from tests.conversation import TOPIC, Conversation, events


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_row_is_whole(rule: Rule) -> None:
    assert rule.text.endswith(".")
    assert rule.text[0].isupper()
    assert rule.accuses == bool(rule.blame)
    assert not rule.apis or (rule.when is not None and rule.sentence)
    assert rule.machine is None or rule.machine in MACHINES
    assert not rule.checks or rule.machine is not None or rule.weird
    assert not rule.weird or rule.checks
    assert set(rule.weird) <= CATALOGUE.keys()


#: The catalogue's number that has two codes: RELEASE_STORM and REJECT_RATE.
TWOFOLD = 69


def test_numbers_and_codes_are_given_once() -> None:
    numbers = Counter(rule.number for rule in RULES if rule.number is not None)
    codes = Counter(rule.code for rule in RULES)
    noting = {rule.unproved_as for rule in RULES}
    judged = Counter(code for rule in RULES if rule.code not in noting for code in rule.weird)
    assert [number for number, times in numbers.items() if times > 1] == [TWOFOLD]
    assert [code for code, times in (codes | judged).items() if times > 1] == []
    assert [rule.code for rule in RULES if rule.code in CATALOGUE and rule.code not in rule.weird] == []


def test_conditions_ask_for_fields_that_there_are() -> None:
    registry = Registry()
    for rule in RULES:
        for api_key in rule.apis:
            api = registry.api(api_key)
            assert api is not None
            assert rule.when is not None
            rule.when.check(api.request.root)
            if rule.answer is not None:
                rule.answer.check(api.response.root)


def test_every_refusal_can_be_explained() -> None:
    assert set(BOOK.catch_alls) == REFUSALS
    for kind in KINDS:
        for reply in REPLIES:
            asked = BOOK.questions(StepType(SESSION.name, SHARE_FETCH, kind, reply, refused=True)).explanations
            assert bool(asked) == (reply in REFUSALS), (kind, reply)
            assert not asked or asked[-1].check.order == CATCH_ALL


def test_explanations_have_an_order_each() -> None:
    for machine in BOOK.machines:
        orders = [one.check.order for one in BOOK.checks(machine) if one.check.order not in (None, CATCH_ALL)]
        assert len(orders) == len(set(orders)), machine.name


def test_what_is_derived_from_the_rows() -> None:
    assert {SHARE_FETCH, SHARE_ACKNOWLEDGE, SHARE_GROUP_HEARTBEAT} <= APIS
    assert BOOK.bucket == ("group_id",)
    assert {rule.machine for rule in RULES if rule.machine} == {
        SESSION,
        IN_FLIGHT,
        MEMBER,
        CONSUMER,
        GENERATION,
        PERSISTER,
    }
    assert "always" not in {trigger.name for trigger in BOOK.triggers}


def test_a_rule_on_each_machine_can_be_added() -> None:
    """Machines whose table is not written yet show their rules each exchange, with the one before it of the same
    machine."""
    talk = Conversation()
    a = talk.member("a")
    a.share_fetch(0, [0, 1]).answered()
    a.share_fetch(1, [1]).answered()
    state = {"group_id": "g", "topics": [{"topic_id": TOPIC, "partitions": [{"partition": 7, "leader_epoch": 1}]}]}
    for _ in range(2):
        a.connection.ask(84, "ReadShareGroupState", 0, state)
    happened = events(talk)
    seen: dict[str, list[tuple[object, bool]]] = {}

    def seer(machine: Machine) -> Rule:
        def look(visit: Exchanged) -> Argument:
            seen.setdefault(machine.name, []).append((visit.key, visit.before is not None))
            return Argument(f"{visit.call.here} was seen", (visit.call,), EXCHANGE)

        apis = (78,) if not machine.apis else ()
        code = f"SEEN_BY_{machine.name.upper().replace(' ', '_')}"
        checks = (Check(look),)
        text = "It was seen."
        return Rule(
            number=None,
            code=code,
            text=text,
            source="",
            blame=(),
            verdicts=NOTES,
            machine=machine,
            checks=checks,
            apis=apis,
        )

    book = RuleBook(
        (
            *RULES,
            *(seer(replace(machine, name=f"visited {machine.name}", states=())) for machine in (PERSISTER, CONNECTION)),
        )
    )
    analyzer = Analyzer(book=book)
    found = [*analyzer.page(happened), *analyzer.close()]
    assert seen["visited persister"] == [(("g", TOPIC, 7), False), (("g", TOPIC, 7), True)]
    assert seen["visited connection"] == [((0,), False), ((0,), True)]
    assert {finding.code for finding in found} == {"SEEN_BY_VISITED_PERSISTER", "SEEN_BY_VISITED_CONNECTION"}
    assert book.bucket == ()
    assert book.apis >= {76, 78, 79, 83, 84, 85, 86, 87}
