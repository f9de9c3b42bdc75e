"""Events in, groups out: each exchange of an API about groups goes to its handler."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from msgspec.structs import replace

from kshark.analysis import Moment
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.facts.settings import CONFIG_APIS
from kshark.analysis.states.operations.chains import ADMINISTRATION_APIS, Administration
from kshark.analysis.states.operations.listing import READS, Operation
from kshark.api_keys import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DELETE_TOPICS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    METADATA,
    OFFSET_COMMIT,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
    SYNC_GROUP,
)
from kshark.clusters import Clusters
from kshark.endpoints import host_of
from kshark.groups import classic, coordinators, descriptions, heartbeats
from kshark.groups.expiry import expire, silence_of
from kshark.groups.listed import Assigned, GroupOffset, GroupSetting, GroupType, ListedGroup, ListedMember, Silence
from kshark.groups.log_ends import LogEnds
from kshark.groups.missing import missing_of
from kshark.groups.offsets import OFFSET_APIS, GroupOffsets
from kshark.groups.rebalances.listing import Rebalance
from kshark.groups.rebalances.tracker import MEMBER_APIS, Rebalances
from kshark.groups.recorded import RecordedChanges
from kshark.groups.silence import Traffic
from kshark.groups.table import Group, GroupExchange, GroupTable
from kshark.groups.unassigned import PartitionCounts, unassigned
from kshark.model import Event, Exchange, Flow, Message

#: The number of a group's cluster, and the group id.
GroupKey = tuple[int, str]
_HANDLERS: Final[dict[int, Callable[[GroupTable, GroupExchange], Sequence[str]]]] = {
    FIND_COORDINATOR: coordinators.find_coordinator,
    JOIN_GROUP: classic.joined,
    HEARTBEAT: classic.stayed,
    LEAVE_GROUP: classic.left,
    SYNC_GROUP: classic.synced,
    DESCRIBE_GROUPS: descriptions.described,
    LIST_GROUPS: descriptions.listed,
    DELETE_GROUPS: descriptions.deleted,
    CONSUMER_GROUP_HEARTBEAT: heartbeats.heartbeat,
    CONSUMER_GROUP_DESCRIBE: descriptions.described,
    SHARE_GROUP_HEARTBEAT: heartbeats.heartbeat,
    SHARE_GROUP_DESCRIBE: descriptions.described,
    SHARE_FETCH: heartbeats.session,
    SHARE_ACKNOWLEDGE: heartbeats.session,
    STREAMS_GROUP_HEARTBEAT: heartbeats.heartbeat,
    STREAMS_GROUP_DESCRIBE: descriptions.described,
}
#: APIs that change topics, and with them the epochs of groups that read them.
TOPIC_CHANGES: Final = frozenset({CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS})
#: APIs whose bodies are read, besides those that name topics and clients' software.
APIS: Final = ADMINISTRATION_APIS | CONFIG_APIS | TOPIC_CHANGES | _HANDLERS.keys() | {METADATA}


class Groups:
    """Collect the groups of a capture: `feed` takes events in the order of the time line and returns the groups that an
    event is about, `listed` returns all groups. Groups of different clusters are different, even with the same id.

    `names`: topic names by id, read as they become known. With them the offsets of groups are listed too, if the bodies
    of OFFSET_APIS are decoded. `longest_pause_ns`: the longest time between two times without a packet,
    and `cluster_of` the number of a connection's cluster, for those who feed a part of the events only.
    """

    def __init__(
        self,
        names: Mapping[str, str] | None = None,
        *,
        longest_pause_ns: Callable[[int, int], int] | None = None,
        cluster_of: Callable[[Flow], int] | None = None,
    ) -> None:
        self._cluster_of = cluster_of
        self._clusters = Clusters()
        self._ends = None if names is None else LogEnds(names)
        self._traffic = Traffic(longest_pause_ns)
        self._of = {0: _Cluster(self._traffic)}

    @property
    def left_out(self) -> int:
        """The number of groups that were dropped."""
        return sum(cluster.table.groups_left_out for cluster in self._of.values())

    def feed(self, event: Event) -> list[GroupKey]:
        self._traffic.feed(event)
        if not isinstance(event, Exchange):
            for cluster in self._of.values():
                cluster.feed(event)
            return []
        number = self._number(event.flow, event.response)
        cluster = self._of.get(number) or self._of.setdefault(number, _Cluster(self._traffic))
        if self._ends is not None:
            self._ends.feed(event, number)
        return [(number, group_id) for group_id in cluster.feed(event, offsets=self._ends is not None)]

    def _number(self, flow: Flow, response: Message | None = None) -> int:
        """Return the number of a connection's cluster, of which a response may tell more."""
        if self._cluster_of is not None:
            return self._cluster_of(flow)
        if response is not None:
            self._clusters.learn(response)
        return self._clusters.number(flow.broker)

    def alive(self, group_id: str, member_id: str, at: Moment, flow: Flow) -> None:
        """Take an accepted heartbeat that changed nothing."""
        cluster = self._of.get(self._number(flow))
        group = None if cluster is None else cluster.table.groups.get(group_id)
        if cluster is not None and group is not None and member_id in group.members:
            group.life(member_id).beats(at, flow.id, host_of(flow.client), is_answered=True)
            cluster.rebalances.alive(group_id, member_id, at)

    def passes(self, message: Message) -> None:
        """Let the time of a message pass, without its content."""
        self._traffic.feed(message)

    def close(self) -> None:
        """End the events, and with them the operations of administrators."""
        for cluster in self._of.values():
            cluster.close()

    def listed(
        self, names: Mapping[str, str], only: Container[GroupKey] | None = None, *, rebalances: bool = False
    ) -> list[ListedGroup]:
        """Return the groups of which more than the coordinator is known, by id. `names`: topic names by topic id.
        `only`: restrict to these groups. `rebalances`: with their rebalances."""
        self._expire()
        every = [
            (group_id, number, group)
            for number, one in self._of.items()
            for group_id, group in one.table.groups.items()
        ]
        return [
            replace(
                _listed(
                    group, names, self._clusters.id(number), self._of[number].table, self._offsets(number, group, names)
                ),
                unassigned=[*unassigned(group, self._of[number].partitions, names)],
                **(self._of[number].rebalanced(group) if rebalances else {}),
            )
            for group_id, number, group in sorted(every, key=itemgetter(0, 1))
            if group.is_known and (only is None or (number, group_id) in only)
        ]

    def rebalanced(self, key: GroupKey, count: int) -> tuple[int, list[Rebalance]]:
        """Return the number of a group's rebalances that are over, and those after the first `count` ones."""
        cluster, group = self._of[key[0]], self._of[key[0]].table.groups.get(key[1])
        if group is None:
            return 0, []
        return cluster.rebalances.count(key[1]), cluster.rebalances.since(group, count)

    def rebalancing(self, now: Moment) -> Iterator[tuple[GroupKey, Rebalance]]:
        """Yield the rebalances that are not over, or are so by what is known now, after the last event. Change
        nothing."""
        for number, cluster in self._of.items():
            for group_id, group in cluster.table.groups.items():
                lasting = cluster.rebalances.lasting(cluster.table, group, now)
                if lasting is not None:
                    yield (number, group_id), lasting

    def type(self, key: GroupKey) -> GroupType | None:
        """Return the type of a group."""
        cluster = self._of.get(key[0])
        group = None if cluster is None else cluster.table.groups.get(key[1])
        return None if group is None else group.latest.type

    def _offsets(self, number: int, group: Group, names: Mapping[str, str]) -> list[GroupOffset]:
        ends = self._ends
        return [] if ends is None else self._of[number].offsets.of(group.group_id, ends, number, names)

    def setting(self, group: GroupKey, name: str) -> GroupSetting | None:
        """Return a setting of a share group; None if the capture does not show it."""
        cluster, group_id = group
        shown = self._of[cluster].table.settings.of(group_id, "share") if cluster in self._of else []
        return next((setting for setting in shown if setting.name == name), None)

    def presence(self) -> dict[GroupKey, dict[str, bool | None]]:
        """Return whether each member of each share group is in it now; None: the capture does not show it.

        A group of which nobody knows the type is taken for a share group.
        """
        self._expire()
        return {
            (number, group_id): {
                member.member_id: _presence(cluster.table, group, member)[0] for member in group.members.values()
            }
            for number, cluster in self._of.items()
            for group_id, group in cluster.table.groups.items()
            if group.latest.type in ("share", None)
        }

    def _expire(self) -> None:
        for cluster in self._of.values():
            for group in cluster.table.groups.values():
                expire(cluster.table, group)


class _Cluster:
    """The groups of one cluster."""

    def __init__(self, traffic: Traffic) -> None:
        self.table = GroupTable(traffic)
        self.offsets = GroupOffsets()
        self.rebalances = Rebalances()
        self.partitions = PartitionCounts()
        self._administration = Administration()

    def feed(self, event: Event, *, offsets: bool = False) -> Sequence[str]:
        """Return the ids of the groups that an event is about. `offsets`: take offsets of groups too."""
        for operation in self._take(self._administration.feed(event)):
            group = self.table.of(operation.group_id)
            if operation.in_sight and operation.operation not in READS and group.latest.type is None:
                # Only share groups have a state that share coordinators keep.
                group.become(Moment(operation.packet, operation.time_ns), "inferred", type="share")
        if isinstance(event, Exchange):
            self.table.sight.feed(event)
            self.table.records.feed(event)
        if not isinstance(event, Exchange) or event.request is None:
            return ()
        return self._exchange(event, event.request, offsets=offsets)

    def _exchange(self, event: Exchange, request: Message, *, offsets: bool) -> Sequence[str]:
        handled = request.api_key if isinstance(request.api_key, int) else -1
        handler = _HANDLERS.get(handled)
        if handled in TOPIC_CHANGES:
            changed_at = Moment(request.packet, request.time_ns)
            self.table.topics_changed.feed(request.body if is_whole(request) else None, changed_at)
        if handler is not None and handled in MEMBER_APIS:
            self._note_unread(event)
        if not is_whole(request):
            return ()
        answer = event.response.body if event.response is not None and is_whole(event.response) else None
        since, at = (Moment(one.packet, one.time_ns) for one in (request, event.response or request))
        client_id = request.client_id if isinstance(request.client_id, str) else None
        exchange = GroupExchange(event.flow, handled, client_id, request.body, answer, since, at)
        self._learn(exchange, offsets=offsets)
        if handler is None:
            if handled == OFFSET_COMMIT:
                classic.committed(self.table, exchange)
                self.rebalances.take(self.table, exchange)
            return _administered(request) if handled in ADMINISTRATION_APIS else ()
        named = self.table.groups.get(getattr(request.body, "group_id", None) or "")
        if named is not None:
            expire(self.table, named, getattr(request.body, "member_id", None))
        changed = handler(self.table, exchange)
        self.rebalances.take(self.table, exchange)
        return changed

    def _note_unread(self, exchange: Exchange) -> None:
        """Take messages that cannot be read as lost ones."""
        for message in (exchange.request, exchange.response):
            if message is not None and not is_whole(message):
                self.table.traffic.unread(message, exchange.flow)

    def _learn(self, exchange: GroupExchange, *, offsets: bool) -> None:
        """Take what is no message of a member: partitions, settings, and offsets if they are asked for."""
        if exchange.api_key == METADATA:
            self.partitions.feed(exchange.answer)
        if exchange.api_key in CONFIG_APIS:
            self.table.configured(exchange)
        if offsets and exchange.api_key in OFFSET_APIS:
            self.offsets.feed(exchange)

    def rebalanced(self, group: Group) -> dict[str, Any]:
        """Return the fields of a listed group about its rebalances."""
        rows: list[Rebalance] = self.rebalances.since(group, 0)
        lasting = self.rebalances.lasting(self.table, group, self.table.traffic.now)
        left_out = self.rebalances.count(group.group_id) - len(rows)
        return {
            "rebalances": sorted([*rows, *([lasting] if lasting else [])], key=lambda row: row.packet),
            "rebalances_left_out": left_out,
        }

    def close(self) -> None:
        """End the events, and with them the operations of administrators."""
        self._take(self._administration.close())

    def _take(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        for operation in operations:
            self.table.of(operation.group_id).administered(operation)
        return operations


def _administered(request: Message) -> Sequence[str]:
    """Return the groups that a request of an administrator, or to a share coordinator, names."""
    body = request.body
    named = [body] if hasattr(body, "group_id") else getattr(body, "groups", None) or ()
    return [one.group_id for one in named]


def _listed(
    group: Group, names: Mapping[str, str], cluster_id: str | None, table: GroupTable, offsets: list[GroupOffset]
) -> ListedGroup:
    latest = group.latest
    return ListedGroup(
        group_id=group.group_id,
        type=latest.type,
        protocol_type=group.protocol_type if latest.type == "classic" else None,
        state=latest.state,
        group_epoch=latest.group_epoch,
        assignment_epoch=latest.assignment_epoch,
        generation=latest.generation,
        assignor=group.assignor,
        coordinators=[*group.coordinators],
        history=[*group.history],
        members=[_member(table, group, member, names) for member in group.members.values()],
        operations=[_operation(one, names, table.records) for one in group.operations],
        history_left_out=group.changes - len(group.history),
        members_left_out=group.members_left_out,
        operations_left_out=group.operations_left_out,
        cluster_id=cluster_id,
        not_captured=[*missing_of(group, table.sight)],
        settings=table.settings.of(group.group_id, latest.type),
        offsets=offsets,
        unassigned=[],
    )


def _member(table: GroupTable, group: Group, member: ListedMember, names: Mapping[str, str]) -> ListedMember:
    style, assignment = group.styles.get(member.member_id), member.assignment
    present, silent = _presence(table, group, member)
    return replace(
        member,
        present=present,
        silent=silent,
        assignment=None if assignment is None else [_named(one, names) for one in assignment],
        acknowledges=None if style is None else style.inferred(),
    )


def _presence(table: GroupTable, group: Group, member: ListedMember) -> tuple[bool | None, Silence | None]:
    """Return whether a member is in its group, and its silence if that is unknown."""
    if member.present:
        silent = silence_of(table, group, member)
        return (True if silent is None else None), silent
    return (False if member.ended is not None or member.member_id in group.refused else None), None


def _operation(one: Operation, names: Mapping[str, str], records: RecordedChanges) -> Operation:
    rows = [
        row if row.topic is not None else replace(row, topic=names.get(row.topic_id or "")) for row in one.partitions
    ]
    return replace(one, partitions=rows, records=records.of(one) or None)


def _named(one: Assigned, names: Mapping[str, str]) -> Assigned:
    topic = one.topic if one.topic is not None or one.topic_id is None else names.get(one.topic_id)
    return Assigned(one.topic_id, topic, sorted(one.partitions))
