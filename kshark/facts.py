"""Facts that one connection shows and others need: broker ends, names of topic ids, nodes and clusters of addresses.

A process that decodes only some of a capture's connections receives the facts of the others, each with the packet that
showed it: a fact holds after that packet. Each process resolves what it can from its own connections, and reports the
facts it learned and the questions it asked. If all facts together would have changed an answer (`Facts.changed`), that
part is decoded again. Most captures need no second pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field

#: An end that is a Kafka broker; the id of an internal topic, whose records are opened; the name of a topic id, as
#: tables show it; the node id and listener of an address; the id of its cluster.
Kind = Literal["broker", "own topic", "topic", "node", "cluster"]
#: For these kinds the latest fact holds, for all others the first one.
LATEST: Final = frozenset({"node", "cluster"})


class Fact(NamedTuple):
    """`value` holds for `key` after `packet`."""

    kind: Kind
    key: str
    value: str
    packet: int


class Question(NamedTuple):
    """A question about facts before a packet: the `first`, the `last` or any between. `answer` None: no fact
    was known.
    """

    kind: Kind
    key: str
    answer: str | None
    first: int
    last: int


class Asked(Struct):
    """The questions of one kind; the same answer for the same key is one question."""

    kind: Kind
    _spans: dict[tuple[str, str | None], tuple[int, int]] = field(default_factory=dict)

    def ask(self, key: str, answer: str | None, packet: int) -> None:
        first, last = self._spans.get((key, answer), (packet, packet))
        self._spans[key, answer] = min(first, packet), max(last, packet)

    def __iter__(self) -> Iterator[Question]:
        for (key, answer), (first, last) in self._spans.items():
            yield Question(self.kind, key, answer, first, last)


class Coming:
    """Facts of other connections, released in packet order."""

    __slots__ = ("_facts",)

    def __init__(self) -> None:
        #: The latest first.
        self._facts: list[Fact] = []

    def __bool__(self) -> bool:
        return bool(self._facts)

    def add(self, facts: Iterable[Fact]) -> None:
        self._facts = sorted([*self._facts, *facts], key=lambda fact: -fact.packet)

    def before(self, packet: int) -> Iterator[Fact]:
        """Yield the facts shown before that packet."""
        while self._facts and self._facts[-1].packet < packet:
            yield self._facts.pop()


class Facts:
    """The facts of all parts of a capture, each once, in the order of their packets."""

    def __init__(self, taught: Iterable[Fact]) -> None:
        self._by_key: dict[tuple[Kind, str], list[Fact]] = {}
        for fact in sorted(taught, key=lambda fact: fact.packet):
            facts = self._by_key.setdefault((fact.kind, fact.key), [])
            if not facts or (fact.kind in LATEST and facts[-1].value != fact.value):
                facts.append(fact)

    def __iter__(self) -> Iterator[Fact]:
        return iter(sorted((fact for facts in self._by_key.values() for fact in facts), key=lambda fact: fact.packet))

    def changed(self, question: Question) -> bool:
        """True if the question has another answer at any packet at which it may have been asked."""
        facts = self._by_key.get((question.kind, question.key))
        if facts is None:
            return False  # not learned from a packet: the answer, if any, is known from the start
        within = [fact.packet + 1 for fact in facts if question.first <= fact.packet < question.last]
        return any(
            self._answer(facts, packet) != question.answer for packet in (question.first, *within, question.last)
        )

    @staticmethod
    def _answer(facts: list[Fact], packet: int) -> str | None:
        return next((fact.value for fact in reversed(facts) if fact.packet < packet), None)
