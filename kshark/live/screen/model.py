"""The contents of the screen: a consumer that counts, and pictures of its counts."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from kshark import limits
from kshark.analysis import Change
from kshark.analysis.facts.reading import is_whole
from kshark.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    METADATA,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
)
from kshark.clusters import Clusters
from kshark.live.consumer import Status
from kshark.live.screen.causes import Causes, lasting
from kshark.live.screen.holdings import Holdings, by_member
from kshark.live.screen.lags import LOG_APIS, Lags
from kshark.live.screen.rows import (
    RATE_NS,
    TALKS,
    TROUBLE_NS,
    About,
    Beat,
    Cause,
    Held,
    Holding,
    Place,
    Row,
    RowKey,
    Talk,
)
from kshark.model import Event, Exchange, Finding, Message, PacketBatch
from kshark.run import Run
from kshark.units import safe

_SESSIONS: Final = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})
_HEARTBEATS: Final = frozenset({SHARE_GROUP_HEARTBEAT, CONSUMER_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT, HEARTBEAT})
_READ: Final = _SESSIONS | _HEARTBEATS
#: The interval of classic consumers (heartbeat.interval.ms), which no answer has.
_INTERVAL_NS: Final = 3_000_000_000
#: A member without a request, and one that left, is forgotten after this time; so is a broker.
_QUIET_NS: Final = 600_000_000_000
_LEFT_NS: Final = 60_000_000_000
#: The packet rate is a mean over so many times of the status.
_STATUSES: Final = 9
#: Most partitions of a member that are kept.
_PLACES: Final = 1_000
#: How much an event adds to the trouble of its member; a violation adds the weight of its rule and this.
_REFUSED: Final = 10.0
_EXPIRED: Final = 20.0
_AGAIN: Final = 2.0
_VIOLATION: Final = 50.0
_SECOND_NS: Final = 1_000_000_000


class Picture(Struct, frozen=True):
    """The model at one time. `now_ns`: the packets' time. `rate`: packets a second. `held`: by member and group.

    `topics`: names by id. `verdicts`: findings by verdict. `filter`: that of the capture. `lags`: see Lags.
    """

    status: Status
    now_ns: int
    rate: float
    brokers: int
    rows: list[Row]
    causes: list[Cause]
    holdings: list[Holding]
    held: Mapping[RowKey, Held]
    verdicts: Mapping[str, int]
    topics: Mapping[str, str]
    filter: str = ""
    lags: Mapping[tuple[RowKey, Place | None], int] = field(default_factory=dict)


class Model:
    """Count the requests of members, and findings: `packets`, `page`, `status` and `close` as of a Consumer.

    `change` takes the changes of records in flight (Run, `on_change`). `topics`: names by id. `filter`: that
    of the capture, to be shown. At most limits.SCREEN_MEMBERS members are kept: those without a request for longest
    are forgotten.
    """

    def __init__(self, topics: Mapping[str, str], filter: str = "") -> None:
        self._filter = filter
        self._rows: OrderedDict[RowKey, Row] = OrderedDict()
        self._topics = topics
        self._clusters = Clusters()
        self._causes = Causes()
        self._holdings = Holdings()
        self._lags = Lags(topics)
        #: Returns the incidents that last until now; what it returned last, and when.
        self._incidents: Callable[[], list[Finding]] = list
        self._lasting: list[Cause] = []
        self._lasting_ns = 0
        #: Records whose lock expired since the last page, by member, and when.
        self._expired: list[tuple[RowKey, int, int]] = []
        self._brokers: dict[str, int] = {}
        self._verdicts: Counter[str] = Counter()
        self._packets: deque[tuple[int, int]] = deque(maxlen=_STATUSES)
        self._now_ns = 0
        self.picture: Picture | None = None

    def judges(self, run: Run) -> None:
        """Take the run that judges the same pages: it knows all share partitions, and the incidents that last."""
        self._lags.extents = run.analyzer.extents
        self._incidents = run.lasting

    def packets(self, batch: PacketBatch) -> None:
        pass

    def page(self, page: list[Event], findings: Sequence[Finding]) -> None:
        for event in page:
            kind = type(event)
            if kind is Exchange:
                self._exchange(event)  # type: ignore[arg-type]
            elif kind is Message and event.api_key == METADATA:  # type: ignore[union-attr]
                self._clusters.learn(event)  # type: ignore[arg-type]
        for key, records, time_ns in self._expired:
            if (row := self._rows.get(key)) is not None:
                row.expired += records
                self._trouble(row, _EXPIRED, time_ns)
        self._expired.clear()
        for finding in findings:
            self._finding(finding)

    def change(self, change: Change) -> None:
        """Take a change of the records in flight: those of a page come before it."""
        self._holdings.change(change)
        if change.event == "lock_timeout" and change.member_id is not None:
            key = RowKey(change.partition.leader.cluster, change.partition.group_id or "", change.member_id)
            self._expired.append((key, change.last - change.first + 1, change.time_ns))

    def status(self, status: Status) -> None:
        """Make the picture of this time: that of the packets judged so far, or of now if none waits."""
        self._now_ns = now_ns = max(self._now_ns, status.now_ns - status.delay_ns)
        self._packets.append((status.now_ns, status.packets))
        self._forget(now_ns)
        (since_ns, before), (until_ns, packets) = self._packets[0], self._packets[-1]
        holdings = self._holdings.update(now_ns)
        self.picture = Picture(
            status,
            now_ns,
            (packets - before) / ((until_ns - since_ns) / 1e9) if until_ns > since_ns else 0.0,
            len(self._brokers),
            [replace(row) for row in self._rows.values()],
            [*self._last(now_ns), *self._causes.listed()],
            holdings,
            by_member(holdings),
            dict(self._verdicts),
            self._topics,
            self._filter,
            self._lags.at(status.now_ns),
        )

    def _last(self, now_ns: int) -> list[Cause]:
        """Return the incidents that last, asked for once a second: they are findings only when they end."""
        if now_ns - self._lasting_ns >= _SECOND_NS:
            self._lasting_ns = now_ns
            found = self._incidents()
            self._lasting = [lasting(finding, self._key(finding), now_ns) for finding in found]
        return [replace(cause) for cause in self._lasting]

    def close(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self._finding(finding)

    # -- requests

    def _exchange(self, exchange: Exchange) -> None:
        request, response = exchange.request, exchange.response
        if request is None:
            return
        time_ns = request.time_ns if response is None else response.time_ns
        self._now_ns = max(self._now_ns, time_ns)
        self._brokers[request.broker] = time_ns
        if request.api_key in LOG_APIS:
            self._lags.feed(exchange, self._clusters.number(request.broker))
        if request.api_key not in _READ or not is_whole(request):
            return
        answer = response.body if response is not None and is_whole(response) else None
        row = self._row(exchange, request)
        error = None if answer is None else _error(request.api_key, answer)
        if request.api_key in _SESSIONS:
            epoch = row.epoch = request.body.share_session_epoch
            self._session(row, request, answer)
        else:
            epoch = self._heartbeat(row, request, answer, refused=bool(error))
        latency_ns = response.latency_ns if response is not None and isinstance(response.latency_ns, int) else None
        talk = Talk(request.time_ns, str(request.api), epoch, error, latency_ns)
        row.talks = (*row.talks[1 - TALKS :], talk)
        if error:
            row.refused += 1
            self._trouble(row, _REFUSED, time_ns)

    def _row(self, exchange: Exchange, request: Message) -> Row:
        """Return the member of a request; beyond the limit the one without a request for longest is forgotten."""
        body: Any = request.body
        key = RowKey(self._clusters.number(request.broker), body.group_id or "", body.member_id or "")
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = Row(key, since_ns=request.time_ns)
            if len(self._rows) > limits.SCREEN_MEMBERS:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(key)
        row.last_ns = max(row.last_ns, request.time_ns)
        if not row.client_id and request.client_id is not UNSET and request.client_id:
            row.client_id = safe(request.client_id)
        flow = exchange.flow
        if request.api_key in _SESSIONS or not row.about.broker:
            row.about = About(safe(flow.software or ""), flow.client, flow.broker)
        return row

    def _session(self, row: Row, request: Message, answer: Any) -> None:
        if request.api_key != SHARE_FETCH:
            return
        row.rate = row.rate.plus(1, request.time_ns, RATE_NS)
        again = 0
        for topic in () if answer is None else answer.responses or ():
            for partition in topic.partitions or ():
                for acquired in partition.acquired_records or ():
                    if acquired.delivery_count > 1:
                        again += acquired.last_offset - acquired.first_offset + 1
                    if (place := (topic.topic_id, partition.partition_index)) not in row.places:
                        self._place(row, place)
        if again > 0:
            row.again += again
            self._trouble(row, _AGAIN, request.time_ns)

    def _place(self, row: Row, *places: Place, anew: bool = False) -> None:
        """Note partitions of a member; `anew`: it has no others."""
        before = frozenset[Place]() if anew else row.places
        if len(before) + len(places) <= _PLACES:
            row.places = before.union(places)

    def _heartbeat(self, row: Row, request: Message, answer: Any, *, refused: bool) -> int | None:
        """Note a heartbeat, and return its epoch."""
        body: Any = request.body
        epoch: int | None = getattr(body, "member_epoch", getattr(body, "generation_id", None))
        interval_ms = getattr(answer, "heartbeat_interval_ms", 0)
        before = _INTERVAL_NS if row.beat is None else row.beat.interval_ns
        interval_ns = interval_ms * 1_000_000 if interval_ms > 0 else before
        left = request.api_key != HEARTBEAT and epoch is not None and epoch < 0 and not refused
        assignment = getattr(answer, "assignment", None)
        if request.api_key == SHARE_GROUP_HEARTBEAT and assignment is not None:
            topics = assignment.topic_partitions or ()
            self._place(row, *((topic.topic_id, at) for topic in topics for at in topic.partitions or ()), anew=True)
        row.beat = Beat(request.time_ns, interval_ns, epoch, left)
        return epoch

    def _trouble(self, row: Row, value: float, time_ns: int) -> None:
        row.trouble = row.trouble.plus(value, time_ns, TROUBLE_NS)

    # -- findings

    def _finding(self, finding: Finding) -> None:
        self._verdicts[finding.verdict] += 1
        self._now_ns = max(self._now_ns, finding.time_ns)
        key = self._key(finding)
        self._causes.add(finding, key)
        row = None if key is None else self._rows.get(key)
        if row is not None and finding.verdict == "violation":
            row.violations += 1
            self._trouble(row, _VIOLATION, finding.time_ns)

    def _key(self, finding: Finding) -> RowKey | None:
        """Return the member that a finding is about."""
        if finding.member_id is None:
            return None
        return RowKey(self._clusters.number(finding.broker), finding.group_id or "", finding.member_id)

    def _forget(self, now_ns: int) -> None:
        """Forget members that left or are quiet, and brokers that are."""
        for key, row in [*_quiet(self._rows, now_ns)]:
            if row.last_ns + _QUIET_NS < now_ns or (row.beat is not None and row.beat.left):
                del self._rows[key]
        quiet = [broker for broker, time_ns in self._brokers.items() if time_ns + _QUIET_NS < now_ns]
        for broker in quiet + [*self._brokers][: max(0, len(self._brokers) - limits.BROKERS)]:
            self._brokers.pop(broker, None)


def _quiet(rows: OrderedDict[RowKey, Row], now_ns: int) -> Iterator[tuple[RowKey, Row]]:
    """Yield the members at the front, which had no request for a minute."""
    for key, row in rows.items():
        if row.last_ns + _LEFT_NS >= now_ns:
            return
        yield key, row


def _partitions(answer: Any) -> Iterator[Any]:
    for topic in () if answer is None else answer.responses or ():
        yield from topic.partitions or ()


def _error(api_key: Any, answer: Any) -> int:
    """Return the error code of an answer, or the first one of its partitions; 0: none."""
    if answer.error_code or api_key not in _SESSIONS:
        return int(answer.error_code)
    for partition in _partitions(answer):
        error = partition.error_code or getattr(partition, "acknowledge_error_code", 0)
        if error:
            return int(error)
    return 0
