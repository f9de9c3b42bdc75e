"""A capture in one row: what it holds, how much of it was judged, and its findings by verdict and rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from kshark import __version__, limits
from kshark.api_keys import API_VERSIONS, METADATA
from kshark.clusters import Clusters
from kshark.incidents.watchers import JUDGED
from kshark.model import Closed, Event, Exchange, Finding, Flow, Gap, Message, Weird
from kshark.releases import releases_offering
from kshark.tables.blocks import Row, Where
from kshark.tables.columns import Column, table
from kshark.tables.readers import its, made

#: The highest version that a broker offers of each API.
Offers = tuple[tuple[int, int], ...]


class Ended(NamedTuple):
    """The facts about a capture that only its reader knows: of its files (a pipe has neither size nor SHA-256), of the
    machine that captured, if a file names it, and of the work: packets, seconds on the wall clock.
    """

    files: list[str]
    sha256: list[str | None]
    size_bytes: int | None
    host: str | None
    packets: int
    seconds: float


class CaptureSummary:
    """The counts of one capture, event by event. Equal events give equal counts."""

    def __init__(self) -> None:
        #: Exchanges by outcome, and those of APIs that rules are about.
        self.outcomes: Counter[str] = Counter()
        self.judged = 0
        #: Connections by service.
        self.connections: Counter[str] = Counter()
        self.stream_bytes = 0
        self.gaps = 0
        self.missing_bytes = 0
        self.since_ns: int | None = None
        self.until_ns: int | None = None
        self.weirds: Counter[str] = Counter()
        self.sessions = 0
        #: Findings by code and verdict.
        self.findings: Counter[tuple[str, str]] = Counter()
        #: What brokers' addresses belong to, and the addresses that spoke Kafka.
        self.clusters = Clusters()
        self._brokers: set[str] = set()
        self._offers: set[tuple[str, Offers]] = set()
        #: Names and versions of clients, as they introduced themselves.
        self._software: set[str] = set()

    def page(self, events: Iterable[Event]) -> None:
        """Count events of the time line."""
        for event in events:
            if type(event) is Exchange:
                self.exchange(event)
            elif type(event) is Message:
                if event.correlation_id is UNSET:
                    self.weird_message(event)
            elif type(event) is Closed:
                self.connection(event.flow)
            elif type(event) is Gap:
                self.gap(event)
            elif type(event) is Weird:
                self.weirds[event.code] += event.times

    def exchange(self, exchange: Exchange) -> None:
        self.outcomes[exchange.outcome] += 1
        request, response = exchange.request, exchange.response
        if request is not None:
            self.judged += request.api_key in JUDGED
            if request.weird is not UNSET:
                self.weird_message(request)
        if response is not None:
            if response.weird is not UNSET:
                self.weird_message(response)
            if response.api_key == METADATA:
                self.clusters.learn(response)
            elif response.api_key == API_VERSIONS:
                self._offered(response)

    def weird_message(self, message: Message) -> None:
        """Count the weirds of a message."""
        if message.weird is not UNSET:
            self.weirds.update(message.weird)

    def connection(self, flow: Flow) -> None:
        """Count a connection that is over."""
        self.connections[flow.service] += 1
        self.stream_bytes += sum(flow.stream_bytes)
        self.since_ns = flow.first_time_ns if self.since_ns is None else min(self.since_ns, flow.first_time_ns)
        self.until_ns = flow.last_time_ns if self.until_ns is None else max(self.until_ns, flow.last_time_ns)
        if flow.service == "kafka" and len(self._brokers) < limits.BROKERS:
            self._brokers.add(flow.broker)
        if flow.software and len(self._software) < limits.STATISTICS_ROWS:
            self._software.add(flow.software)

    def gap(self, gap: Gap) -> None:
        self.gaps += 1
        self.missing_bytes += max(0, gap.size)

    def finding(self, finding: Finding) -> None:
        self.findings[finding.code, finding.verdict] += 1

    def _offered(self, response: Message) -> None:
        """Note the offered versions; a response with an error lists only ApiVersions."""
        body: Any = response.body
        offered = getattr(body, "api_keys", UNSET)
        if getattr(body, "error_code", None) == 0 and offered is not UNSET and offered is not None:
            highest = tuple(sorted((api.api_key, api.max_version) for api in offered))
            if len(self._offers) < limits.BROKERS:
                self._offers.add((response.broker, highest))

    # -- what the counts say

    @property
    def exchanges(self) -> int:
        return self.outcomes.total()

    @property
    def coverage(self) -> float | None:
        """The share of exchanges that rules are about; None without exchanges."""
        return round(self.judged / self.exchanges, 6) if self.exchanges else None

    @property
    def verdicts(self) -> Counter[str]:
        """Findings by verdict."""
        verdicts: Counter[str] = Counter()
        for (_, verdict), count in self.findings.items():
            verdicts[verdict] += count
        return verdicts

    @property
    def codes(self) -> list[tuple[str, str, int]]:
        """Code, verdict and number of findings, the most frequent first."""
        ordered = sorted(self.findings.items(), key=lambda item: (-item[1], item[0]))
        return [(code, verdict, count) for (code, verdict), count in ordered]

    @property
    def cluster_ids(self) -> list[str]:
        return sorted(self.clusters.ids.values())

    @property
    def brokers(self) -> list[str]:
        return sorted(self._brokers)

    @property
    def broker_releases(self) -> list[str]:
        """The Kafka releases that the brokers may run, by the versions that they offer."""
        return sorted({release for _, offered in self._offers for release in releases_offering(dict(offered))})

    @property
    def client_software(self) -> list[str]:
        return sorted(self._software)

    @property
    def weird_codes(self) -> list[tuple[str, int]]:
        """Weirds by code, the most frequent first."""
        return sorted(self.weirds.items(), key=lambda item: (-item[1], item[0]))


def _verdict(verdict: str) -> Any:
    return made(lambda summary: summary.verdicts[verdict], "summary")


def _outcome(outcome: str) -> Any:
    return made(lambda summary: summary.outcomes[outcome], "summary")


def _service(service: str) -> Any:
    return made(lambda summary: summary.connections[service], "summary")


def _all_connections(summary: CaptureSummary) -> int:
    return summary.connections.total()


def _version(summary: CaptureSummary) -> str:
    return __version__


CAPTURES: Final = table(
    "captures",
    "capture that was read; ts is that of its first packet on a connection; one that cannot be read is in faults",
    "summary ended",
    Column("files", "array<string>", "names of its files, without folders", its("ended.files")),
    Column("sha256", "array<string>", "SHA-256 of each file; null: standard input", its("ended.sha256")),
    Column("size_bytes", "bigint", "bytes of the files, as stored", its("ended.size_bytes")),
    Column(
        "host",
        "string",
        "machine that captured: hardware, operating system and comment of the first pcapng section; null: not named",
        its("ended.host"),
    ),
    Column("clusters", "array<string>", "ids of the clusters in Metadata responses", its("summary.cluster_ids")),
    Column("brokers", "array<string>", "address:port of the brokers of Kafka connections", its("summary.brokers")),
    Column(
        "broker_releases",
        "array<string>",
        "Kafka releases that the brokers may run, by the API versions that they offer",
        its("summary.broker_releases"),
    ),
    Column(
        "client_software",
        "array<string>",
        "clients' software, by their ApiVersions requests",
        its("summary.client_software"),
    ),
    Column("until_ts_ns", "bigint", "time of the last packet on a connection", its("summary.until_ns")),
    Column("packets", "bigint", "packets that were read", its("ended.packets")),
    Column(
        "stream_bytes", "bigint", "payload of its connections, without retransmissions", its("summary.stream_bytes")
    ),
    Column("connections", "bigint", "TCP connections", made(_all_connections, "summary")),
    Column("kafka_connections", "bigint", "connections that are read as Kafka", _service("kafka")),
    Column("tls_connections", "bigint", "connections that are TLS and not decrypted", _service("tls")),
    Column("gaps", "bigint", "gaps, as in weirds", its("summary.gaps")),
    Column("missing_bytes", "bigint", "bytes of the gaps, as far as known", its("summary.missing_bytes")),
    Column("weirds", "array<struct<code: string, times: bigint>>", "weirds by code", its("summary.weird_codes")),
    Column("exchanges", "bigint", "exchanges of the capture, also those that -Y leaves out", its("summary.exchanges")),
    Column("answered", "bigint", "exchanges with a response", _outcome("answered")),
    Column("unanswered", "bigint", "requests whose response is not in the capture", _outcome("unanswered")),
    Column("one_way", "bigint", "requests that ask for no response", _outcome("one_way")),
    Column("orphans", "bigint", "responses whose request is not in the capture", _outcome("orphan")),
    Column("body_cut", "bigint", "exchanges with a body that the snap length cut", _outcome("body_cut")),
    Column("judged", "bigint", "exchanges of APIs that rules are about", its("summary.judged")),
    Column("coverage", "double", "judged as a share of exchanges, 0 to 1", its("summary.coverage")),
    Column("sessions", "bigint", "share sessions, as in sessions", its("summary.sessions")),
    Column("violations", "bigint", "findings that are violations", _verdict("violation")),
    Column("unknown", "bigint", "findings that are not proved", _verdict("unknown")),
    Column("notes", "bigint", "findings that are notes", _verdict("note")),
    Column(
        "findings",
        "array<struct<code: string, verdict: string, count: bigint>>",
        "findings by code and verdict, the most frequent first",
        its("summary.codes"),
    ),
    Column("kshark", "string", "version of kshark that read it", made(_version, "summary")),
    Column(
        "seconds",
        "double",
        "time of the work, in seconds; the only column that differs between runs",
        its("ended.seconds"),
    ),
)
_row: Final = CAPTURES.row_maker()


def capture_row(capture: str, summary: CaptureSummary, ended: Ended) -> Row:
    """Return the row of a capture."""
    return _row(Where(capture, None, None, None), None, summary.since_ns, None, summary, ended)
