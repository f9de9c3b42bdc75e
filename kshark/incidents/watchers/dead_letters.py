"""Records that a share group gives up, and that reach no dead-letter queue although it has one. Incident 140.

Source: KIP-1191; Kafka 4.4: GroupConfig, TopicConfig, ShareGroupDLQStateManager. The leader of the partition writes
given up records to the queue with Produce requests, and stores the states "archiving" before and "archived" after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from kshark import limits
from kshark.analysis.facts.bases import DELIVERY_LIMIT, NO_ADMIN, NO_CONNECTION
from kshark.analysis.facts.clock import PacketTime
from kshark.analysis.facts.reading import is_whole
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
from kshark.incidents.sentences import time_of
from kshark.incidents.watcher import NOTHING, Awaited, ConnectionEvent, Watcher
from kshark.model import Exchange, Flow, Gap, Message, Witness
from kshark.units import counted
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


#: The number of a cluster, and the name of a group or topic there.
_Named = tuple[int, str]
#: The id of a topic, and a partition.
_Partition = tuple[str, int]


class _Step(Struct, frozen=True, eq=False):
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

    def __init__(self, group_id: str, queue: _Named, shown_by: _Step) -> None:
        self.group_id = group_id
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
        #: By cluster and name: groups with a queue, topics, delivery limits of groups without a queue so far.
        self._groups: dict[_Named, _Group] = {}
        self._topics: dict[_Named, _Topic] = {}
        self._limits: dict[_Named, int] = {}
        #: By cluster: the delivery limit of groups without their own, as a broker shows it.
        self._default_limits: dict[int, int] = {}
        #: Groups whose queue was changed.
        self._former: list[_Group] = []
        #: The last packet with lost bytes.
        self._lost = 0

    def event(self, event: ConnectionEvent) -> Iterable[Incident]:
        self._lost = event.packet
        return NOTHING

    def exchange(self, exchange: Exchange) -> Iterable[Incident]:
        request, response = exchange.request, exchange.response
        if request is None or response is None or (not self._groups and request.api_key in _RECORDS):
            return NOTHING
        if not is_whole(request) or not is_whole(response):
            return NOTHING
        api_key, cluster = request.api_key, self.scene.cluster_of(exchange.flow)
        if api_key in _SESSION:
            if (group := self._group_of(cluster, request.body)) is not None:
                self._acknowledged(group, exchange, request.body, response.body)
        elif api_key == PRODUCE:
            self._produced(cluster, response)
        elif api_key == WRITE_SHARE_GROUP_STATE:
            if (group := self._group_of(cluster, request.body)) is not None:
                self._stored(group, exchange, request.body)
        elif api_key in _CONFIGS:
            self._configured(cluster, exchange, request.body, response.body)
        else:
            self._learn(cluster, api_key, response.body)
        return NOTHING

    def refused(self, exchange: Exchange, codes: Sequence[PlacedCode]) -> Iterable[Incident]:
        response = exchange.response
        if not self._groups or exchange.request is None or response is None or response.api_key != PRODUCE:
            return NOTHING
        cluster = self.scene.cluster_of(exchange.flow)
        for topic in getattr(response.body, "responses", None) or ():
            known = self._topics.get((cluster, self._name(topic) or ""))
            if known is not None and any(it.error_code in _NO_TOPIC for it in topic.partition_responses or ()):
                known.refused = _step(exchange)
        return NOTHING

    def close(self) -> Iterable[Incident]:
        for group in (*self._former, *self._groups.values()):
            yield from self._over(group)

    def _group_of(self, cluster: int, body: Any) -> _Group | None:
        return self._groups.get((cluster, getattr(body, "group_id", None) or ""))

    def _topic(self, named: _Named) -> _Topic:
        topic = self._topics.get(named)
        if topic is None:
            topic = _Topic()
            if len(self._topics) < limits.GROUPS:
                self._topics[named] = topic
        return topic

    # -- queues and topics

    def _configured(self, cluster: int, exchange: Exchange, asked: Any, answer: Any) -> None:
        """Take settings of groups and topics that an answer shows, or that were changed."""
        shown = getattr(answer, "results", None)
        accepted = {
            (it.resource_type, it.resource_name)
            for it in shown or getattr(answer, "responses", None) or ()
            if it.error_code == 0
        }
        if getattr(asked, "validate_only", False):
            return
        for resource in shown or getattr(asked, "resources", None) or ():
            if (resource.resource_type, resource.resource_name) not in accepted:
                continue
            named, configs = (cluster, resource.resource_name), resource.configs or ()
            if resource.resource_type == ConfigResourceType.TOPIC:
                self._set_topic(named, configs)
            elif resource.resource_type == ConfigResourceType.GROUP:
                self._set_group(named, exchange, configs)
            elif resource.resource_type == ConfigResourceType.BROKER and shown:
                self._set_default(cluster, configs)

    def _set_default(self, cluster: int, configs: Iterable[Any]) -> None:
        """Take the delivery limit that a broker shows, for groups without their own."""
        value = next((_value(config) for config in configs if config.name == DELIVERY_LIMIT.name), "")
        if value.isdecimal():
            self._default_limits[cluster] = int(value)
            for (of, _), group in self._groups.items():
                if of == cluster and group.limit is None:
                    group.limit = int(value)

    def _set_topic(self, named: _Named, configs: Iterable[Any]) -> None:
        for config in configs:
            if config.name == _ENABLE:
                self._topic(named).is_enabled = _value(config) == "true"

    def _set_group(self, named: _Named, exchange: Exchange, configs: Iterable[Any]) -> None:
        values = {config.name: _value(config) for config in configs}
        if exchange.request is not None and exchange.request.api_key == ALTER_CONFIGS:
            # It sets all others to their defaults.
            values = {_QUEUE: "", **values}
        limit, queue = values.get(_LIMIT, ""), values.get(_QUEUE)
        if limit.isdecimal() and len(self._limits) < limits.GROUPS:
            self._limits[named] = int(limit)
        group = self._groups.get(named)
        if queue is not None and (group is None or group.queue[1] != queue):
            if group is not None and len(self._former) < limits.GROUPS:
                self._former.append(self._groups.pop(named))
            if queue and len(self._groups) < limits.GROUPS:
                self._groups[named] = _Group(named[1], (named[0], queue), _step(exchange))
        if named in self._groups:
            self._groups[named].limit = self._limits.get(named, self._default_limits.get(named[0]))

    def _learn(self, cluster: int, api_key: Any, answer: Any) -> None:
        """Take the topics that Metadata shows, or that are created or deleted."""
        is_deletion = api_key == DELETE_TOPICS
        for topic in getattr(answer, "responses" if is_deletion else "topics", None) or ():
            name = self._name(topic)
            if name and is_deletion and topic.error_code == 0:
                self._topics[cluster, name] = _Topic(exists=False)
            elif name and not is_deletion:
                self._see((cluster, name), topic)

    def _see(self, named: _Named, topic: Any) -> None:
        if topic.error_code == 0:
            self._topic(named).exists = True
        elif topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._topic(named).exists = False
        self._set_topic(named, getattr(topic, "configs", None) or ())

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

    def _produced(self, cluster: int, response: Message) -> None:
        queues = {group.queue for group in self._groups.values()}
        for topic in getattr(response.body, "responses", None) or ():
            named = cluster, self._name(topic) or ""
            if named in queues and any(partition.error_code == 0 for partition in topic.partition_responses or ()):
                queue = self._topic(named)
                queue.written, queue.exists, queue.refused = response.packet, True, None

    def _over(self, group: _Group) -> Iterator[Incident]:
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
            f"group {group.group_id} gave up {counted(max(group.given_up, group.archived), 'record')} "
            f"({_packets(since.packet, last.asked.packet)}) that did not reach its dead-letter queue "
            f"{group.queue[1]}: {_WHY[cause]}",
            Where(group_id=group.group_id),
            tuple(step.witness for step in dict.fromkeys(steps)),
            cause=cause,
            because="hidden_traffic" if cause is None else None,
        )


def _value(config: Any) -> str:
    """Return the value of a setting; empty for the default."""
    is_set = getattr(config, "config_operation", ConfigOperation.SET) == ConfigOperation.SET
    return config.value if is_set and isinstance(config.value, str) else ""


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
