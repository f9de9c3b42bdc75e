"""Records that a share group gives up, and that reach no dead-letter queue although it has one. Incident 140.

Source: KIP-1191; Kafka 4.4: GroupConfig, TopicConfig, ShareGroupDLQStateManager. The leader of the partition writes
given up records to the queue with Produce requests, and stores the states "archiving" before and "archived" after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.bases import NO_ADMIN, NO_CONNECTION
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.results.error_codes import PlacedCode
from kshark.analysis.rules.rule import Rule
from kshark.api_keys import (
    ALTER_CONFIGS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    WRITE_SHARE_GROUP_STATE,
)
from kshark.incidents.due import Due
from kshark.incidents.incident import Incident, Where, witness_of
from kshark.incidents.scene import Scene
from kshark.incidents.sentences import counted, time_of
from kshark.incidents.usage import is_readable
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Exchange, Flow, Gap, Message, Witness
from kshark_dissectors.enums import AcknowledgeType, ConfigOperation, ConfigResourceType, DeliveryState, ErrorCode

#: Settings of a group and of a topic. Kafka: GroupConfig, TopicConfig, since 4.4.
_QUEUE: Final = "errors.deadletterqueue.topic.name"
_ENABLE: Final = "errors.deadletterqueue.group.enable"
_LIMIT: Final = "share.delivery.count.limit"
_CONFIGS: Final = frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS})
_TOPICS: Final = frozenset({METADATA, CREATE_TOPICS, DELETE_TOPICS})
_SESSION: Final = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})
#: APIs that matter only to groups with a queue.
_RECORDS: Final = _SESSION | {WRITE_SHARE_GROUP_STATE, PRODUCE}
_NO_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
#: What is wrong with a queue, in words.
_WHY: Final = {
    "queue_missing": "there is no such topic",
    "queue_not_enabled": f"{_ENABLE} of that topic is false",
    "queue_not_written": "the leader stored them as archived without a write to it, as it does if there is no such "
    "topic, or if it is not enabled",
    None: "the capture shows no write to it",
}

DEAD_LETTER_LOST: Final = Rule(
    number=140,
    code="DEAD_LETTER_LOST",
    text="A share group with a dead-letter queue gives up records, and they do not reach the queue.",
    source="KIP-1191; Kafka: ShareGroupDLQStateManager",
    rests_on=(NO_ADMIN, NO_CONNECTION),
    blame=(),
    verdicts=("note", "unknown"),
    causes=("queue_missing", "queue_not_enabled", "queue_not_written"),
    must="Records that a share group with a dead-letter queue gives up are written to that topic.",
    advice="Create the topic with errors.deadletterqueue.group.enable=true, or correct "
    "errors.deadletterqueue.topic.name of the group. The records stay in their own topic until its retention ends.",
    weight=90,
)


#: The id of a topic, and a partition.
_Partition = tuple[str, int]


@dataclass(frozen=True, eq=False, slots=True)
class _Step:
    """An exchange: its request, its answer, and as evidence."""

    asked: PacketTime
    answered: int
    flow: Flow
    witness: Witness


class _Topic(Struct):
    """A topic as far as the capture shows it; None: it does not."""

    exists: bool | None = None
    is_enabled: bool | None = None
    #: The packet of the last accepted write to it.
    written: int = 0
    refused: _Step | None = None


class _Group:
    """A group with a dead-letter queue, and the records that it gave up."""

    def __init__(self, queue: str, shown_by: _Step) -> None:
        self.queue = queue
        self.shown_by = shown_by
        self.first: _Step | None = None
        self.last: _Step | None = None
        self.cause: str | None = None
        #: Records that members rejected, or released after the last delivery; and that a leader stored as archived.
        self.given_up = 0
        self.archived = 0
        #: The steps in which leaders stored "archiving", by partition.
        self.archiving: dict[_Partition, _Step] = {}
        #: The delivery limit, as far as shown, and ranges that reached it.
        self.limit: int | None = None
        self.last_attempts: deque[tuple[_Partition, int, int]] = deque(maxlen=limits.LISTED_RANGES)

    def give_up(self, step: _Step) -> None:
        """Note a step that gave up records."""
        self.first = step if self.first is None else min(self.first, step, key=_asked)
        self.last = step if self.last is None else max(self.last, step, key=_asked)


class DeadLetters(Watcher):
    """Watch the dead-letter queues of share groups, and the records that these give up."""

    rows = (DEAD_LETTER_LOST,)
    apis = _CONFIGS | _TOPICS | _RECORDS
    refusals = True
    kinds = (Gap,)

    def __init__(self, scene: Scene, due: Due[Awaited]) -> None:
        super().__init__(scene, due)
        self._groups: dict[str, _Group] = {}
        self._topics: dict[str, _Topic] = {}
        #: Delivery limits of groups without a queue so far.
        self._limits: dict[str, int] = {}
        #: The last packet with lost bytes.
        self._lost = 0

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        self._lost = event.packet
        return NOTHING

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, response = exchange.request, exchange.response
        if request is None or response is None or (not self._groups and request.api_key in _RECORDS):
            return NOTHING
        if not is_readable(request) or not is_readable(response):
            return NOTHING
        api_key = request.api_key
        if api_key in _SESSION:
            if (group := self._group_of(request.body)) is not None:
                self._acknowledged(group, exchange, request.body, response.body)
        elif api_key == PRODUCE:
            self._produced(response)
        elif api_key == WRITE_SHARE_GROUP_STATE:
            if (group := self._group_of(request.body)) is not None:
                self._stored(group, exchange, request.body)
        elif api_key in _CONFIGS:
            self._configured(exchange, request.body, response.body)
        else:
            self._learn(api_key, request.body, response.body)
        return NOTHING

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        response = exchange.response
        if not self._groups or response is None or response.api_key != PRODUCE:
            return NOTHING
        for topic in getattr(response.body, "responses", None) or ():
            known = self._topics.get(self._name(topic) or "")
            if known is not None and any(it.error_code in _NO_TOPIC for it in topic.partition_responses or ()):
                known.refused = _step(exchange)
        return NOTHING

    def close(self) -> Iterable[Incident]:
        for group_id, group in self._groups.items():
            yield from self._over(group_id, group)

    def _group_of(self, body: Any) -> _Group | None:
        return self._groups.get(getattr(body, "group_id", None) or "")

    def _topic(self, name: str) -> _Topic:
        topic = self._topics.get(name)
        if topic is None:
            topic = _Topic()
            if len(self._topics) < limits.GROUPS:
                self._topics[name] = topic
        return topic

    # -- queues and topics

    def _configured(self, exchange: Exchange, asked: Any, answer: Any) -> None:
        """Take settings of groups and topics that an answer shows, or that were changed."""
        accepted = {
            (it.resource_type, it.resource_name)
            for it in getattr(answer, "responses", None) or getattr(answer, "results", None) or ()
            if it.error_code == 0
        }
        resources = getattr(answer, "results", None) or getattr(asked, "resources", None) or ()
        if getattr(asked, "validate_only", False):
            return
        for resource in resources:
            if (resource.resource_type, resource.resource_name) in accepted:
                for config in resource.configs or ():
                    self._set(exchange, resource, config)

    def _set(self, exchange: Exchange, resource: Any, config: Any) -> None:
        is_set = getattr(config, "config_operation", ConfigOperation.SET) == ConfigOperation.SET
        value = config.value if is_set and isinstance(config.value, str) else ""
        if config.name == _QUEUE and resource.resource_type == ConfigResourceType.GROUP:
            group = self._groups.get(resource.resource_name)
            if not value:
                self._groups.pop(resource.resource_name, None)
            elif (group is None or group.queue != value) and len(self._groups) < limits.GROUPS:
                group = self._groups[resource.resource_name] = _Group(value, _step(exchange))
                group.limit = self._limits.get(resource.resource_name)
        elif config.name == _LIMIT and resource.resource_type == ConfigResourceType.GROUP and value.isdecimal():
            group = self._groups.get(resource.resource_name)
            if group is not None:
                group.limit = int(value)
            elif len(self._limits) < limits.GROUPS:
                self._limits[resource.resource_name] = int(value)
        elif config.name == _ENABLE and resource.resource_type == ConfigResourceType.TOPIC:
            self._topic(resource.resource_name).is_enabled = value == "true"

    def _learn(self, api_key: Any, asked: Any, answer: Any) -> None:
        """Take the topics that Metadata shows, or that are created or deleted."""
        if api_key == DELETE_TOPICS:
            for topic in getattr(answer, "responses", None) or ():
                name = self._name(topic)
                if topic.error_code == 0 and name:
                    self._topics[name] = _Topic(exists=False)
            return
        topics = {self._name(topic): topic for topic in getattr(answer, "topics", None) or ()}
        for name, topic in topics.items():
            if name:
                self._see(name, topic)
        if api_key == METADATA and getattr(asked, "topics", ()) is None:
            for group in self._groups.values():
                if group.queue not in topics:
                    self._topic(group.queue).exists = False

    def _see(self, name: str, topic: Any) -> None:
        if topic.error_code == 0:
            self._topic(name).exists = True
        elif topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._topic(name).exists = False
        for config in getattr(topic, "configs", None) or ():
            if config.name == _ENABLE:
                self._topic(name).is_enabled = config.value == "true"

    def _name(self, topic: Any) -> str | None:
        name = getattr(topic, "name", None)
        if isinstance(name, str):
            return name
        topic_id = getattr(topic, "topic_id", None)
        return self.scene.names.by_id.get(topic_id) if isinstance(topic_id, str) else None

    # -- records

    def _acknowledged(self, group: _Group, exchange: Exchange, asked: Any, answer: Any) -> None:
        """Count the records that the group gives up, where the answer accepts it."""
        if getattr(answer, "error_code", None) != 0:
            return
        given_up = {
            key: count
            for topic in asked.topics or ()
            for partition in topic.partitions or ()
            if (count := _count(group, key := (topic.topic_id, partition.partition_index), partition))
        }
        for topic in answer.responses or ():
            for partition in topic.partitions or ():
                key = topic.topic_id, partition.partition_index
                code = getattr(partition, "acknowledge_error_code", partition.error_code)
                if key in given_up and code == 0:
                    group.given_up += given_up[key]
                    self._give_up(group, _step(exchange))
                for acquired in getattr(partition, "acquired_records", None) or ():
                    if group.limit is not None and acquired.delivery_count >= group.limit:
                        group.last_attempts.append((key, acquired.first_offset, acquired.last_offset))

    def _stored(self, group: _Group, exchange: Exchange, asked: Any) -> None:
        """Follow the states "archiving" and "archived" that a leader stores."""
        for topic in asked.topics or ():
            for partition in topic.partitions or ():
                key = topic.topic_id, partition.partition
                batches = partition.state_batches or ()
                if any(batch.delivery_state == DeliveryState.ARCHIVING for batch in batches):
                    if len(group.archiving) < limits.SHARE_PARTITIONS:
                        group.archiving.setdefault(key, _step(exchange))
                elif count := sum(map(_archived, batches)):
                    self._archived(group, _step(exchange), group.archiving.pop(key, None), count)

    def _archived(self, group: _Group, step: _Step, archiving: _Step | None, count: int) -> None:
        """Take records that were stored as archiving, and now as archived."""
        if archiving is None:
            return
        group.archived += count
        self._give_up(group, archiving)
        self._give_up(group, step)
        # A single broker sends its writes to itself like the state, so the capture would show them.
        since = _asked(archiving)
        is_seen = self.scene.broker_of(step.flow).is_alone and self._lost < since
        if is_seen and self._topic(group.queue).written < since:
            group.cause = group.cause or "queue_not_written"

    def _give_up(self, group: _Group, step: _Step) -> None:
        """Note given up records, and what is wrong with the queue at this time."""
        topic = self._topic(group.queue)
        if topic.exists is False:
            group.cause = "queue_missing"
        elif topic.is_enabled is False:
            group.cause = "queue_not_enabled"
        group.give_up(step)

    def _produced(self, response: Message) -> None:
        queues = {group.queue for group in self._groups.values()}
        for topic in getattr(response.body, "responses", None) or ():
            name = self._name(topic)
            if name in queues and any(partition.error_code == 0 for partition in topic.partition_responses or ()):
                queue = self._topic(name)
                queue.written, queue.exists, queue.refused = response.packet, True, None

    def _over(self, group_id: str, group: _Group) -> Iterator[Incident]:
        """Yield the incident of a group that gave up records, unless its queue received some."""
        first, last = group.first, group.last
        if first is None or last is None:
            return
        topic, cause, since = self._topic(group.queue), group.cause, first.asked
        if topic.written > since.packet and cause != "queue_not_written":
            # The leader created the topic, or wrote them late.
            return
        steps = [group.shown_by, first, last]
        if topic.refused is not None and topic.refused.answered > since.packet:
            cause = "queue_missing"
            steps.append(topic.refused)
        yield Incident(
            DEAD_LETTER_LOST,
            since,
            last.asked,
            first.flow,
            f"group {group_id} gave up {counted(max(group.given_up, group.archived), 'record')} "
            f"({_packets(since.packet, last.asked.packet)}) that did not reach its dead-letter queue "
            f"{group.queue}: {_WHY[cause]}",
            Where(group_id=group_id),
            tuple(step.witness for step in dict.fromkeys(steps)),
            cause=cause,
            because="hidden_traffic" if cause is None else None,
        )


def _packets(first: int, last: int) -> str:
    return f"packet {first}" if first == last else f"packets {first} to {last}"


def _step(exchange: Exchange) -> _Step:
    assert exchange.request is not None
    (witness,) = witness_of(exchange)
    return _Step(time_of(exchange.request), exchange.packet, exchange.flow, witness)


def _asked(step: _Step) -> int:
    """Return the packet of the request."""
    return step.asked.packet


def _count(group: _Group, key: _Partition, partition: Any) -> int:
    """Return how many records the acknowledgements of a partition give up."""
    count = 0
    for batch in partition.acknowledgement_batches or ():
        types: Sequence[int] = batch.acknowledge_types or ()
        if len(types) == 1 and types[0] == AcknowledgeType.REJECT:
            count += batch.last_offset - batch.first_offset + 1
        elif len(types) == 1 and types[0] == AcknowledgeType.RELEASE:
            count += sum(
                max(min(last, batch.last_offset) - max(first, batch.first_offset) + 1, 0)
                for at, first, last in group.last_attempts
                if at == key
            )
        else:
            count += sum(1 for type in types if type == AcknowledgeType.REJECT)
    return count


def _archived(batch: Any) -> int:
    """Return how many records a batch stores as archived."""
    return batch.last_offset - batch.first_offset + 1 if batch.delivery_state == DeliveryState.ARCHIVED else 0
