"""The outcomes of share group members: whether they get records, and whether their acknowledgements count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from kshark import limits
from kshark.analysis.facts.calls import Answer, ShareStep


class MemberKey(NamedTuple):
    """A member of a share group in a cluster, by the cluster's number."""

    cluster: int
    group_id: str | None
    member_id: str | None


class Outcomes(Struct, gc=False):
    """The counts of one member; `join` adds parts.

    `fetches`, with the number of those that brought `records` and those that were `throttled` (`throttled_ms` in all).
    `failed`: fetches by error code; `unanswered`: fetches without an answer. `acquired`: records, `again` those that
    had been delivered before. `acknowledged`: records by the error code of their acknowledgement, None without an
    answer. Times are of the first and the last request, and of the last answer with records.
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


class OutcomesOfMembers:
    """The outcomes of all members; beyond limits.STATISTICS_ROWS further ones are not counted."""

    def __init__(self) -> None:
        self.of: Final[dict[MemberKey, Outcomes]] = {}

    def count(self, cluster: int, step: ShareStep, answer: Answer | None, throttle_ms: int) -> None:
        """Count a request with its answer. The answer still has what it delivers."""
        key = MemberKey(cluster, step.group_id, step.member_id)
        outcomes = self.of.get(key)
        if outcomes is None:
            if len(self.of) >= limits.STATISTICS_ROWS:
                return
            connection = step.connection
            outcomes = self.of[key] = Outcomes(step.client_id, connection.host, connection.flow.software)
            outcomes.since_ns, outcomes.first_packet = step.time_ns, step.packet
        outcomes.until_ns, outcomes.last_packet = step.time_ns, step.packet
        if step.is_fetch:
            outcomes.fetch(answer, throttle_ms)
        if step.listed:
            outcomes.acknowledge(step, answer)


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
