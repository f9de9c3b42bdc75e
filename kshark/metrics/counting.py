"""Count events: share requests, heartbeats and requests to share coordinators, with results of the analysis."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from kshark import limits
from kshark.analysis import APIS as ANALYSED
from kshark.analysis import Analyzer, Change, Holder, InFlightState, Listed, ListedSession, WaitingGroup
from kshark.analysis.facts.reading import is_whole
from kshark.analysis.results.statistics import acknowledged_types, waited_in_full
from kshark.api_keys import (
    PRODUCE,
    READ_SHARE_GROUP_STATE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
    WRITE_SHARE_GROUP_STATE,
)
from kshark.clusters import Clusters
from kshark.endpoints import host_of
from kshark.groups import APIS as GROUP_APIS
from kshark.groups import Groups
from kshark.metrics.arrivals import Arrivals
from kshark.metrics.counts import (
    EMPTY,
    FAILED,
    IDLE,
    RECORDS,
    UNANSWERED,
    UNREAD,
    Counted,
    GroupCounts,
    GroupKey,
    MemberCounts,
    PartitionCounts,
    PartitionId,
)
from kshark.model import Event, Exchange, Message
from kshark.names import TopicNames
from kshark_dissectors.topics import NAMING_APIS

#: APIs whose bodies must be decoded.
APIS: Final = ANALYSED | GROUP_APIS | NAMING_APIS | {PRODUCE, READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE}

_JOIN: Final = 0

#: Events after which records can be acquired again; _LOST: without an action of their member.
_LOST: Final = frozenset({"lock_timeout", "session_released"})
_GIVEN_BACK: Final = _LOST | {"released"}

_Answer = dict[PartitionId, Any]


class ShareEvents:
    """Count share requests, heartbeats and requests to share coordinators, into `counted`.

    An Analyzer judges the same events: give `page` its ended sessions (`listed`), and `changed` the changes of records.
    `names` learns the names of topics. `counts` selects the events and times that are counted: other events only update
    what later ones are compared with.
    """

    def __init__(
        self, names: TopicNames, counts: Callable[[Event | int], bool] = lambda _: True, counted: Counted | None = None
    ) -> None:
        self._arrivals = Arrivals(names.by_id)
        self._counts = counts
        self._names = names
        #: The clusters of brokers' addresses, as far as they are known.
        self.clusters = Clusters()
        self._to = Counted() if counted is None else counted
        self._last_ns = 0
        #: Fetches without a response, with the latest time until which the broker may wait.
        self._open: deque[tuple[MemberCounts, int]] = deque(maxlen=limits.STATISTICS_ROWS)
        self._handlers: Final[dict[int, Callable[[Exchange, Message, Message | None], None]]] = {
            PRODUCE: self._produce,
            SHARE_FETCH: self._fetch,
            SHARE_ACKNOWLEDGE: self._acknowledge,
            SHARE_GROUP_HEARTBEAT: self._heartbeat,
            SHARE_GROUP_DESCRIBE: self._describe,
            READ_SHARE_GROUP_STATE: self._state,
            WRITE_SHARE_GROUP_STATE: self._state,
        }

    def page(self, events: Iterable[Event], listed: Iterable[Listed] = ()) -> None:
        """Count events in the order of the time line."""
        for event in events:
            self._event(event)
        self._sessions(listed)

    def _event(self, event: Event) -> None:
        if type(event) is Message:
            self._last_ns = max(self._last_ns, event.time_ns)
            self._names.learn(event)
            self.clusters.learn(event)
            if self._counts(event):
                self._to.span.add(event.time_ns)
        elif type(event) is Exchange and (request := event.request) is not None:
            handler = self._handlers.get(request.api_key) if isinstance(request.api_key, int) else None
            if handler is not None and is_whole(request):
                handler(event, request, event.response)

    def _group(self, group_id: str | None, broker: str) -> GroupKey:
        """Return the key of a group in the cluster of that broker."""
        return GroupKey(group_id, self.clusters.number(broker))

    def _partitions(self, entry: InFlightState | Holder | WaitingGroup) -> Iterator[PartitionCounts]:
        """Return the counts of a partition. Several clusters may have the same topic id (mirrored by its creator)."""
        partition = PartitionId(entry.topic_id, entry.partition)
        of_clusters = (
            self._to.partitions.get((GroupKey(entry.group_id, number), partition))
            for number in self.clusters.ids or (0,)
            if entry.cluster_id in (None, self.clusters.id(number))
        )
        return (counts for counts in of_clusters if counts is not None)

    # -- results of the analysis

    def changed(self, change: Change) -> None:
        """Take a change of the records in flight."""
        if change.event not in _GIVEN_BACK:
            return
        group_id, partition = change.partition.group_id, PartitionId(*change.partition.partition)
        group = self._group(group_id, change.partition.leader.addresses[0])
        self._arrivals.given_back(group, partition, change.time_ns)
        if change.event in _LOST and self._counts(change.time_ns):
            records = change.last - change.first + 1
            self._to.partition(group, partition).lost[change.event] += records
            if change.member_id is not None:
                self._to.member(group, change.member_id).lost[change.event] += records

    def _sessions(self, listed: Iterable[Listed]) -> None:
        for ended in listed:
            if not isinstance(ended, ListedSession) or not self._counts(ended.time_ns):
                continue
            session = ended.session
            member = self._to.member(self._group(session.group_id, session.broker), session.member_id)
            if session.closed is not None:
                member.sessions[session.closed.how] += 1
            member.session_partitions += ended.partitions or 0

    # -- share requests

    def _produce(self, _: Exchange, request: Message, response: Message | None) -> None:
        if response is not None and is_whole(response):
            self._arrivals.produced(request, response, self.clusters.number(request.broker))

    def _fetch(self, exchange: Exchange, request: Message, response: Message | None) -> None:
        if not self._counts(exchange):
            return
        asked = request.body
        member = self._member(exchange, request)
        member.last_fetch.put(request.time_ns)
        listed = _by_partition(asked.topics)
        if len(member.asked_for) < limits.SESSION_PARTITIONS:
            member.asked_for.update(listed)
        if response is None or not is_whole(response):
            outcome = UNANSWERED if exchange.outcome == "unanswered" else UNREAD
            member.fetches[outcome] += 1
            member.drought.outcomes[outcome, 0] += 1
            self._acknowledged(member, request, listed, None, {})
            if outcome == UNANSWERED:
                self._open.append((member, request.time_ns + asked.max_wait_ms * 1_000_000))
            return
        body = response.body
        answered = _by_partition(body.responses)
        self._acknowledged(
            member,
            request,
            listed,
            body.error_code,
            {key: result.acknowledge_error_code for key, result in answered.items()},
        )
        self._outcome(member, request, response, answered)

    def _outcome(self, member: MemberCounts, request: Message, response: Message, answered: _Answer) -> None:
        """Count the outcome of a fetch, and its time."""
        asked, body = request.body, response.body
        latency_ns = response.latency_ns if isinstance(response.latency_ns, int) else 0
        failed = {key: result.error_code for key, result in answered.items() if result.error_code}
        for key, code in failed.items():
            self._to.partition(self._group(asked.group_id, request.broker), key).failed[code] += 1
        since = [
            self._acquired(member, request, key, held)
            for key, result in answered.items()
            for held in result.acquired_records or ()
        ]
        outcome = (
            RECORDS
            if since
            else FAILED
            if body.error_code or failed
            else IDLE
            if waited_in_full(asked, latency_ns)
            else EMPTY
        )
        member.fetches[outcome] += 1
        member.latency.add(latency_ns)
        member.throttled.add(max(0, body.throttle_time_ms))
        if outcome == RECORDS:
            waited_ns = min(latency_ns, min(since) - request.time_ns)
            member.work.add(latency_ns - waited_ns)
            member.idle.add(waited_ns)
            member.bytes.add(sum(result.records.size for result in answered.values() if result.records))
            member.records.add(
                sum(
                    max(0, held.last_offset - held.first_offset + 1)
                    for result in answered.values()
                    for held in result.acquired_records or ()
                )
            )
            member.drought.rain(response.time_ns)
        else:
            (member.work if outcome == FAILED else member.idle).add(latency_ns)
            code = body.error_code or next(iter(failed.values()), 0)
            member.drought.outcomes[outcome, code] += 1
            if code:
                member.failed[code] += 1

    def _acquired(self, member: MemberCounts, request: Message, key: PartitionId, held: Any) -> int:
        """Count a delivered range of records; return the time since when the records were available."""
        group = self._group(request.body.group_id, request.broker)
        records = max(0, held.last_offset - held.first_offset + 1)
        partition = self._to.partition(group, key)
        partition.acquired[held.delivery_count] += records
        member.acquired[held.delivery_count] += records
        if held.delivery_count == 1:
            partition.ranges.add(records)
        return self._arrivals.since(group, key, held, request.time_ns)

    def _acknowledge(self, exchange: Exchange, request: Message, response: Message | None) -> None:
        if not self._counts(exchange):
            return
        member = self._member(exchange, request)
        listed = _by_partition(request.body.topics)
        if response is None or not is_whole(response):
            self._acknowledged(member, request, listed, None, {})
            return
        errors = {key: result.error_code for key, result in _by_partition(response.body.responses).items()}
        self._acknowledged(member, request, listed, response.body.error_code, errors)

    def _acknowledged(
        self,
        member: MemberCounts,
        request: Message,
        listed: _Answer,
        error: int | None,
        errors: Mapping[PartitionId, int],
    ) -> None:
        """Count the acknowledgements of a request.

        `error` is the response's own code, None without a response; `errors` are the codes of partitions.
        """
        acknowledges = failed = False
        for key, partition_data in listed.items():
            records = Counter[int]()
            for batch in partition_data.acknowledgement_batches or ():
                records.update(acknowledged_types(batch))
            code = error or errors.get(key) if error is not None else None
            partition = self._to.partition(self._group(request.body.group_id, request.broker), key) if records else None
            for kind, count in records.items():
                member.acknowledged[kind, code] += count
                if partition is not None:
                    partition.acknowledged[kind, code] += count
            acknowledges = acknowledges or bool(records)
            failed = failed or bool(records and code)
        member.acknowledging += acknowledges
        member.acknowledging_failed += failed

    # -- coordinators

    def _heartbeat(self, exchange: Exchange, request: Message, response: Message | None) -> None:
        if not self._counts(exchange):
            return
        asked, member = request.body, self._member(exchange, request)
        member.last_heartbeat.put(request.time_ns)
        answer = None if response is None or not is_whole(response) else response.body
        if response is None or answer is None:
            return
        if isinstance(response.latency_ns, int):
            member.heartbeats.add(response.latency_ns)
        if answer.error_code:
            member.refused[answer.error_code] += 1
            return
        if answer.member_epoch > 0:
            lowest = answer.member_epoch - 1 if asked.member_epoch == _JOIN else answer.member_epoch
            self._to.group(self._group(asked.group_id, request.broker)).epochs.add(lowest, answer.member_epoch)
        if answer.assignment is not None:
            assigned = {
                PartitionId(topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions or ()
                for partition in topic.partitions or ()
            }
            member.rebalances += assigned != (member.assigned.value or set())
            member.assigned.put(response.time_ns, assigned)

    def _describe(self, exchange: Exchange, request: Message, response: Message | None) -> None:
        """Count the members that a coordinator lists: the capture may have no message of theirs."""
        if response is None or not is_whole(response) or not self._counts(exchange):
            return
        for described in response.body.groups or ():
            group = self._group(described.group_id, request.broker)
            for row in described.members or () if not described.error_code else ():
                self._to.group(group)
                client = (row.client_id, row.client_host.removeprefix("/"))
                self._to.member(group, row.member_id).client.put(response.time_ns, client)

    def _state(self, exchange: Exchange, request: Message, response: Message | None) -> None:
        """Count a leader's read of a partition's state when its leadership begins, or its write."""
        if response is not None and isinstance(response.latency_ns, int) and self._counts(exchange):
            group = self._to.group(self._group(request.body.group_id, request.broker))
            (group.writes if request.api_key == WRITE_SHARE_GROUP_STATE else group.loads).add(response.latency_ns)
            if request.api_key == READ_SHARE_GROUP_STATE and is_whole(response):
                _unset(group, response)

    def _member(self, exchange: Exchange, request: Message) -> MemberCounts:
        body = request.body
        group = self._group(body.group_id, request.broker)
        self._to.group(group)
        member = self._to.member(group, body.member_id)
        client_id = request.client_id if isinstance(request.client_id, str) else None
        member.client.put(request.time_ns, (client_id, host_of(exchange.flow.client)))
        return member


class ShareCounting(ShareEvents):
    """Count a capture's events, with an Analyzer of its own.

    `page` takes events in the order of the time line; `close` returns the counts.
    """

    def __init__(self, names: TopicNames, counts: Callable[[Event | int], bool] = lambda _: True) -> None:
        super().__init__(names, counts)
        self._analyzer = Analyzer(sessions=True, transactions=True, on_change=self.changed)
        self._groups = Groups()

    def page(self, events: Iterable[Event], listed: Iterable[Listed] = ()) -> None:
        for event in events:
            self._analyzer.feed(event)
            self._groups.feed(event)
            self._event(event)
        self._sessions(chain(listed, self._analyzer.listed()))

    def close(self) -> Counted:
        """End the capture and return the counts; what is still open counts as open."""
        for state in self._analyzer.in_flight(self._last_ns):
            for counts in self._partitions(state):
                counts.start.put(self._last_ns, state.start_offset)
                counts.end.put(self._last_ns, state.end_offset)
        for holder in self._analyzer.holders(self._last_ns):
            for counts in self._partitions(holder):
                counts.held[holder.member_id] += holder.records
        for member, until_ns in self._open:
            member.waiting += until_ns >= self._last_ns
        self._groups.close()
        for group, of_group in self._to.groups.items():
            reset = self._groups.setting((group.cluster, group.group_id or ""), "share.auto.offset.reset")
            if reset is not None:
                of_group.reset.put(reset.time_ns, reset.value)
        self._note_waiting()
        presence = self._groups.presence()
        for (group, member_id), member_counts in self._to.members.items():
            members = presence.get((group.cluster, group.group_id or ""), {})
            member_counts.present.put(self._last_ns, members.get(member_id or "", False))
        self._analyzer.close()
        self._sessions(self._analyzer.listed())
        self._to.clusters.update(self.clusters.ids)
        return self._to

    def _note_waiting(self) -> None:
        """Note the groups that wait for open transactions; those that read uncommitted records do not."""
        for waiting in self._analyzer.waiting():
            group = self.clusters.number_of(waiting.cluster_id), waiting.group_id or ""
            level = self._groups.setting(group, "share.isolation.level")
            if level is None or level.value != "read_uncommitted":
                for counts in self._partitions(waiting):
                    counts.waiting.put(self._last_ns, waiting)


def _unset(group: GroupCounts, response: Message) -> None:
    """Note the partitions of a ReadShareGroupState answer without a stored start offset."""
    for topic in response.body.results or ():
        for partition in topic.partitions or ():
            if not partition.error_code and partition.start_offset < 0 and len(group.unset) < limits.SESSION_PARTITIONS:
                group.unset.add(PartitionId(topic.topic_id, partition.partition))
                group.unset_last.put(response.time_ns)


def _by_partition(topics: Any) -> dict[PartitionId, Any]:
    """Return the structures by partition; of duplicates brokers use the last."""
    return {
        PartitionId(topic.topic_id, partition.partition_index): partition
        for topic in topics or ()
        for partition in topic.partitions or ()
    }
