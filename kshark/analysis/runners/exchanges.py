"""Rules of one exchange: a condition over the request, and one over its answer where the row has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from kshark.analysis.facts.argument import EXCHANGE, Argument, refused_with
from kshark.analysis.facts.connections import ConnectionFacts
from kshark.analysis.facts.reading import call_of
from kshark.analysis.rules.rule import Rule
from kshark.analysis.runners.verdict import Verdict, judged
from kshark.conditions import compiled_together
from kshark.model import Message

_Test = Callable[[Any], bool]
_Holding = Callable[[Any], Sequence[int]]


class ExchangeRules:
    """Looks at exchanges of the APIs in `apis`; conditions are compiled when the first message of an API and version
    comes.

    `tests` has, by API and version, all conditions in one function: the numbers of the rules whose request they hold
    of."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.apis: Final = frozenset(api for rule in rules for api in rule.apis)
        self.tests: Final[dict[tuple[Any, Any], _Holding]] = {}
        self._rules = rules
        self._of: dict[tuple[Any, Any], tuple[tuple[Rule, _Test | None], ...]] = {}
        self._given: dict[tuple[Any, Any], list[tuple[Rule, _Test]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._rules,)  # what was compiled is compiled again

    def test(self, request: Message) -> _Holding:
        """The test for requests like this one."""
        api_key, version = key = request.api_key, request.version
        number = version if isinstance(version, int) else 0
        rules = [rule for rule in self._rules if api_key in rule.apis]
        self._of[key] = tuple((rule, None if rule.answer is None else rule.answer.compiled(number)) for rule in rules)
        test = self.tests[key] = compiled_together(
            [broken.at(number) for rule in rules if (broken := rule.broken_by) is not None]
        )
        return test

    def put_to_the_test(self, request: Message, answered: bool) -> Iterator[str]:
        """The codes of the rules that are about a request; without an answer those that ask for none."""
        api_key, version = key = request.api_key, request.version
        if key not in self._given:
            number = version if isinstance(version, int) else 0
            self._given[key] = [(rule, rule.given.compiled(number)) for rule in self._rules if api_key in rule.apis]
        for rule, given in self._given[key]:
            if (answered or rule.answer is None) and given(request.body):
                yield rule.code

    def broken(
        self, numbers: Iterable[int], request: Message, response: Message | None, connection: ConnectionFacts | None
    ) -> Sequence[Verdict]:
        """What is said of an exchange whose request those conditions hold of."""
        if connection is None:
            return ()
        answer = None if response is None else response.body
        candidates = [self._of[request.api_key, request.version][number] for number in numbers]
        broken = [rule for rule, test in candidates if test is None or (answer is not None and test(answer))]
        return [_verdict(rule, request, response, connection) for rule in broken]


def _verdict(rule: Rule, request: Message, response: Message | None, connection: ConnectionFacts) -> Verdict:
    call = call_of(request, response, connection)
    answered = "" if rule.answer is None or call.answer is None else f" {refused_with(call.answer.error)}"
    text = f"{call.here}{answered}: {rule.sentence} ({call.packets})"
    return judged(rule, Argument(text, (call,), EXCHANGE))
