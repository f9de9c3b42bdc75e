"""Display filters as conditions over whole messages: `-Y 'kafka.api == ShareFetch && kafka.error_code > 0'`.

kshark.conditions.fields resolves the names, kshark.conditions.syntax parses the grammar. A field with several
occurrences passes if any occurrence does. As in Wireshark since 4.0, `!=` and `not in` pass if no occurrence is equal,
`~=` if one differs, `===` if all are equal. No test passes if the field is absent or null. A field alone tests that it
is present; kafka.request and kafka.response alone test the kind of the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from kshark.conditions.condition import ALWAYS, NEVER, Condition, Test, either
from kshark.conditions.elements import AnyOf
from kshark.conditions.field_test import FieldTest
from kshark.conditions.fields import COMMON, LISTED, TOPIC, BodyField, Common, Fields
from kshark.conditions.inside import InBody, OfTopics
from kshark.conditions.literals import TRUTH
from kshark.conditions.partial import leaves, settled
from kshark.conditions.source import Row
from kshark.conditions.syntax import Comparison, parse
from kshark.conditions.terms import ELEMENT
from kshark.conditions.unmatched import Unmatched
from kshark.errors import FilterError
from kshark.model import Exchange, Message
from kshark_dissectors.topics import NAMING_APIS

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
        self._comparisons: list[Comparison] = []
        self.condition = parse(text, self._condition)
        self.apis, bodies = self._asked()
        names = [asked.field for asked in self._comparisons]
        self.needs = fields.needs(names)._replace(bodies=bodies | NAMING_APIS if TOPIC in names else bodies)
        self._unmatched = Unmatched(fields, self._comparisons, self.apis, bodies)
        self._tests = _Tests(self._compiled)
        #: One test for all messages, if the filter reads no body.
        self._choose: Callable[[Iterable[Message]], list[Message]] | None = None
        if not any(isinstance(leaf, InBody | OfTopics) for leaf in leaves(self.condition)):
            row = _message()
            self._choose = row.chooser(self.condition.python(row))

    def begin(self) -> None:
        """Begin a capture."""
        self._unmatched.begin()

    def unmatched(self) -> Iterator[str]:
        """Yield a sentence for each field, and each value, that no message of the capture has."""
        return self._unmatched.sentences()

    def passes(self, message: Message) -> bool:
        """True if the message passes."""
        if not self._unmatched.is_empty:
            self._unmatched.add((message,))
        return self._tests[message.api_key, message.version, message.kind](message)

    def takes(self, exchange: Exchange) -> bool:
        """True if the request or the response passes."""
        messages = [message for message in (exchange.request, exchange.response) if message is not None]
        passing = [self.passes(message) for message in messages]  # both are looked at for values that nothing has
        return any(passing)

    def passing(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages that pass."""
        if not self._unmatched.is_empty:
            messages = [*messages]
            self._unmatched.add(messages)
        if self._choose is not None:
            return self._choose(messages)
        tests = self._tests
        return [message for message in messages if tests[message.api_key, message.version, message.kind](message)]

    # -- names to conditions

    def _condition(self, asked: Comparison) -> Condition:
        if asked.field in _LAYERS and asked.operator == "present":
            return ALWAYS
        field = self._fields.find(asked.field)
        if field is None:
            raise FilterError(self._fields.unknown(asked.field), asked.at, LISTED)
        self._comparisons.append(asked)
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
        if field is COMMON[TOPIC]:
            topics = self._fields.topics
            return lambda test: OfTopics(topics, test, test.of(ELEMENT, field.type), topics.apis)
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
            if any(
                key in leaf.apis if isinstance(leaf, InBody | OfTopics) else "weird" in leaf.fields()
                for leaf in leaves(rest)
            ):
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


def _reads_body(leaf: Condition, api_key: int) -> bool:
    """True if a test needs the body of messages of that API."""
    return api_key in leaf.apis if isinstance(leaf, InBody | OfTopics) else "weird" in leaf.fields()


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
