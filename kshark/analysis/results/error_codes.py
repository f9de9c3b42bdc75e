"""The error codes of answers, at any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from kshark.codec.paths import Names, paths
from kshark.codec.reach import Reach
from kshark.codec.shapes import shape_of
from kshark.model import Message
from kshark.registry import Registry

#: Rows of a body's fields.
_Read = Callable[[Any], Sequence[tuple[Any, ...]]]
#: Whether a body has an error code.
Test = Callable[[Any], Any]
#: What APIs call a partition and its topic's id, beside its error code or around it.
_PARTITION: Final = ("partition_index", "partition", "index", "partition_id")
_TOPIC: Final = ("topic_id",)


class PlacedCode(NamedTuple):
    """An error code and what it is about: a partition, or None where it is about more or less than one."""

    code: int
    topic_id: str | None
    partition: int | None


class _Ways(NamedTuple):
    """To the codes of one class of bodies: all that stand side by side, as rows in which one is not 0; whether there is
    any; the ways."""

    readers: list[_Read]
    test: Test
    names: list[Names]


_NOWHERE: Final = _Ways([], lambda body: False, [])


class ErrorCodes:
    """Reads them by the schema; how is found out once for each API, version and shape of body."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: By class of body, as far as they were learned.
        self.tests: dict[type, Test] = {}
        self._known: dict[tuple[int, int, type], _Ways] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ErrorCodes, (
            self._registry,
        )  # what was learned is learned again: classes of bodies are made at run time

    def of(self, body: Any, key: int, version: int) -> Iterator[int]:
        """Every code that is not zero; none of a body that was not read."""
        for rows in self._ways(body, key, version).readers:
            for row in rows(body):
                for code in row:
                    if code and code is not UNSET:
                        yield code

    def placed(self, body: Any, key: Any, version: Any) -> list[PlacedCode]:
        """The same, each with the partition that it is about: slower, for bodies that are known to have one."""
        return [placed for way in self._ways(body, key, version).names for placed in _placed(body, way, None, None)]

    def column(self, answers: Iterable[Message]) -> list[list[int] | None]:
        """Every code of each answer that is not zero; None of one that has none, or of an unknown API."""
        tests = self.tests
        column: list[list[int] | None] = []
        for answer in answers:
            body = answer.body
            test = tests[type(body)] if type(body) in tests else self.learn(answer)
            column += (
                [placed.code for placed in self.placed(body, answer.api_key, answer.version)] if test(body) else None,
            )
        return column

    def learn(self, answer: Message) -> Test:
        """Tells whether bodies of this answer's class have a code: the fastest way to find those that do. See
        `tests`."""
        key, version, body = answer.api_key, answer.version, answer.body
        if not isinstance(key, int) or not isinstance(version, int):
            return _NOWHERE.test
        test = self._ways(body, key, version).test
        if isinstance(body, Struct):  # other classes are no one API's
            self.tests[type(body)] = test
        return test

    def _ways(self, body: Any, key: int, version: int) -> _Ways:
        kind = (key, version, type(body))
        if kind not in self._known:
            self._known[kind] = self._found(*kind)
        return self._known[kind]

    def _found(self, key: int, version: int, body: type) -> _Ways:
        api = self._registry.api(key)
        if api is None or body in (type(None), UnsetType):
            return _NOWHERE
        known = api.response.versions.nearest(version)
        reach = Reach(api.response.root, known, exact=body is shape_of(api.response, known).make)
        every = [path for path in paths(api.response.root, known) if path.names[-1].endswith("error_code")]
        return _Ways(reach.beside(every), reach.holds_any(every), [path.names for path in every])


def _placed(value: Any, names: Names, topic_id: str | None, partition: int | None) -> Iterator[PlacedCode]:
    """The codes at the end of a way, by the ids that lie along it."""
    if isinstance(value, list | tuple):
        for element in value:
            yield from _placed(element, names, topic_id, partition)
    elif not names:
        if isinstance(value, int) and value:
            yield PlacedCode(value, topic_id, partition)
    elif value is not None and value is not UNSET:
        topic_id, partition = _named(value, _TOPIC, str, topic_id), _named(value, _PARTITION, int, partition)
        yield from _placed(getattr(value, names[0], UNSET), names[1:], topic_id, partition)


def _named(struct: Any, names: Names, kind: type, above: Any) -> Any:
    return next((value for name in names if isinstance(value := getattr(struct, name, None), kind)), above)
