"""Say which fields and values of a filter no message of a capture has, and what is nearest to them.

A value is watched until a message has it; then its watch costs nothing more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Final

from msgspec import UNSET

from kshark.attributes import Values
from kshark.conditions.condition import Test
from kshark.conditions.field_test import FieldTest
from kshark.conditions.fields import PREFIX, TOPIC, BodyField, Common, Fields, closest
from kshark.conditions.literals import NUMBER, TEXT, Literal, ValueType, type_of
from kshark.conditions.syntax import Comparison
from kshark.conditions.terms import ELEMENT
from kshark.errors import FilterError
from kshark.model import Message

#: Most values of a field, and kinds of messages, that are kept to find the nearest.
_KEPT: Final = 4096
#: Most values, and APIs, that a sentence names.
_SHOWN: Final = 3
#: Operators that no message passes if none has the value.
_ASKING: Final = ("==", "in", "===")
#: Types whose values have a spelling that can be mistaken.
_SPELLED: Final = (NUMBER.name, TEXT.name, "a name")
_LABELS: Final = {"group_id": "group", "member_id": "member", "api": "API"}


class Watch:
    """The values of one field, until every value that a test asks for was seen."""

    def __init__(self, fields: Fields, asked: Comparison) -> None:
        self.asked = asked
        self.seen: dict[Any, None] = {}
        self.has_values = False
        #: Topic ids whose name no earlier packet shows.
        self.unnamed: set[str] = set()
        self._read: Values = fields.reader(asked.field)
        self._topics = fields.topics if asked.field == TOPIC else None
        self.types = _types(fields, asked.field)
        self.wanted: dict[str, list[Test]] = {}
        if asked.operator in _ASKING:
            for literal in asked.values:
                if isinstance(literal, Literal) and (tests := _tests(asked, literal, self.types)):
                    self.wanted[literal.text] = tests

    @property
    def is_over(self) -> bool:
        """True if messages have the field and every value."""
        return self.has_values and not self.wanted

    def add(self, message: Message) -> None:
        for value in self._read(message):
            if value is None or value is UNSET:
                continue
            self.has_values = True
            if self.wanted and isinstance(value, str | int) and value not in self.seen:
                if len(self.seen) < _KEPT:
                    self.seen[value] = None
                self._found(value)
        if self._topics is not None:
            for topic in self._topics.of(message):
                self._found(topic.id)
                if topic.name is None and topic.id is not None and len(self.unnamed) < _KEPT:
                    self.unnamed.add(topic.id)

    def _found(self, value: Any) -> None:
        self.wanted = {text: tests for text, tests in self.wanted.items() if not any(test(value) for test in tests)}

    def candidates(self) -> list[str]:
        """Return the values that messages have, as a filter may name them; of topics the names."""
        return [self._shown(value) for value in self.seen if value not in self.unnamed]

    def _shown(self, value: Any) -> str:
        if isinstance(value, int):
            for type in self.types:
                for name, number in type.names.items():
                    if number == value:
                        return name
        return str(value)


def _types(fields: Fields, name: str) -> list[ValueType]:
    """Return the types of a field's values that can be mistyped."""
    field = fields.find(name)
    if isinstance(field, Common):
        every = [fields.type_of(field)]
    elif isinstance(field, BodyField) and not field.rest:
        every = [type_of(place.path.field) for place in fields.places(field.end)]
    else:
        every = []
    return list({id(type): type for type in every if type.name in _SPELLED}.values())


def _tests(asked: Comparison, literal: Literal, types: Iterable[ValueType]) -> list[Test]:
    tests = []
    for type in types:
        try:
            test = FieldTest(asked._replace(operator="==", values=(literal,)), "==").of(ELEMENT, type)
        except FilterError:
            continue
        tests.append(test.compiled())
    return tests


class Unmatched:
    """The fields and values of a filter that no message of a capture has had so far.

    `apis`: those whose messages may pass; `bodies`: those whose bodies are read for it.
    """

    def __init__(
        self, fields: Fields, asked: Iterable[Comparison], apis: Collection[int], bodies: Collection[int]
    ) -> None:
        self._fields = fields
        self._asked = [*dict.fromkeys(asked)]
        self._apis = apis
        self._bodies = bodies
        self.begin()

    def begin(self) -> None:
        """Begin a capture."""
        self._watches = [Watch(self._fields, asked) for asked in self._asked]
        #: API, version and direction of the messages.
        self._kinds: dict[tuple[Any, Any, str], None] = {}

    @property
    def is_empty(self) -> bool:
        """True if messages have had all fields and values."""
        return not self._watches

    def add(self, messages: Iterable[Message]) -> None:
        """Look for the fields and values in these messages."""
        over = False
        for message in messages:
            if len(self._kinds) < _KEPT:
                self._kinds[message.api_key, message.version, message.kind] = None
            for watch in self._watches:
                watch.add(message)
                over |= watch.is_over
            if over:
                self._watches = [watch for watch in self._watches if not watch.is_over]
                over = False
                if not self._watches:
                    return

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for each field, and each value, that no message had; nothing without messages."""
        if not self._kinds:
            return
        for watch in self._watches:
            subject = self._subject(watch.asked.field)
            if not watch.has_values:
                yield f"{subject} has {watch.asked.field}{self._instead_of(watch.asked.field)}"
                continue
            label = _label(watch.asked.field)
            for text in watch.wanted:
                sentence = f"{subject} has {label} {text}{_nearest(text, watch.candidates())}"
                unnamed = f"; of {counted} no earlier packet shows the name" if (counted := _ids(watch)) else ""
                yield sentence + unnamed

    def _subject(self, name: str) -> str:
        """Return `no message`, or those that were read if the rest of the filter leaves out some."""
        field = self._fields.find(name)
        holders = (
            {place.api_key for place in self._fields.places(field.end)}
            if isinstance(field, BodyField)
            else self._fields.topics.apis
            if name == TOPIC
            else set[int]()
        )
        if holders <= {*self._bodies}:
            return "no message"
        names = sorted(self._fields.registry.name(key) or str(key) for key in self._apis)
        return f"no message of {_joined(names)}" if len(names) <= _SHOWN else "no message that may pass otherwise"

    def _instead_of(self, name: str) -> str:
        """Return which APIs have the field, and the most similar one that messages have."""
        field = self._fields.find(name)
        if not isinstance(field, BodyField):
            return ""
        candidates = {
            PREFIX + ".".join(path.names[index:])
            for key, version, kind in self._kinds
            if isinstance(key, int) and isinstance(version, int)
            for path in self._fields.every(key, version, kind)
            for index in range(len(path.names))
        }
        if name in candidates:
            return ": it is null or empty in all"
        keys = {place.api_key for place in self._fields.places(field.end)}
        names = sorted(self._fields.registry.name(key) or str(key) for key in keys)
        owners = _joined(names) if len(names) <= _SHOWN else f"{len(names)} APIs"
        nearest = closest(name, candidates)
        return f" ({owners} {'has' if len(names) == 1 else 'have'} it)" + (
            f"; the nearest is {nearest}" if nearest else ""
        )


def _label(name: str) -> str:
    if not name.startswith(PREFIX):
        return name
    last = name.removeprefix(PREFIX).rpartition(".")[2]
    return _LABELS.get(last, last.replace("_", " "))


def _nearest(text: str, candidates: list[str]) -> str:
    """Return the candidates that are most similar to a text, else how many there are."""
    close = _numbers(text, candidates) or get_close_matches(text, candidates, _SHOWN)
    if close:
        return f"; the nearest {'is' if len(close) == 1 else 'are'} {', '.join(close)}"
    rest = len(candidates) - _SHOWN
    return (f"; messages have {', '.join(candidates[:_SHOWN])}" if candidates else "") + (
        f" and {rest} more" if rest > 0 else ""
    )


def _numbers(text: str, candidates: Iterable[str]) -> list[str]:
    """Return the two nearest numbers to a number."""
    if not text.lstrip("-").isdecimal():
        return []
    numbers = sorted(int(each) for each in candidates if each.lstrip("-").isdecimal())
    return [*map(str, sorted(sorted(numbers, key=lambda each: abs(each - int(text)))[:2]))]


def _ids(watch: Watch) -> str:
    """Return how many topic ids have no name, in words; an empty text if all have."""
    count = len(watch.unnamed)
    return "" if not count else "1 topic id" if count == 1 else f"{count} topic ids"


def _joined(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
