"""What one connection teaches all others: the ends that are brokers, names of topic ids, nodes behind addresses.

Whoever decodes only some of a capture's connections is told what the others taught, each fact with the packet that told
it: it holds for what comes after. He finds out alone what he can, and tells what he taught and what he asked;
`Facts.changed` says whether what all of them taught together would have been another answer, and then that part is
decoded again. Most captures need no second time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field

#: An end that is a Kafka broker; the id of a topic of Kafka's own, whose records are opened; the name of a topic id, as
#: the tables show it; the node id and listener behind an address; the id of its cluster.
Kind = Literal["broker", "own topic", "topic", "node", "cluster"]
#: Of these the last that was told holds, of all others the first.
LATEST: Final = frozenset({"node", "cluster"})


class Fact(NamedTuple):
    """`value` holds of `key` behind `packet`."""

    kind: Kind
    key: str
    value: str
    packet: int


class Question(NamedTuple):
    """What somebody asked that was told before a packet, the `first` or the `last` or any between; `answer` None:
    nothing was."""

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
    """Facts that others taught, handed out when their time has come."""

    __slots__ = ("_facts",)

    def __init__(self) -> None:
        #: The latest first.
        self._facts: list[Fact] = []

    def __bool__(self) -> bool:
        return bool(self._facts)

    def add(self, facts: Iterable[Fact]) -> None:
        self._facts = sorted([*self._facts, *facts], key=lambda fact: -fact.packet)

    def before(self, packet: int) -> Iterator[Fact]:
        """Those that were told before that packet."""
        while self._facts and self._facts[-1].packet < packet:
            yield self._facts.pop()


class Facts:
    """What all parts of a capture taught together, each fact once, in the order of their packets."""

    def __init__(self, taught: Iterable[Fact]) -> None:
        self._by_key: dict[tuple[Kind, str], list[Fact]] = {}
        for fact in sorted(taught, key=lambda fact: fact.packet):
            known = self._by_key.setdefault((fact.kind, fact.key), [])
            if not known or (fact.kind in LATEST and known[-1].value != fact.value):
                known.append(fact)

    def __iter__(self) -> Iterator[Fact]:
        return iter(sorted((fact for known in self._by_key.values() for fact in known), key=lambda fact: fact.packet))

    def changed(self, question: Question) -> bool:
        """Whether the question has another answer, at any packet at which it may have been asked."""
        known = self._by_key.get((question.kind, question.key))
        if known is None:
            return False  # nobody taught it: the answer, if there was one, is known from the start
        within = [fact.packet + 1 for fact in known if question.first <= fact.packet < question.last]
        return any(
            self._answer(known, packet) != question.answer for packet in (question.first, *within, question.last)
        )

    @staticmethod
    def _answer(known: list[Fact], packet: int) -> str | None:
        return next((fact.value for fact in reversed(known) if fact.packet < packet), None)
