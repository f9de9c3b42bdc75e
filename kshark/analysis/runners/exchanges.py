"""Rules of one exchange: a condition over the request, and one over its answer if the row has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from kshark.analysis.facts.argument import EXCHANGE, Argument, outcome
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.reading import call_of
from kshark.analysis.rules.rule import Rule
from kshark.analysis.runners.coverage import CoverageCounter
from kshark.analysis.runners.verdict import Verdict, judged
from kshark.conditions import compiled_together
from kshark.model import Message

#: API key and version; either may be unset.
_ApiVersion = tuple[Any, Any]
_Test = Callable[[Any], bool]
_Holding = Callable[[Any], Sequence[int]]


class ExchangeRules:
    """Look at the exchanges of the APIs in `apis`, each by itself.

    Conditions are compiled with the first message of an API and version: all conditions over a request into one
    function, which returns the numbers of the rules whose condition holds."""

    def __init__(self, rules: Sequence[Rule], counter: CoverageCounter | None = None) -> None:
        self.apis: Final = frozenset(api for rule in rules for api in rule.apis)
        self._rules = rules
        self._counter = counter
        self._tests: dict[_ApiVersion, _Holding] = {}
        self._answer_tests: dict[_ApiVersion, tuple[tuple[Rule, _Test | None], ...]] = {}
        self._given: dict[_ApiVersion, list[tuple[Rule, _Test]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._rules, self._counter)  # conditions are compiled again

    def look(self, request: Message, response: Message | None, connection: ConnectionFacts | None) -> Sequence[Verdict]:
        """Return the verdicts of the rules that an exchange breaks."""
        if request.body is None:
            return ()
        key = request.api_key, request.version
        test = self._tests.get(key) or self._compile(key)
        if self._counter is not None:
            codes = [*self._put_to_the_test(request, answered=response is not None)]
            self._counter.asked(codes, request, response, None if connection is None else connection.flow)
        numbers = test(request.body)
        return self._broken(numbers, request, response, connection) if numbers and connection is not None else ()

    def _compile(self, key: _ApiVersion) -> _Holding:
        """Compile the conditions for an API and version."""
        number = _number(key)
        rules = [rule for rule in self._rules if key[0] in rule.apis]
        self._answer_tests[key] = tuple(
            (rule, None if rule.answer is None else rule.answer.compiled(number)) for rule in rules
        )
        test = self._tests[key] = compiled_together(
            [broken.at(number) for rule in rules if (broken := rule.broken_by) is not None]
        )
        return test

    def _put_to_the_test(self, request: Message, *, answered: bool) -> Iterator[str]:
        """Yield the codes of the rules that are about a request; without an answer only those that need none."""
        key = request.api_key, request.version
        if key not in self._given:
            number = _number(key)
            self._given[key] = [(rule, rule.given.compiled(number)) for rule in self._rules if key[0] in rule.apis]
        for rule, given in self._given[key]:
            if (answered or rule.answer is None) and given(request.body):
                yield rule.code

    def _broken(
        self, numbers: Iterable[int], request: Message, response: Message | None, connection: ConnectionFacts
    ) -> list[Verdict]:
        """Return the verdicts of the rules whose condition over the request holds, and over the answer too."""
        answer = None if response is None else response.body
        candidates = [self._answer_tests[request.api_key, request.version][number] for number in numbers]
        broken = [rule for rule, test in candidates if test is None or (answer is not None and test(answer))]
        return [_verdict(rule, request, response, connection) for rule in broken]


def _number(key: _ApiVersion) -> int:
    """Return the version as a number: 0 if it could not be read."""
    return key[1] if isinstance(key[1], int) else 0


def _verdict(rule: Rule, request: Message, response: Message | None, connection: ConnectionFacts) -> Verdict:
    call = call_of(request, response, connection)
    answered = "" if rule.answer is None or call.answer is None else f" {outcome(call.answer.error)}"
    text = f"{call.here}{answered}: {rule.sentence} ({call.packets})"
    return judged(rule, Argument(text, (call,), EXCHANGE))
