"""Changes of a cluster and of the capture, from single exchanges and events: leaders, topics, administration, refused
connections, missing packets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark import limits
from kshark.api_keys import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
)
from kshark.clusters import Clusters
from kshark.endpoints import endpoint, host_of
from kshark.error_names import ERROR_NAMES
from kshark.model import Closed, Event, Exchange, Gap, Message, Weird
from kshark.names import TopicNames
from kshark.timeline.entry import Entry, Kind

#: Happenings of one kind and place that are closer in time than this are one entry.
_TOGETHER_NS: Final = 5_000_000_000
#: Weirds that are entries.
_OF_CAPTURE: Final = {
    "PACKETS_DROPPED": "the recording host dropped packets",
    "CLOCK_STEP": "the capture's clock was stepped",
    "CAPTURE_UNREAD": "the rest of the file could not be read",
}
#: Requests of administrators with one result for each resource: the name of the list in the answer, and of the result.
_ALTERATIONS: Final = {
    ALTER_CONFIGS: ("responses", "resource_name", "configuration of"),
    INCREMENTAL_ALTER_CONFIGS: ("responses", "resource_name", "configuration of"),
    21: ("topics", "name", "records deleted in"),
    37: ("results", "name", "partitions added to"),
    45: ("responses", "name", "replicas reassigned of"),
    43: ("replica_election_results", "topic", "leaders elected of"),
    30: ("results", "", "ACLs created"),
    31: ("filter_results", "", "ACLs deleted"),
    49: ("entries", "", "client quotas changed"),
    51: ("results", "user", "SCRAM credentials changed of"),
    57: ("results", "feature", "feature updated:"),
    64: ("", "", "a broker was unregistered"),
}


class _Partition(NamedTuple):
    cluster: int
    topic: str
    partition: int


class Changes:
    """Collect the changes that exchanges and other events show. `entries`: those so far."""

    def __init__(self, names: TopicNames) -> None:
        self.entries: list[Entry] = []
        self.left_out = 0
        self._names = names
        self._clusters = Clusters()
        #: The leader of each partition: node id, and leader epoch (-1: unknown).
        self._leaders: dict[_Partition, tuple[int, int]] = {}
        #: The last entry of each kind and place, which the next one may extend.
        self._last: dict[tuple[Kind, str], Entry] = {}
        self._handlers: Final[dict[int, Callable[[Message, Message], Iterable[Entry]]]] = {
            METADATA: self._metadata,
            CREATE_TOPICS: self._topics_made,
            DELETE_TOPICS: self._topics_deleted,
            **dict.fromkeys(_ALTERATIONS, _altered),
        }

    def page(self, events: Iterable[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind is Exchange:
                self._exchange(event)  # type: ignore[arg-type]
            elif kind is Closed:
                self._closed(event)  # type: ignore[arg-type]
            elif kind is Gap:
                self._gap(event)  # type: ignore[arg-type]
            elif kind is Weird and event.code in _OF_CAPTURE:  # type: ignore[union-attr]
                self._weird(event)  # type: ignore[arg-type]

    def add(self, entry: Entry) -> None:
        """Add an entry, unless there are limits.TIMELINE_ENTRIES already."""
        if len(self.entries) >= limits.TIMELINE_ENTRIES:
            self.left_out += 1
        else:
            self.entries.append(entry)

    def _extend(self, entry: Entry, place: str) -> None:
        """Add an entry, or extend the last one of this kind and place if that was just before."""
        last = self._last.get((entry.kind, place))
        if last is not None and entry.time_ns - (last.until_ns or last.time_ns) < _TOGETHER_NS:
            last.count += 1
            last.until_ns, last.until_packet = entry.time_ns, entry.packet
            return
        if len(self._last) < limits.TIMELINE_ENTRIES:
            self._last[entry.kind, place] = entry
        self.add(entry)

    # -- exchanges

    def _exchange(self, exchange: Exchange) -> None:
        request, response = exchange.request, exchange.response
        if request is None or response is None or not isinstance(request.api_key, int):
            return
        handler = self._handlers.get(request.api_key)
        if handler is not None and _is_read(request) and _is_read(response):
            self._clusters.learn(response)
            for entry in handler(request, response):
                self.add(entry)

    def _metadata(self, request: Message, response: Message) -> Iterator[Entry]:
        """Compare the leaders of partitions with those of earlier answers. A lower leader epoch is older."""
        body: Any = response.body
        cluster = self._clusters.number(response.broker)
        nodes = {node.node_id: endpoint(node.host, node.port) for node in body.brokers or () if node.host is not None}
        for topic in body.topics or ():
            name = getattr(topic, "name", None) or self._names.by_id.get(getattr(topic, "topic_id", ""))
            if topic.error_code or name is None:
                continue
            for row in topic.partitions or ():
                partition = _Partition(cluster, name, row.partition_index)
                epoch = getattr(row, "leader_epoch", -1)
                leader, known = self._leaders.get(partition, (row.leader_id, -1))
                if row.leader_id < 0 or (0 <= epoch < known):
                    continue
                if partition in self._leaders or len(self._leaders) < limits.SHARE_PARTITIONS:
                    self._leaders[partition] = row.leader_id, epoch
                if row.leader_id != leader:
                    where = nodes.get(row.leader_id)
                    text = f"leader of {name}[{row.partition_index}] moved from broker {leader} to {row.leader_id}"
                    text += f" ({where})" if where is not None else ""
                    yield Entry(
                        response.time_ns, response.packet, "leader", text, broker=where, topic=name,
                        partition=row.partition_index,
                    )  # fmt: skip

    def _topics_made(self, request: Message, response: Message) -> Iterator[Entry]:
        body: Any = response.body
        asked = {topic.name: topic for topic in getattr(request.body, "topics", None) or ()}
        for topic in body.topics or ():
            count = getattr(topic, "num_partitions", -1)
            count = (
                count if isinstance(count, int) and count > 0 else getattr(asked.get(topic.name), "num_partitions", -1)
            )
            size = f" with {count} partition{'' if count == 1 else 's'}" if count > 0 else ""
            yield _topic(request, response, topic.name, topic.error_code, f"created{size}", "create")

    def _topics_deleted(self, request: Message, response: Message) -> Iterator[Entry]:
        body: Any = response.body
        for topic in body.responses or ():
            name = topic.name or self._names.by_id.get(getattr(topic, "topic_id", ""), getattr(topic, "topic_id", "?"))
            yield _topic(request, response, name, topic.error_code, "deleted", "delete")

    # -- other events

    def _closed(self, event: Closed) -> None:
        """Take a SYN that was answered with a RST, or not at all."""
        flow = event.flow
        if flow.opened_by is None or any(flow.stream_bytes) or event.how != "rst" or event.side != 1 - flow.opened_by:
            return
        broker, client = flow.ends[1 - flow.opened_by], flow.ends[flow.opened_by]
        text = f"{broker} refused connections of {host_of(client)}"
        entry = Entry(event.time_ns, event.packet, "connection", text, broker=broker, client=host_of(client))
        self._extend(entry, text)

    def _gap(self, gap: Gap) -> None:
        if gap.reason == "body":
            return
        ends = gap.flow.ends[gap.side], gap.flow.ends[1 - gap.side]
        text = f"bytes from {ends[0]} to {ends[1]} are missing"
        if gap.reason == "unlogged":
            if gap.side != gap.flow.calling_side:
                return
            text = f"requests of {ends[0]} to {ends[1]} may be missing"
        self._extend(Entry(gap.time_ns, gap.packet, "capture", text, broker=gap.flow.broker), text)

    def _weird(self, weird: Weird) -> None:
        text = _OF_CAPTURE[weird.code] + (f": {weird.detail}" if weird.detail else "")
        self._extend(Entry(weird.time_ns, weird.packet, "capture", text, code=weird.code), weird.code)


def _altered(request: Message, response: Message) -> Iterator[Entry]:
    """Take an administrator's request with a result for each resource."""
    assert isinstance(request.api_key, int)
    rows_name, name_name, what = _ALTERATIONS[request.api_key]
    body: Any = response.body
    rows = getattr(body, rows_name, None) or () if rows_name else (body,)
    names = [str(name) for row in rows if name_name and (name := getattr(row, name_name, None)) is not None]
    errors = [code for row in rows if (code := getattr(row, "error_code", 0))]
    if top := getattr(body, "error_code", 0):
        errors = [top]
    named = " " + ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") if names else ""
    text = f"{_who(request)}: {what}{named}"
    if errors:
        text += f", refused with {ERROR_NAMES.get(errors[0], errors[0])}"
    yield _entry(request, response, "administration", text)


def _topic(request: Message, response: Message, name: str, error: int, done: str, verb: str) -> Entry:
    if error:
        text = f"{_who(request)} could not {verb} topic {name}: {ERROR_NAMES.get(error, f'error {error}')}"
    else:
        text = f"topic {name} was {done} by {_who(request)}"
    entry = _entry(request, response, "topic", text)
    entry.topic = name
    return entry


def _entry(request: Message, response: Message, kind: Kind, text: str) -> Entry:
    client_id = request.client_id if isinstance(request.client_id, str) else None
    return Entry(
        response.time_ns, response.packet, kind, text, broker=response.broker, client=request.client,
        client_id=client_id,
    )  # fmt: skip


def _who(request: Message) -> str:
    return request.client_id if isinstance(request.client_id, str) and request.client_id else host_of(request.client)


def _is_read(message: Message) -> bool:
    return message.body is not None and message.body is not UNSET


#: APIs whose bodies are read.
APIS: Final = frozenset({METADATA, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, *_ALTERATIONS})
