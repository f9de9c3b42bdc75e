"""Count a running capture for `--prometheus`: pages and findings in, the series of all families out.

Share groups are counted by kshark.metrics, whose rows say what each count is; their records in flight and sessions are
those of the running analysis.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from kshark import __version__, limits
from kshark.analysis import Change, Extent
from kshark.analysis.results.statistics import LONG_POLLS, Waits, throttled
from kshark.analysis.results.subjects import Subjects
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from kshark.endpoints import host_of
from kshark.error_names import ERROR_NAMES
from kshark.live.consumer import Status
from kshark.live.metrics.families import BUCKETS, OTHER, Key, Series, Values, label
from kshark.live.metrics.members import Members
from kshark.metrics import METRICS, CountedByGroup, GroupKey, LogEnds, PartitionCounts, ShareEvents
from kshark.model import Closed, Event, Exchange, Finding, Flow, Message, Opened
from kshark.names import TopicNames
from kshark.registry import Registry
from kshark.run import Run
from kshark_dissectors.enums import AcknowledgeType

#: A group without a request for this long is forgotten.
QUIET_NS: Final = 3_600_000_000_000
#: Partitions whose lag is exact: their records in flight are looked at one by one. No more of them are shown.
_LOOKED_AT: Final = 400

#: How each count of a share partition is computed, by the name of its row.
_VALUES: Final[dict[str, Callable[[PartitionCounts], Any]]] = {
    row.name: row.value for row in METRICS["share partition"] if row.value is not None
}
#: Counters by partition, and the row of kshark.metrics that each is.
_OF_PARTITIONS: Final = {
    "kshark_share_records_acquired": "records-acquired",
    "kshark_share_records_redelivered": "records-redelivered",
    "kshark_share_records_lock_expired": "lock-timeouts",
    "kshark_share_records_rejected": "record-acknowledgement-count{ack-type=reject}",
}
_SHARE_APIS: Final = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE, SHARE_GROUP_HEARTBEAT})


class LiveCounts:
    """Count pages of `run`, with the findings that they prove. `series` returns all counts.

    `changed` takes the changes of records from the run's analysis. `labels`: labels of families.OPTIONAL to count by.
    """

    def __init__(self, registry: Registry, labels: Sequence[str] = ()) -> None:
        self._labels = labels
        self._names = TopicNames(registry)
        self._counted = CountedByGroup()
        self._share = ShareEvents(self._names, counted=self._counted)
        self._ends = LogEnds(self._names.by_id)
        self._members = Members()
        self._subjects = Subjects(registry, topics=False, partitions=False)
        self._waits = Waits()
        self._findings = _Tally()
        self._errors = _Tally()
        self._requests = _Tally()
        #: By API: the number of requests, their seconds, and the number in each bucket.
        self._work: dict[str, list[float]] = {}
        self._open: dict[int, Flow] = {}
        #: By group: the time of its last request.
        self._last_ns: OrderedDict[GroupKey, int] = OrderedDict()
        self.bytes = 0

    @property
    def changed(self) -> Callable[[Change], None]:
        """Take a change of records in flight."""
        return self._share.changed

    # -- events

    def page(self, page: Iterable[Event], findings: Iterable[Finding], run: Run) -> None:
        """Count a page that `run` has judged, and the findings that it proved."""
        for event in page:
            if type(event) is Exchange:
                self._exchange(event, run)
            elif type(event) is Opened:
                self._open[event.flow.id] = event.flow
            elif type(event) is Closed:
                self._open.pop(event.flow.id, None)
        self._share.page(page)
        self.found(findings)

    def found(self, findings: Iterable[Finding]) -> None:
        """Count findings."""
        for finding in findings:
            key = (finding.code, finding.verdict, finding.blame, label(finding.group_id))
            client = finding.client_id or host_of(finding.client)
            self._findings.add((*key, *self._details(client, finding.member_id)))

    def _details(self, client: str, member_id: str | None) -> Key:
        if not self._labels:
            return ()
        values = {"client": client, "member": member_id}
        return tuple(label(values[name]) for name in self._labels)

    def _exchange(self, exchange: Exchange, run: Run) -> None:
        request, response = exchange.request, exchange.response
        if request is None or not isinstance(request.api_key, int):
            return
        api = label(request.api) if isinstance(request.api, str) else str(request.api_key)
        self._requests.add((api, exchange.outcome))
        self._members.feed(exchange)
        cluster = self._share.clusters.number(request.broker)
        self._ends.feed(exchange, cluster)
        if request.api_key in _SHARE_APIS:
            self._seen(GroupKey(getattr(request.body, "group_id", None), cluster), request.time_ns)
        if response is None:
            return
        codes = {placed.code for placed in run.refusals.get(id(exchange), ())}
        if codes:
            self._refused(api, request, codes)
        self._time(api, request, response, codes)

    def _seen(self, group: GroupKey, time_ns: int) -> None:
        self._last_ns[group] = time_ns
        self._last_ns.move_to_end(group)
        if len(self._last_ns) > limits.STATISTICS_ROWS:
            self._last_ns.popitem(last=False)

    def _refused(self, api: str, request: Message, codes: Collection[int]) -> None:
        client = request.client_id if isinstance(request.client_id, str) else None
        member_id = getattr(request.body, "member_id", None)
        details = self._details(client or host_of(request.client), member_id if isinstance(member_id, str) else None)
        for group in self._subjects.groups(request) or ("",):
            for code in codes:
                self._errors.add((api, ERROR_NAMES.get(code) or str(code), label(group), *details))

    def _time(self, api: str, request: Message, response: Message, codes: Collection[int]) -> None:
        """Count the broker's work in the latency, if it is known."""
        latency_ns = response.latency_ns
        if isinstance(latency_ns, int):
            work_ns: int | None = latency_ns
            if request.api_key in LONG_POLLS or self._waits.muted_until:
                _, work_ns = self._waits.of(request, latency_ns, codes)
            if work_ns is not None:
                seconds = max(0, work_ns) / 1e9
                counts = self._work.get(api)
                if counts is None:
                    counts = self._work[api] = [0.0] * (len(BUCKETS) + 3)
                counts[0] += 1
                counts[1] += seconds
                counts[2 + bisect_left(BUCKETS, seconds)] += 1
        if throttle_ms := throttled(response.body):
            self._waits.throttle(response, throttle_ms)

    # -- series

    def series(self, status: Status, run: Run) -> Series:
        """Return all series at the time of a status."""
        judged_ns = status.now_ns - status.delay_ns
        self._forget_quiet(judged_ns)
        return {
            "kshark_findings": self._findings.series(),
            "kshark_incidents": _largest(
                Counter((it.code, label(it.broker), label(it.group_id)) for it in run.lasting())
            ),
            "kshark_error_responses": self._errors.series(),
            "kshark_requests": self._requests.series(),
            "kshark_request_work_seconds": {(api,): tuple(counts) for api, counts in self._work.items()},
            **self._in_flight(run.analyzer.extents()),
            **self._of_partitions(),
            **self._of_groups(),
            "kshark_share_sessions": _largest(
                Counter((label(group),) for group in run.analyzer.open_sessions().elements())
            ),
            "kshark_group_members": _largest(self._members.count(judged_ns)),
            "kshark_brokers": {(): (len({flow.broker for flow in self._open.values() if flow.service == "kafka"}),)},
            "kshark_connections": _largest(Counter((flow.service,) for flow in self._open.values())),
            **self._of_status(status),
            "kshark_build": {(__version__,): (1,)},
        }

    def _of_status(self, status: Status) -> Series:
        return {
            "kshark_packets": {(): (status.packets,)},
            "kshark_bytes": {(): (self.bytes,)},
            "kshark_packets_dropped": {(): (status.dropped,)},
            "kshark_delay_seconds": {(): (status.delay_ns / 1e9,)},
            "kshark_waiting_bytes": {(): (status.waiting,)},
            "kshark_interface_up": {(label(name),): (name not in status.down,) for name in status.interfaces},
            "kshark_capture_start_time_seconds": {(): (status.since_ns / 1e9,)},
            "kshark_state_time_seconds": {(): (status.now_ns / 1e9,)},
        }

    def _forget_quiet(self, now_ns: int) -> None:
        """Forget the share groups that sent no request for long."""
        quiet = []
        while self._last_ns and next(iter(self._last_ns.values())) < now_ns - QUIET_NS:
            quiet.append(self._last_ns.popitem(last=False)[0])
        self._counted.drop(quiet)

    def _in_flight(self, extents: Sequence[Extent]) -> Series:
        """Return the records in flight by partition: the largest lag first."""
        rows: list[tuple[int, bool, Key, Extent]] = []
        for key, extent in self._latest(extents).items():
            if extent.start is not None:
                log_end = self._ends.at(extent.cluster, extent.topic_id, extent.partition)
                end = max(extent.end or extent.start, log_end or 0)
                rows.append((end - extent.start, log_end is not None, key, extent))
        rows.sort(key=itemgetter(0), reverse=True)
        lag: dict[Key, Values] = {}
        in_flight: dict[Key, Values] = {}
        start: dict[Key, Values] = {}
        for records, is_known, key, extent in rows:
            assert extent.start is not None
            in_flight[key] = ((extent.end or extent.start) - extent.start,)
            start[key] = (extent.start,)
            if is_known:
                lag[key] = (records - (extent.ended if len(lag) < _LOOKED_AT else 0),)
        return {
            "kshark_share_lag_records": lag,
            "kshark_share_in_flight_records": in_flight,
            "kshark_share_start_offset": start,
        }

    def _latest(self, extents: Sequence[Extent]) -> dict[Key, Extent]:
        """Return the extents of groups that are not quiet, by partition; of a topic that was created anew the last."""
        latest: dict[Key, Extent] = {}
        for extent in extents:
            if GroupKey(extent.group_id, extent.cluster) in self._last_ns:
                key = self._partition(extent.group_id, extent.topic_id, extent.partition)
                if key not in latest or latest[key].packet < extent.packet:
                    latest[key] = extent
        return latest

    def _partition(self, group_id: str | None, topic_id: str, partition: int) -> Key:
        return label(group_id), label(self._names.by_id.get(topic_id, topic_id)), str(partition)

    def _of_partitions(self) -> Series:
        series: dict[str, Counter[Key]] = {name: Counter() for name in _OF_PARTITIONS}
        values = [(series[name], _VALUES[row]) for name, row in _OF_PARTITIONS.items()]
        for (group, partition), counts in self._counted.partitions.items():
            key = self._partition(group.group_id, *partition)
            for totals, value in values:
                totals[key] += value(counts)
        return {name: {key: (total,) for key, total in totals.items()} for name, totals in series.items()}

    def _of_groups(self) -> Series:
        acknowledged, refused, fetches = Counter[Key](), Counter[Key](), Counter[Key]()
        for (group, _), member in self._counted.members.items():
            name = label(group.group_id)
            for (kind, error), count in member.acknowledged.items():
                if error == 0:
                    acknowledged[name, _type(kind)] += count
                elif error:
                    refused[(name,)] += count
            for outcome, count in member.fetches.items():
                fetches[name, outcome] += count
        return {
            "kshark_share_records_acknowledged": {key: (total,) for key, total in acknowledged.items()},
            "kshark_share_acknowledgements_refused": {key: (total,) for key, total in refused.items()},
            "kshark_share_fetches": {key: (total,) for key, total in fetches.items()},
        }


def _type(kind: int) -> str:
    return AcknowledgeType(kind).name.lower() if kind in [*AcknowledgeType] else str(kind)


def _largest(counts: Counter[Any]) -> dict[Key, Values]:
    """Return the series of a gauge, the largest first."""
    return {key: (count,) for key, count in counts.most_common()}


class _Tally:
    """Counts by key; beyond limits.STATISTICS_ROWS keys, further ones are counted together."""

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()

    def add(self, key: Key) -> None:
        counts = self._counts
        if key not in counts and len(counts) >= limits.STATISTICS_ROWS:
            key = (OTHER,) * len(key)
        counts[key] += 1

    def series(self) -> dict[Key, Values]:
        return {key: (count,) for key, count in self._counts.items()}
