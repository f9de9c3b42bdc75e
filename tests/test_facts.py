"""What connections teach each other, and when somebody who asked has to be told."""

from __future__ import annotations

from kshark.facts import Asked, Coming, Fact, Facts, Question
from kshark.framing.brokers import Brokers


def test_of_most_things_the_first_that_was_told_holds_of_nodes_the_last() -> None:
    told = [
        Fact("topic", "id", "later", 9),
        Fact("node", "a:1", "1 a:1", 3),
        Fact("node", "a:1", "2 a:1", 7),
        Fact("topic", "id", "orders", 5),
    ]
    assert [*Facts(told)] == [
        Fact("node", "a:1", "1 a:1", 3),
        Fact("topic", "id", "orders", 5),
        Fact("node", "a:1", "2 a:1", 7),
    ]


def test_an_answer_changes_only_when_it_was_told_before_the_question() -> None:
    facts = Facts([Fact("broker", "a:1", "", 5)])
    assert not facts.changed(Question("broker", "a:1", None, 2, 5))
    assert facts.changed(Question("broker", "a:1", None, 2, 6))
    assert not facts.changed(Question("broker", "a:1", "", 6, 9))
    assert not facts.changed(Question("broker", "b:1", None, 2, 9))


def test_an_answer_that_did_not_hold_all_the_time_has_changed() -> None:
    facts = Facts([Fact("node", "a:1", "1 a:1", 3), Fact("node", "a:1", "2 a:1", 7), Fact("node", "a:1", "1 a:1", 8)])
    assert facts.changed(Question("node", "a:1", "1 a:1", 4, 12))
    assert not facts.changed(Question("node", "a:1", "1 a:1", 9, 12))


def test_what_nobody_taught_was_known_from_the_start() -> None:
    assert not Facts([]).changed(Question("topic", "id", "__cluster_metadata", 1, 2))


def test_the_same_answer_is_one_question() -> None:
    asked = Asked("topic")
    for packet, answer in ((4, None), (2, None), (9, "orders"), (3, None)):
        asked.ask("id", answer, packet)
    assert [*asked] == [Question("topic", "id", None, 2, 4), Question("topic", "id", "orders", 9, 9)]


def test_facts_come_when_their_time_has_come() -> None:
    coming, early, late = Coming(), Fact("topic", "a", "x", 3), Fact("topic", "b", "y", 8)
    coming.add([late, early])
    assert [*coming.before(3)] == []
    assert [*coming.before(8)] == [early]
    assert coming
    assert [*coming.before(9)] == [late]
    assert not coming


def test_only_who_sees_some_of_the_connections_asks() -> None:
    """A whole capture may have any number of foreign connections, each from a port of its own: nothing is kept of
    them."""
    alone, one_of_many = Brokers(), Brokers(asking=True)
    for brokers in (alone, one_of_many):
        brokers.learn("10.0.0.9:9092", 3)
        assert brokers.is_broker("10.0.0.9:9092", 5)
        assert not brokers.is_broker("10.0.0.1:50000", 5)
    assert [*alone.asked] == []
    assert [(asked.key, asked.answer) for asked in one_of_many.asked] == [
        ("10.0.0.9:9092", ""),
        ("10.0.0.1:50000", None),
    ]
