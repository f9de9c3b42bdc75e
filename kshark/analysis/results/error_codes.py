"""Error codes of answers, at any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from kshark.codec.paths import Names, paths
from kshark.codec.reach import Reach
from kshark.codec.shapes import shape_of
from kshark.model import Message
from kshark.registry import Registry

#: Read rows of a body's fields.
_Read = Callable[[Any], Sequence[tuple[Any, ...]]]
#: True if a body has an error code.
Test = Callable[[Any], Any]
#: Field names of a partition and its topic's id, beside the error code or above it.
_PARTITION: Final = ("partition_index", "partition", "index", "partition_id")
_TOPIC: Final = ("topic_id",)
#: The same of names: of the topic, the group, the transaction, or another resource.
_NAMES: Final = ("name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_name", "entity_name")


class PlacedCode(NamedTuple):
    """An error code and its partition; None if it is not about exactly one partition.

    `name`: the topic, group or other resource that the code is about, where the answer names it.
    """

    code: int
    topic_id: str | None
    partition: int | None
    name: str | None = None


class _Ways(Struct, frozen=True):
    """The ways to the error codes of one class of bodies. `readers` return rows of codes that stand side by side, of
    which one is not 0. `test` is true if there is any."""

    readers: list[_Read]
    test: Test
    names: list[Names]


_NOWHERE: Final = _Ways([], lambda body: False, [])


class ErrorCodes:
    """Read error codes by the schema. The ways are found once for each API, version and class of body."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: By class of body, as far as learned.
        self.tests: dict[type, Test] = {}
        self._by_kind: dict[tuple[int, int, type], _Ways] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Classes of bodies are made at run time, so the tests are learned again.
        return ErrorCodes, (self._registry,)

    def of(self, body: Any, key: int, version: int) -> Iterator[int]:
        """Yield every code that is not zero; none for a body that was not read."""
        for rows in self._ways(body, key, version).readers:
            for row in rows(body):
                for code in row:
                    if code and code is not UNSET:
                        yield code

    def placed(self, body: Any, key: Any, version: Any) -> list[PlacedCode]:
        """Return the same codes with their partitions. Slower: for bodies that have one."""
        return [*self._placed(body, key, version, zeros=False)]

    def every(self, body: Any, key: Any, version: Any) -> Iterator[PlacedCode]:
        """Yield the codes that are zero, too."""
        return self._placed(body, key, version, zeros=True)

    def _placed(self, body: Any, key: int, version: int, *, zeros: bool) -> Iterator[PlacedCode]:
        nowhere = PlacedCode(0, None, None)
        return (placed for way in self._ways(body, key, version).names for placed in _placed(body, way, nowhere, zeros))

    def column(self, answers: Iterable[Message]) -> list[list[int] | None]:
        """Return every code of each answer that is not zero; None for an answer without one, or of an unknown API."""
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
        """Return the test for bodies of this answer's class, and keep it in `tests`: the fastest way to find codes."""
        key, version, body = answer.api_key, answer.version, answer.body
        if not isinstance(key, int) or not isinstance(version, int):
            return _NOWHERE.test
        test = self._ways(body, key, version).test
        if isinstance(body, Struct):  # other classes belong to several APIs
            self.tests[type(body)] = test
        return test

    def _ways(self, body: Any, key: int, version: int) -> _Ways:
        kind = (key, version, type(body))
        if kind not in self._by_kind:
            self._by_kind[kind] = self._find_ways(*kind)
        return self._by_kind[kind]

    def _find_ways(self, key: int, version: int, body: type) -> _Ways:
        api = self._registry.api(key)
        if api is None or body in (type(None), UnsetType):
            return _NOWHERE
        nearest = api.response.versions.nearest(version)
        reach = Reach(api.response.root, nearest, exact=body is shape_of(api.response, nearest).make)
        code_paths = [path for path in paths(api.response.root, nearest) if path.names[-1].endswith("error_code")]
        return _Ways(reach.beside(code_paths), reach.holds_any(code_paths), [path.names for path in code_paths])


def _placed(value: Any, names: Names, above: PlacedCode, zeros: bool) -> Iterator[PlacedCode]:
    """Yield the codes at the end of a way, with the ids and names that stand along it."""
    if isinstance(value, list | tuple):
        for element in value:
            yield from _placed(element, names, above, zeros)
    elif not names:
        if isinstance(value, int) and (value or zeros):
            yield PlacedCode(value, *above[1:])
    elif value is not None and value is not UNSET:
        here = PlacedCode(
            0,
            _named(value, _TOPIC, str, above.topic_id),
            _named(value, _PARTITION, int, above.partition),
            _named(value, _NAMES, str, above.name),
        )
        yield from _placed(getattr(value, names[0], UNSET), names[1:], here, zeros)


def _named(struct: Any, names: Names, kind: type, above: Any) -> Any:
    return next((value for name in names if isinstance(value := getattr(struct, name, None), kind)), above)
