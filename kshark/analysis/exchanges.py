"""Rules of one exchange: a condition over the request, and one over its answer where the row has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kshark.analysis.argument import EXCHANGE, Argument
from kshark.analysis.connections import Connection
from kshark.analysis.judge import judge
from kshark.analysis.reading import call_of
from kshark.analysis.rules.rule import Rule
from kshark.analysis.verdict import Verdict
from kshark.conditions import compiled_together
from kshark.model import Message

_Test = Callable[[Any], bool]


class _Compiled(NamedTuple):
    """The rules that look at one API's requests, all their conditions in one function."""

    holding: Callable[[Any], Sequence[int]]
    rules: tuple[Rule, ...]
    answers: tuple[_Test | None, ...]


class ExchangeRules:
    """Looks at exchanges of the APIs in `by_api`; conditions are compiled when the first message of an API and version comes."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        apis = {api for rule in rules for api in rule.apis}
        self.by_api: Final = {api: tuple(rule for rule in rules if api in rule.apis) for api in apis}
        self._compiled: dict[tuple[Any, Any], _Compiled] = {}

    def look(self, request: Message, response: Message | None, connection: Connection | None) -> Sequence[Verdict]:
        """What the exchange breaks; a body that could not be read breaks nothing."""
        key = (request.api_key, request.version)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = self._compile(*key)
        body = request.body
        if body is None or connection is None or not (numbers := compiled.holding(body)):
            return ()
        answer = None if response is None else response.body
        broken = [
            compiled.rules[number]
            for number in numbers
            if (test := compiled.answers[number]) is None or (answer is not None and test(answer))
        ]
        return [verdict for rule in broken if (verdict := _verdict(rule, request, response, connection)) is not None]

    def _compile(self, api_key: Any, version: Any) -> _Compiled:
        rules = tuple(rule for rule in self.by_api[api_key] if rule.when is not None)
        number = version if isinstance(version, int) else 0
        conditions = [rule.when.at(number) for rule in rules if rule.when is not None]
        answers = tuple(None if rule.answer is None else rule.answer.compiled(number) for rule in rules)
        return _Compiled(compiled_together(conditions), rules, answers)


def _verdict(rule: Rule, request: Message, response: Message | None, connection: Connection) -> Verdict | None:
    call = call_of(request, response, connection)
    answered = "" if rule.answer is None or call.answer is None else f" was answered with error {call.answer.error}"
    text = f"{call.here}{answered}: {rule.told} ({call.packets})"
    argument = Argument(text, (call,), EXCHANGE, noted=not rule.accuses)
    judgement = judge(argument, None, accuses=rule.accuses)
    return Verdict(rule, argument, judgement) if judgement.verdict in rule.verdicts else None
