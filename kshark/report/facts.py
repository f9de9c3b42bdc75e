"""The content of a report as plain data: `report.json` is a `Report`, and the page is made from it alone.

Times are integer nanoseconds since 1970. Brokers are `address:port`, as in all outputs. Texts are unchanged from the
capture.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kshark.analysis import ShareSession
from kshark.headlines import Headline
from kshark.model import Finding


class CaptureCounts(msgspec.Struct):
    """The counts of one capture, as in the columns of the table `captures` with these names."""

    connections: int = 0
    tls_connections: int = 0
    stream_bytes: int = 0
    gaps: int = 0
    missing_bytes: int = 0
    exchanges: int = 0
    judged: int = 0
    sessions: int = 0
    violations: int = 0
    unknown: int = 0
    notes: int = 0


class CodeCount(msgspec.Struct):
    """Findings of one capture with one code and verdict."""

    code: str
    verdict: str
    count: int


class Page(msgspec.Struct):
    """The page of one capture among several: its path in the folder of the report, and its verdict in a sentence.

    `level` is that of kshark.report.words.Verdict.
    """

    path: str
    level: str
    text: str


class Capture(msgspec.Struct):
    """One capture of one or several files, by their names without folders; without times if it has no connection.

    `releases` are those of its brokers, `software` is that of its clients. `page`: null if it is the only capture.
    """

    name: str
    files: list[str]
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    clusters: list[str] = []
    brokers: list[str] = []
    releases: list[str] = []
    software: list[str] = []
    counts: CaptureCounts = msgspec.field(default_factory=CaptureCounts)
    findings: list[CodeCount] = []
    page: Page | None = None


class Cluster(msgspec.Struct):
    """One cluster in all captures; `cluster` is null for brokers whose cluster no capture names."""

    cluster: str | None
    captures: int
    brokers: int
    requests: int
    violations: int
    unknown: int
    notes: int


class Unread(msgspec.Struct):
    """A file that could not be read, or not to its end, by its name without folders."""

    file: str
    reason: str


class Totals(msgspec.Struct):
    """The totals behind the verdict."""

    violations: int
    unknown: int
    notes: int
    #: Unknown findings by reason.
    unknown_because: dict[str, int]
    sessions: int
    #: Sessions by their end.
    session_ends: dict[str, int]
    members: int
    #: Requests by outcome: answered, unanswered, one_way, orphan (a response without request); body_cut (the snap
    #: length cut the answer) only if there are any.
    exchanges: dict[str, int]


class Headlines(msgspec.Struct):
    """The headlines of one capture, in the order of `kshark check`."""

    capture: str
    headlines: list[Headline]


class Service(msgspec.Struct):
    """Connections of one service (kafka, tls, http, other, unknown); `older`: began before the capture."""

    service: str
    connections: int
    bytes: int
    gaps: int
    older: int


class Gaps(msgspec.Struct):
    """Gaps with one reason (missing, snapped, buffer_full, at_close, undecrypted)."""

    reason: str
    gaps: int
    bytes: int


class WeirdCount(msgspec.Struct):
    """A weird of the catalogue, with its number and the bytes concerned."""

    code: str
    severity: str
    times: int
    bytes: int


class Broker(msgspec.Struct):
    """A broker of a cluster, and the Kafka releases that match its ApiVersions response; empty without a response."""

    broker: str
    requests: int
    releases: list[str]
    cluster: str | None = None


class FileFrames(msgspec.Struct):
    """Packets of the evidence in one file, by their numbers in it; `lines`: it is a request log, and has lines."""

    file: str
    frames: list[int]
    lines: bool = False


class ShownFinding(msgspec.Struct):
    """A complete finding, with the packets of its witnesses in the files, and the cluster of its broker."""

    capture: str
    finding: Finding
    topic: str | None
    places: list[FileFrames]
    cluster: str | None = None


class FindingKind(msgspec.Struct):
    """Equal findings: their number, the blamed parties, the first of them, and what to do about them."""

    verdict: str
    code: str
    cause: str | None
    count: int
    blame: dict[str, int]
    shown: list[ShownFinding]
    advice: str = ""


class Verdicts(msgspec.Struct):
    """Findings about a client, or a group, of a cluster."""

    name: str
    software: str | None
    address: str | None
    violations: int
    unknown: int
    notes: int
    cluster: str | None = None


class Cell(msgspec.Struct):
    """Findings of one time bin; `dimension` is cause, client or group."""

    begin_ns: int
    dimension: str
    name: str
    verdict: str
    count: int


class Timed(msgspec.Struct):
    """Findings over time, in bins of one width."""

    width_ns: int
    cells: list[Cell]


class MemberRequest(msgspec.Struct):
    """A share request of a member; `error_code` is null without a response."""

    time_ns: int
    packet: int
    api: str
    epoch: int
    error_code: int | None


class MemberLine(msgspec.Struct):
    """A member's sessions with a broker.

    `steps` has one in `one_in` of the accepted requests, and one in `one_in_refused` of the rejected ones.
    """

    capture: str
    broker: str
    group_id: str
    member_id: str
    client_id: str
    software: str
    violations: int
    unknown: int
    notes: int
    requests: int
    refused: dict[str, int]
    sessions: list[ShareSession]
    steps: list[MemberRequest]
    one_in: int
    one_in_refused: int


class Latency(msgspec.Struct):
    """Latency of one API in nanoseconds.

    `waited`: fetches without records, for which the broker waited for the whole max_wait_ms.
    """

    api_key: int
    api: str
    waited: bool
    count: int
    p50: int
    p95: int
    p99: int
    max: int


class ApiUse(msgspec.Struct):
    """An API in use: its versions with the number of requests, by software."""

    api_key: int
    api: str
    requests: int
    unanswered: int
    versions: dict[str, dict[str, int]]
    errors: dict[str, int]


class Client(msgspec.Struct):
    """A client's id, software and host, and its cluster."""

    client_id: str
    software: str
    host: str
    requests: int
    cluster: str | None = None


class Report(msgspec.Struct):
    """The whole report, in the order of the page."""

    kshark: str
    totals: Totals
    headlines: list[Headlines]
    captures: list[Capture]
    connections: list[Service]
    gaps: list[Gaps]
    weirds: list[WeirdCount]
    brokers: list[Broker]
    findings: list[FindingKind]
    clients_in_findings: list[Verdicts]
    groups_in_findings: list[Verdicts]
    over_time: Timed
    members: list[MemberLine]
    latency: list[Latency]
    apis: list[ApiUse]
    clients: list[Client]
    #: Counts of rows beyond a limit, by field: requests of further clients, and so on.
    others: dict[str, int]
    clusters: list[Cluster] = []
    unread: list[Unread] = []


def to_json(report: Report) -> bytes:
    """Encode the report as in `report.json`."""
    encoded: bytes = msgspec.json.format(msgspec.json.encode(report, enc_hook=_plain), indent=1)
    return encoded + b"\n"


def _plain(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not plain data")
