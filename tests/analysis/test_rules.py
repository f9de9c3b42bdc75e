"""The rows of rules: each is whole, and what is derived from them is what they say."""

from __future__ import annotations

from collections import Counter

import pytest

from kshark.analysis import APIS, RULES, Rule
from kshark.analysis.machines import MACHINES, SESSION
from kshark.analysis.rules import bucket_of, explanations, triggers
from kshark.analysis.rules.rule import KINDS, REPLIES
from kshark.analysis.session import UNEXPLAINED
from kshark.analysis.steps import REFUSALS
from kshark.anomaly import CATALOGUE
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.registry import Registry


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_row_is_whole(rule: Rule) -> None:
    assert rule.text.endswith(".")
    assert rule.text[0].isupper()
    assert rule.accuses == bool(rule.blame)
    assert not rule.apis or (rule.when is not None and rule.told)
    assert rule.machine is None or rule.machine in MACHINES
    assert not rule.checks or rule.machine is not None


def test_numbers_and_codes_are_given_once() -> None:
    numbers = Counter(rule.number for rule in RULES if rule.number is not None)
    codes = Counter([*(rule.code for rule in RULES), *CATALOGUE])
    assert [number for number, times in numbers.items() if times > 1] == []
    assert [code for code, times in codes.items() if times > 1] == []


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
    assert set(UNEXPLAINED) == REFUSALS
    by_step = explanations(RULES)
    for kind in KINDS:
        for reply in REPLIES:
            assert bool(by_step[kind, reply]) <= (reply in REFUSALS), (kind, reply)


def test_explanations_have_an_order_each() -> None:
    orders = [check.order for rule in RULES for check in rule.checks if check.order is not None]
    assert len(orders) == len(set(orders))


def test_what_is_derived_from_the_rows() -> None:
    assert {SHARE_FETCH, SHARE_ACKNOWLEDGE, SHARE_GROUP_HEARTBEAT} <= APIS
    assert bucket_of(RULES) == ("group_id", "member_id")
    assert {rule.machine for rule in RULES if rule.machine} == {SESSION}
    assert "always" not in {trigger.name for trigger in triggers(RULES)}
