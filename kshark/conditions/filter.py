"""Display filters as conditions over whole messages: `-Y 'kafka.api == ShareFetch && kafka.error_code > 0'`.

kshark.conditions.fields resolves the names, kshark.conditions.syntax parses the grammar. A field with several
occurrences passes if any occurrence does. As in Wireshark since 4.0, `!=` and `not in` pass if no occurrence is equal,
`~=` if one differs, `===` if all are equal. No test passes if the field is absent or null. A field alone tests that it
is present; kafka.request and kafka.response alone test the kind of the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from kshark.conditions.condition import ALWAYS, NEVER, Condition, Test, either
from kshark.conditions.elements import AnyOf
from kshark.conditions.field_test import FieldTest
from kshark.conditions.fields import LISTED, BodyField, Common, Fields
from kshark.conditions.inside import InBody
from kshark.conditions.literals import TRUTH
from kshark.conditions.partial import leaves, settled
from kshark.conditions.source import Row
from kshark.conditions.syntax import Comparison, parse
from kshark.conditions.terms import ELEMENT
from kshark.errors import FilterError
from kshark.model import Exchange, Message

#: Layers that every message has: a filter may name them without an operator.
_LAYERS: Final = ("frame", "ip", "tcp", "kafka")
#: Kinds of messages (API, version, direction) whose compiled test is kept.
_KEPT: Final = 4096


class Filter:
    """A display filter; `fields` are the fields that it may name.

    `apis`: the APIs whose messages may pass. `needs`: the data that must be decoded for the test. Raises FilterError,
    with the position, for a filter that cannot be parsed.
    """

    def __init__(self, text: str, fields: Fields) -> None:
        self.text = text
        self._fields = fields
        self._names: list[str] = []
        self.condition = parse(text, self._condition)
        self.apis, bodies = self._asked()
        self.needs = fields.needs(self._names)._replace(bodies=bodies)
        self._tests = _Tests(self._compiled)
        #: One test for all messages, if the filter reads no body.
        self._choose: Callable[[Iterable[Message]], list[Message]] | None = None
        if not any(isinstance(leaf, InBody) for leaf in leaves(self.condition)):
            row = _message()
            self._choose = row.chooser(self.condition.python(row))

    def passes(self, message: Message) -> bool:
        """True if the message passes."""
        return self._tests[message.api_key, message.version, message.kind](message)

    def takes(self, exchange: Exchange) -> bool:
        """True if the request or the response passes."""
        return any(message is not None and self.passes(message) for message in (exchange.request, exchange.response))

    def passing(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages that pass."""
        if self._choose is not None:
            return self._choose(messages)
        tests = self._tests
        return [message for message in messages if tests[message.api_key, message.version, message.kind](message)]

    # -- names to conditions

    def _condition(self, asked: Comparison) -> Condition:
        self._names.append(asked.field)
        if asked.field in _LAYERS and asked.operator == "present":
            return ALWAYS
        field = self._fields.find(asked.field)
        if field is None:
            raise FilterError(self._fields.unknown(asked.field), asked.at, LISTED)
        any_occurrence = self._some_of(field)
        match asked.operator:
            case "!=":
                return ~any_occurrence(FieldTest(asked, "==")) & any_occurrence(FieldTest(asked, "present"))
            case "not in":
                return ~any_occurrence(FieldTest(asked, "in")) & any_occurrence(FieldTest(asked, "present"))
            case "~=":
                return any_occurrence(FieldTest(asked, "!="))
            case "===":
                return ~any_occurrence(FieldTest(asked, "!=")) & any_occurrence(FieldTest(asked, "present"))
            case "present" if isinstance(field, Common) and field.type is TRUTH:
                return either([term.is_true() for _, term in field.terms])
        return any_occurrence(FieldTest(asked, asked.operator))

    def _some_of(self, field: Common | BodyField) -> Callable[[FieldTest], Condition]:
        """Return a function: a test of one occurrence becomes a condition on messages."""
        if isinstance(field, BodyField):
            return lambda test: self._in_body(field, test)
        type = self._fields.type_of(field)
        if field.array is not None:
            array = field.array
            return lambda test: AnyOf(array, test.of(ELEMENT, type))
        return lambda test: either(
            [test.of(term, type) if guard is ALWAYS else guard & test.of(term, type) for guard, term in field.terms]
        )

    def _in_body(self, field: BodyField, test: FieldTest) -> Condition:
        """Return a condition for the APIs that have the field with fitting values.

        Raises the FilterError of the first misfit if no API fits.
        """
        wrong, fits = None, set()
        condition = InBody(field, test, frozenset())
        for api_field in self._fields.places(field.end):
            try:
                condition.at_path(api_field.path)
                fits.add(api_field.api_key)
            except FilterError as error:
                wrong = wrong or error
        if wrong is not None and not fits:
            raise wrong
        return replace(condition, apis=frozenset(fits))

    # -- messages

    def _asked(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the APIs whose messages may pass, and the APIs whose bodies decide."""
        apis, bodies = set(), set()
        for key, name in self._fields.registry.names().items():
            rest = settled(self.condition, {"api_key": key, "api": name})
            if rest is not NEVER:
                apis.add(key)
            if any(key in leaf.apis if isinstance(leaf, InBody) else "weird" in leaf.fields() for leaf in leaves(rest)):
                bodies.add(key)
        return frozenset(apis), frozenset(bodies)

    def _compiled(self, api_key: Any, version: Any, kind: str) -> Test:
        """Compile the test of messages of that API, version and kind."""
        api = self._fields.registry.name(api_key) if isinstance(api_key, int) else None
        rest = settled(self.condition, {"api_key": api_key, "version": version, "kind": kind, "api": api})
        row = _message()
        test: Test = row.function(self._placed(rest, api_key, version, kind).python(row))
        return test

    def _placed(self, condition: Condition, api_key: Any, version: Any, kind: str) -> Condition:
        """Return the condition with the paths that the body's fields have in messages of that kind."""
        if not isinstance(condition, InBody):
            return condition.mapped(lambda part: self._placed(part, api_key, version, kind))
        is_decoded = isinstance(api_key, int) and isinstance(version, int)
        return condition.where(self._fields.paths(condition.field.end, api_key, version, kind) if is_decoded else ())


def _message() -> Row:
    return Row("message", has=Message.__struct_fields__)


class _Tests(dict[tuple[Any, ...], Test]):
    """Compiled tests; each is compiled when its first message comes."""

    def __init__(self, make: Callable[..., Test]) -> None:
        self._make = make

    def __missing__(self, key: tuple[Any, ...]) -> Test:
        if len(self) >= _KEPT:
            self.clear()
        made = self[key] = self._make(*key)
        return made
