"""Display filters: `-Y 'kafka.api == ShareFetch && kafka.error_code > 0'`, as conditions over whole messages.

What a name means is kshark.conditions.fields' matter, the grammar kshark.conditions.syntax's. A field that occurs
several times passes when any occurrence does; as in Wireshark since 4.0 `!=` and `not in` when none is equal, `~=` when
one differs, `===` when all are equal. No test passes where the field is absent or null. A bare field is there;
kafka.request and kafka.response alone say what the message is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from kshark.conditions.condition import ALWAYS, NEVER, Condition, Test, either
from kshark.conditions.elements import AnyOf
from kshark.conditions.fields import LISTED, BodyField, Common, Fields
from kshark.conditions.inside import InBody
from kshark.conditions.literals import TRUTH
from kshark.conditions.partial import leaves, settled
from kshark.conditions.said import Said
from kshark.conditions.source import Row
from kshark.conditions.syntax import Comparison, parse
from kshark.conditions.terms import ELEMENT
from kshark.errors import FilterError
from kshark.model import Exchange, Message

#: Layers that every message has: a filter may name them alone.
_LAYERS: Final = ("frame", "ip", "tcp", "kafka")
#: Kinds of messages (API, version, direction) whose compiled test is kept.
_KEPT: Final = 4096


class Filter:
    """A display filter; `fields` are those it may name. Raises FilterError, with the place, for what cannot be read.

    `apis`: those of which a message may pass; `needs`: what has to be read to tell.
    """

    def __init__(self, text: str, fields: Fields) -> None:
        self.text = text
        self._fields = fields
        self._names: list[str] = []
        self.condition = parse(text, self._condition)
        self.apis, bodies = self._asked()
        self.needs = fields.needs(self._names)._replace(bodies=bodies)
        self._tests = _Tests(self._compiled)
        #: Where no body decides, one test is enough for all.
        self._choose: Callable[[Iterable[Message]], list[Message]] | None = None
        if not any(isinstance(leaf, InBody) for leaf in leaves(self.condition)):
            row = _message()
            self._choose = row.chooser(self.condition.python(row))

    def passes(self, message: Message) -> bool:
        """Whether the message passes."""
        return self._tests[message.api_key, message.version, message.kind](message)

    def takes(self, exchange: Exchange) -> bool:
        """Whether the request passes, or the answer."""
        return any(message is not None and self.passes(message) for message in (exchange.request, exchange.response))

    def passing(self, messages: Iterable[Message]) -> list[Message]:
        """Those that pass."""
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
        some = self._some_of(field)
        match asked.operator:
            case "!=":
                return ~some(Said(asked, "==")) & some(Said(asked, "present"))
            case "not in":
                return ~some(Said(asked, "in")) & some(Said(asked, "present"))
            case "~=":
                return some(Said(asked, "!="))
            case "===":
                return ~some(Said(asked, "!=")) & some(Said(asked, "present"))
            case "present" if isinstance(field, Common) and field.type is TRUTH:
                return either([term.is_true() for _, term in field.terms])
        return some(Said(asked, asked.operator))

    def _some_of(self, field: Common | BodyField) -> Callable[[Said], Condition]:
        """What is said of some occurrence, as a condition on messages."""
        if isinstance(field, BodyField):
            return lambda said: self._in_body(field, said)
        type = self._fields.type_of(field)
        if field.array is not None:
            array = field.array
            return lambda said: AnyOf(array, said.of(ELEMENT, type))
        return lambda said: either(
            [said.of(term, type) if guard is ALWAYS else guard & said.of(term, type) for guard, term in field.terms]
        )

    def _in_body(self, field: BodyField, said: Said) -> Condition:
        """Of the APIs that have the field with values that fit; where none has, the reason is told."""
        wrong, fits = None, set()
        condition = InBody(field, said, frozenset())
        for place in self._fields.places(field.end):
            try:
                condition.at_path(place.path)
                fits.add(place.api_key)
            except FilterError as error:
                wrong = wrong or error
        if wrong is not None and not fits:
            raise wrong
        return replace(condition, apis=frozenset(fits))

    # -- messages

    def _asked(self) -> tuple[frozenset[int], frozenset[int]]:
        """APIs of which messages may pass, and those whose bodies decide."""
        apis, bodies = set(), set()
        for key, name in self._fields.registry.names().items():
            left = settled(self.condition, {"api_key": key, "api": name})
            if left is not NEVER:
                apis.add(key)
            if any(key in leaf.apis if isinstance(leaf, InBody) else "weird" in leaf.fields() for leaf in leaves(left)):
                bodies.add(key)
        return frozenset(apis), frozenset(bodies)

    def _compiled(self, api_key: Any, version: Any, kind: str) -> Test:
        """The test of messages of that kind."""
        api = self._fields.registry.name(api_key) if isinstance(api_key, int) else None
        left = settled(self.condition, {"api_key": api_key, "version": version, "kind": kind, "api": api})
        row = _message()
        test: Test = row.function(self._placed(left, api_key, version, kind).python(row))
        return test

    def _placed(self, condition: Condition, api_key: Any, version: Any, kind: str) -> Condition:
        """The condition with the body's fields where they are in messages of that kind."""
        if not isinstance(condition, InBody):
            return condition.mapped(lambda part: self._placed(part, api_key, version, kind))
        known = isinstance(api_key, int) and isinstance(version, int)
        return condition.where(self._fields.paths(condition.field.end, api_key, version, kind) if known else ())


def _message() -> Row:
    return Row("message", has=Message.__struct_fields__)


class _Tests(dict[tuple[Any, ...], Test]):
    """Compiled tests, each made when its first message comes."""

    def __init__(self, make: Callable[..., Test]) -> None:
        self._make = make

    def __missing__(self, key: tuple[Any, ...]) -> Test:
        if len(self) >= _KEPT:
            self.clear()
        made = self[key] = self._make(*key)
        return made
