"""The outcomes of share group members: whether they get records, and whether their acknowledgements count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from kshark import limits
from kshark.analysis.facts.calls import Answer, Partition, ShareStep
from kshark.analysis.results.deliveries import Holder
from kshark.analysis.runners.verdict import Verdict
from kshark.endpoints import host_of


class MemberKey(NamedTuple):
    """A member of a share group in a cluster, by the cluster's number."""

    cluster: int
    group_id: str | None
    member_id: str | None


class LostSessions(Struct, gc=False):
    """Share sessions of a member that its broker did not have any more.

    `closed_by`: the side that closed the connection that had opened the session. `quiet_ns`: the shortest and the
    longest time between the session's last answer and that close; None if none is known. `last_answered`: by broker,
    the packet of the last lost session's last request that was accepted: each refusal of one session names it.
    """

    count: int = 0
    closed_by: Counter[str] = field(default_factory=Counter)
    quiet_ns: tuple[int, int] | None = None
    last_answered: dict[str, int] = field(default_factory=dict)

    def add(self, verdict: Verdict) -> None:
        """Count a session once, whatever the number of refused requests."""
        last, argument = verdict.argument.witness[0], verdict.argument
        broker = last.connection.flow.broker
        if self.last_answered.get(broker) == last.packet:
            return
        self.last_answered[broker] = last.packet
        self.count += 1
        for end in argument.ends[:1]:
            self.closed_by[end.by] += 1
            if (quiet_ns := end.time_ns - last.end_ns) >= 0:
                shortest_ns, longest_ns = self.quiet_ns or (quiet_ns, quiet_ns)
                self.quiet_ns = min(shortest_ns, quiet_ns), max(longest_ns, quiet_ns)


class SessionCounts(Struct, gc=False):
    """The share sessions of a member: those that were opened, and the lost ones by cause.

    `uncertain`: the capture does not show how many there were. Sessions began before it, the answer to an opening is
    missing, or bytes of the client are.
    """

    opened: int = 0
    uncertain: bool = False
    lost: dict[str, LostSessions] = field(default_factory=dict)


class AcquiredRecords(Struct):
    """The records that a group acquired so far: all, and by partition. `time_ns`: of its last request or answer."""

    total: int = 0
    of: Counter[Partition] = field(default_factory=Counter)
    time_ns: int = 0

    def add(self, answer: Answer) -> None:
        for partition, first, last, _ in answer.acquired:
            records = last - first + 1
            self.total += records
            if partition in self.of or len(self.of) < limits.SESSION_PARTITIONS:
                self.of[partition] += records


class Waiting(Struct, gc=False):
    """Records that a member without any may expect.

    `earlier`: records of its partitions that other members had acquired before it fetched them, `meanwhile` those that
    they acquired since, until its last fetch. `held`: those that they hold at the end, by their client. `partitions`:
    those that it fetches, each with the records that its group had acquired before. `dropped`: the same of `meanwhile`
    for partitions that it does not fetch any more. `total`: the records of its group when `meanwhile` was summed up.
    """

    earlier: int = 0
    meanwhile: int = 0
    held: dict[str, int] = field(default_factory=dict)
    partitions: dict[Partition, int] = field(default_factory=dict)
    dropped: dict[Partition, int] = field(default_factory=dict)
    total: int = 0

    def fetch(self, step: ShareStep, group: AcquiredRecords) -> None:
        """Take a fetch without records."""
        for partition in step.asked_for:
            if partition not in self.partitions and len(self.partitions) < limits.SESSION_PARTITIONS:
                self.partitions[partition] = group.of[partition]
                self.earlier += 0 if partition in self.dropped else group.of[partition]
        for partition in step.forgotten:
            if partition in self.partitions:
                acquired = group.of[partition] - self.partitions.pop(partition)
                self.dropped[partition] = self.dropped.get(partition, 0) + acquired
        if group.total != self.total:
            self.total = group.total
            now = sum([group.of[partition] - before for partition, before in self.partitions.items()])
            self.meanwhile = sum(self.dropped.values()) + now


class Outcomes(Struct, gc=False):
    """The counts of one member.

    `fetches`, with the number of those that brought `records` and those that were `throttled` (`throttled_ms` in all).
    `failed`: fetches by error code; `unanswered`: fetches without an answer. `acquired`: records, `again` those that
    had been delivered before. `acknowledged`: records by the error code of their acknowledgement, None without an
    answer; `refused`: partitions in requests whose acknowledgements were refused. Times are of the first and the last
    request, and of the last answer with records.
    """

    client_id: str | None
    client: str
    software: str | None
    fetches: int = 0
    records: int = 0
    throttled: int = 0
    throttled_ms: int = 0
    unanswered: int = 0
    acquired: int = 0
    again: int = 0
    failed: Counter[int] = field(default_factory=Counter)
    acknowledged: Counter[int | None] = field(default_factory=Counter)
    refused: dict[int, int] = field(default_factory=dict)
    sessions: SessionCounts = field(default_factory=SessionCounts)
    waiting: Waiting = field(default_factory=Waiting)
    since_ns: int = 0
    until_ns: int = 0
    records_ns: int | None = None
    first_packet: int = 0
    last_packet: int = 0

    def fetch(self, answer: Answer | None, throttle_ms: int) -> None:
        """Count a ShareFetch."""
        self.fetches += 1
        if answer is None:
            self.unanswered += 1
            return
        if throttle_ms > 0:
            self.throttled += 1
            self.throttled_ms += throttle_ms
        if answer.acquired:
            self.records += 1
            self.records_ns = answer.time_ns
            for _, first, last, count in answer.acquired:
                self.acquired += last - first + 1
                if count > 1:
                    self.again += last - first + 1
        elif error := answer.error or next(iter(answer.failed.values()), 0):
            self.failed[error] += 1

    def acknowledge(self, step: ShareStep, answer: Answer | None) -> None:
        """Count the acknowledgements of a request."""
        for listed in step.listed:
            if batches := listed.acknowledged:
                error = None
                if answer is not None and answer.error is not None:
                    error = answer.error or answer.acknowledged.get(listed.partition)
                self.acknowledged[error] += sum([batch.last - batch.first + 1 for batch in batches])
                if error:
                    self.refused[error] = self.refused.get(error, 0) + 1


class OutcomesOfMembers:
    """The outcomes of all members; beyond limits.STATISTICS_ROWS further ones are not counted."""

    def __init__(self) -> None:
        self.of: Final[dict[MemberKey, Outcomes]] = {}
        self._groups: dict[tuple[int, str | None], AcquiredRecords] = {}

    def count(self, cluster: int, step: ShareStep, answer: Answer | None, throttle_ms: int) -> None:
        """Count a request with its answer. The answer still has what it delivers."""
        key = cluster, step.group_id, step.member_id
        outcomes = self.of.get(key)  # type: ignore[call-overload]  # equal to a MemberKey, and made in C
        if outcomes is None:
            if len(self.of) >= limits.STATISTICS_ROWS:
                return
            connection = step.connection
            outcomes = self.of[MemberKey(*key)] = Outcomes(step.client_id, connection.host, connection.flow.software)
            outcomes.since_ns, outcomes.first_packet = step.time_ns, step.packet
        outcomes.until_ns, outcomes.last_packet = step.time_ns, step.packet
        if step.is_fetch:
            outcomes.fetch(answer, throttle_ms)
            self._wait(cluster, step, answer, outcomes)
        if step.listed:
            outcomes.acknowledge(step, answer)

    def _wait(self, cluster: int, step: ShareStep, answer: Answer | None, outcomes: Outcomes) -> None:
        """Count what the members of a group acquire, and what those miss that have got nothing."""
        group = self._groups.get((cluster, step.group_id))
        if group is None:
            group = self._groups[cluster, step.group_id] = AcquiredRecords()
        if (time_ns := step.time_ns if answer is None else answer.time_ns) > group.time_ns:
            group.time_ns = time_ns
        if not outcomes.records:
            outcomes.waiting.fetch(step, group)
        elif answer is not None and answer.acquired:
            group.add(answer)
            if outcomes.waiting.partitions:
                outcomes.waiting = Waiting()

    def begin(self, step: ShareStep, *, is_certain: bool) -> None:
        """Count a share session. `is_certain`: the capture shows its opening."""
        broker = step.connection.broker
        outcomes = None if broker is None else self.of.get(MemberKey(broker.cluster, step.group_id, step.member_id))
        if outcomes is not None:
            outcomes.sessions.opened += is_certain
            outcomes.sessions.uncertain |= not is_certain

    def lose(self, verdict: Verdict) -> None:
        """Count a share session that its broker did not have any more, if nobody is to blame for that."""
        about, cause = verdict.argument.witness[-1], verdict.argument.cause
        broker = about.connection.broker
        if cause is None or broker is None or verdict.judgement.verdict != "note":
            return
        outcomes = self.of.get(MemberKey(broker.cluster, about.group_id, about.member_id))
        if outcomes is not None:
            outcomes.sessions.lost.setdefault(cause, LostSessions()).add(verdict)

    def close(self, holders: Callable[[int, str | None, int], Iterable[Holder]], hosts: Container[str]) -> None:
        """End the capture. `holders` returns who holds records of a group (cluster, id) at a time; `hosts`: clients of
        which bytes are missing; an empty text for unknown ones."""
        starving: dict[tuple[int, str | None], dict[Partition, list[Outcomes]]] = {}
        for key, outcomes in self.of.items():
            outcomes.sessions.uncertain |= outcomes.client in hosts or "" in hosts
            if outcomes.waiting.earlier or outcomes.waiting.meanwhile:
                of_group = starving.setdefault((key.cluster, key.group_id), {})
                for partition in outcomes.waiting.partitions:
                    of_group.setdefault(partition, []).append(outcomes)
        for group, of_group in starving.items():
            for holder in holders(*group, self._groups[group].time_ns):
                for outcomes in of_group.get((holder.topic_id, holder.partition), ()):
                    held, client = outcomes.waiting.held, holder.client_id or host_of(holder.client)
                    held[client] = held.get(client, 0) + holder.records


def joined_outcomes(parts: Iterable[Mapping[MemberKey, Outcomes]]) -> dict[MemberKey, Outcomes]:
    """Return the outcomes of all members in the order of their first requests.

    Each member belongs to one part. Requests that all parts count, because their member is unreadable, count once.
    """
    joined: dict[MemberKey, Outcomes] = {}
    for part in parts:
        for key, outcomes in part.items():
            other = joined.get(key)
            if other is None or _requests(outcomes) > _requests(other):
                joined[key] = outcomes
    return dict(sorted(joined.items(), key=lambda item: (item[1].first_packet, *map(str, item[0]))))


def _requests(outcomes: Outcomes) -> int:
    return outcomes.fetches + outcomes.acknowledged.total()
