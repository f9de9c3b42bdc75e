"""The topics, partitions and groups that a request is about, and the records in it or in its response.

Fields are found by the schema: a topic is a structure with a topic's id or name, its partitions lie inside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Struct

from kshark.api_keys import FETCH, SHARE_FETCH
from kshark.model import Message
from kshark.records import Batch, LegacyBatch, RecordsField
from kshark.registry import Registry
from kshark.schema import Field

#: No topic: a zero uuid stands beside a name, or for "none". Kafka: Uuid.ZERO_UUID.
_ZERO_ID: Final = "A" * 22
_TOPIC_NAMES: Final = ("topic_name", "topic")
_PARTITIONS: Final = ("partition_index", "partition", "index", "partition_id")
_PARTITION_LISTS: Final = ("partitions", "partition_indexes")
#: Fields with the id of a group, or a list of them. Kafka: DescribeGroups, DeleteGroups and *GroupDescribe requests.
_GROUPS: Final = ("group_id", "groups", "groups_names", "group_ids")
#: Responses that have topics which their request need not list: those of the session (KIP-227, KIP-932).
_SESSIONS: Final = frozenset({FETCH, SHARE_FETCH})

#: A topic's name or id, and the number of a partition; None: the request names none, or it was not asked for.
Place = tuple[str | None, int | None]


class Content(Struct, gc=False):
    """The part of an exchange that is about one place.

    `errors`: error codes of the response. `produced` and `fetched` are numbers of records, the bytes are those of
    their records fields. Records that a ShareFetch fetched are those that it acquired.
    """

    errors: set[int]
    produced: int = 0
    produced_bytes: int = 0
    fetched: int = 0
    fetched_bytes: int = 0


class _Plan(NamedTuple):
    """The way through a structure to what is sought in it: names of fields.

    `topic_id`, `topic`: of the topic that the structure is. `partition`: of its number. `numbers`: of a list of
    partitions' numbers. `names`: of a list of topics' names. `records`, `acquired`: of records, and of those acquired.
    `errors`: of error codes. `below`: fields with further structures.
    """

    topic_id: str | None
    topic: str | None
    partition: str | None
    numbers: str | None
    names: str | None
    records: str | None
    acquired: str | None
    errors: tuple[str, ...]
    below: tuple[tuple[str, _Plan], ...]

    @property
    def leads_to_records(self) -> bool:
        return self.records is not None or any(below.leads_to_records for _, below in self.below)


class Subjects:
    """Find the places of exchanges. `topics`, `partitions`: tell them apart."""

    def __init__(self, registry: Registry, *, topics: bool = True, partitions: bool = True) -> None:
        self._registry = registry
        self._topics, self._partitions = topics, partitions
        self._plans: dict[tuple[Any, Any, str], _Plan | None] = {}
        self._group_plans: dict[tuple[Any, Any], tuple[tuple[str, ...], ...]] = {}

    def of(self, request: Message, response: Message | None, errors: Collection[int]) -> dict[Place, Content]:
        """Return the places of an exchange with their content; at least one.

        `errors`: all error codes of the response. Those outside topics are in every place.
        """
        places: dict[Place, Content] = {}
        if (plan := self._plan(request)) is not None:
            _Walk(places, self._partitions, lists=self._topics, produces=True).through(request.body, plan, None, None)
        if response is not None and (plan := self._plan(response)) is not None:
            lists = self._topics and request.api_key in _SESSIONS
            if errors or lists or plan.leads_to_records:
                _Walk(places, self._partitions, lists=lists, produces=False).through(response.body, plan, None, None)
        if not self._topics:
            content = places.setdefault((None, None), Content(set()))
            content.errors.update(errors)
            return places
        outside = places.get((None, None))
        if outside is None:
            return places or {(None, None): Content(set())}
        if len(places) > 1:
            for content in places.values():
                content.errors |= outside.errors
            if not outside.produced_bytes and not outside.fetched_bytes:
                del places[None, None]
        return places

    def groups(self, request: Message) -> Sequence[str]:
        """Return the ids of the groups that a request names."""
        key = request.api_key, request.version
        ways = self._group_plans.get(key)
        if ways is None:
            layout = self._layout(request)
            ways = self._group_plans[key] = () if layout is None else tuple(_ways_to_groups(*layout))
        if not ways:
            return ()
        return [*dict.fromkeys(group for way in ways for group in _texts(request.body, way))]

    def _layout(self, message: Message) -> tuple[Field, int] | None:
        api = self._registry.api(message.api_key) if isinstance(message.api_key, int) else None
        if api is None or not isinstance(message.version, int):
            return None
        layout = api.request if message.kind == "request" else api.response
        return layout.root, layout.versions.nearest(message.version)

    def _plan(self, message: Message) -> _Plan | None:
        key = message.api_key, message.version, message.kind
        if key not in self._plans:
            layout = self._layout(message)
            plan = None if layout is None else _planned(*layout, "", self._topics)
            self._plans[key] = plan if plan is not None and any(plan) else None
        return self._plans[key]


class _Walk:
    """Collect the content of places from one body.

    `lists`: places without content count. `produces`: its records are produced, not fetched.
    """

    def __init__(self, places: dict[Place, Content], partitions: bool, *, lists: bool, produces: bool) -> None:
        self._places = places
        self._partitions = partitions
        self._lists = lists
        self._produces = produces

    def through(self, body: Any, plan: _Plan, topic: str | None, partition: int | None) -> None:
        """Collect what `plan` finds in a structure of this topic and partition."""
        if plan.topic is not None or plan.topic_id is not None:
            topic = _topic_of(body, plan) or topic
        if plan.partition is not None and self._partitions and topic is not None:
            number = getattr(body, plan.partition, None)
            partition = number if isinstance(number, int) else partition
        if self._lists:
            self._listed(body, plan, topic, partition)
        for name in plan.errors:
            code = getattr(body, name, 0)
            if code and isinstance(code, int):
                self._at(topic, partition).errors.add(code)
        if plan.records is not None:
            self._records(body, plan, topic, partition)
        for name, below in plan.below:
            for structure in _elements(body, name):
                self.through(structure, below, topic, partition)

    def _listed(self, body: Any, plan: _Plan, topic: str | None, partition: int | None) -> None:
        for name in () if plan.names is None else _elements(body, plan.names):
            self._at(name, None)
        if topic is None:
            return
        numbers = _elements(body, plan.numbers) if plan.numbers is not None and self._partitions else ()
        for number in numbers:
            self._at(topic, number)
        has_partitions = self._partitions and any(below.partition is not None for _, below in plan.below)
        if not numbers and not has_partitions:
            self._at(topic, partition)

    def _records(self, body: Any, plan: _Plan, topic: str | None, partition: int | None) -> None:
        field = getattr(body, plan.records or "", None)
        if not isinstance(field, RecordsField) or not (field.size or plan.acquired):
            return
        content = self._at(topic, partition)
        if self._produces:
            content.produced_bytes += field.size
            content.produced += _count(field)
        else:
            content.fetched_bytes += field.size
            content.fetched += (
                _count(field)
                if plan.acquired is None
                else sum(max(0, run.last_offset - run.first_offset + 1) for run in _elements(body, plan.acquired))
            )

    def _at(self, topic: str | None, partition: int | None) -> Content:
        content = self._places.get((topic, partition))
        if content is None:
            content = self._places[topic, partition] = Content(set())
        return content


def _topic_of(body: Any, plan: _Plan) -> str | None:
    """Return the topic's name, or its id where the structure has no name."""
    for name in (plan.topic, plan.topic_id):
        value = None if name is None else getattr(body, name, None)
        if isinstance(value, str) and value and value != _ZERO_ID:
            return value
    return None


def _elements(body: Any, name: str) -> Sequence[Any]:
    """Return the elements of an array, or a structure alone."""
    value = getattr(body, name, None)
    if isinstance(value, list | tuple):
        return value
    return () if value is None or value is UNSET else (value,)


def _count(field: RecordsField) -> int:
    """Return the number of records; 0 if the batches were not read."""
    if isinstance(field.count, int):
        return field.count
    batches = () if field.batches is UNSET else field.batches or ()
    return sum(
        max(0, batch.count) if type(batch) is Batch else len(batch.records) if type(batch) is LegacyBatch else 0
        for batch in batches
    )


def _planned(struct: Field, version: int, structure: str, topics: bool) -> _Plan:
    """Return the plan of a structure, which is in the field of that name.

    Without `topics`, only to records.
    """
    fields = {field.name: field for field in (*struct.in_wire_order(version), *struct.by_tag(version).values())}
    below = [
        (field.name, plan)
        for field in fields.values()
        if (inner := field.element or field).fields
        and not field.name.startswith("forgotten")
        and any(plan := _planned(inner, version, field.name, topics))
    ]
    records = next((key for key, field in fields.items() if field.type == "records"), None)
    acquired = "acquired_records" if records is not None and "acquired_records" in fields else None
    if not topics:
        return _Plan(None, None, None, None, None, records, acquired, (), tuple(below))
    topic = next((key for key, field in fields.items() if _names_topic(field, structure)), None)
    topic_id = "topic_id" if "topic_id" in fields else None
    is_topic = topic is not None or topic_id is not None
    lists = (key for key in _PARTITION_LISTS if key in fields and _is_number(fields[key].element))
    return _Plan(
        topic_id,
        topic,
        partition=next((key for key in _PARTITIONS if _is_number(fields.get(key))), None),
        numbers=next(lists, None) if is_topic else None,
        names="topic_names" if "topic_names" in fields else None,
        records=records,
        acquired=acquired,
        errors=tuple(key for key in fields if key.endswith("error_code")),
        below=tuple(below),
    )


def _names_topic(field: Field, structure: str) -> bool:
    """True if the field has the name of the topic that its structure is; `structure` is the structure's field."""
    if field.type != "string":
        return False
    return field.name in _TOPIC_NAMES or (field.name == "name" and ("topic" in structure or structure == "responses"))


def _is_number(field: Field | None) -> bool:
    return field is not None and field.type == "int32"


def _ways_to_groups(struct: Field, version: int) -> Iterator[tuple[str, ...]]:
    for field in (*struct.in_wire_order(version), *struct.by_tag(version).values()):
        inner = field.element or field
        if field.name in _GROUPS and inner.type == "string":
            yield (field.name,)
        for way in _ways_to_groups(inner, version) if inner.fields else ():
            yield (field.name, *way)


def _texts(value: Any, way: tuple[str, ...]) -> Iterator[str]:
    for element in _elements(value, way[0]):
        if len(way) > 1:
            yield from _texts(element, way[1:])
        elif isinstance(element, str):
            yield element
