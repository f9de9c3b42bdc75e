"""Turn counts into a report: sorted, named, and limited. Equal counts give equal bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kshark import __version__, limits
from kshark.analysis import ShareSession
from kshark.analysis.results.statistics import counts_of
from kshark.anomaly import CATALOGUE
from kshark.output.catalogue import advice_of
from kshark.registry import Registry
from kshark.releases import releases_offering
from kshark.report import facts
from kshark.report.collected import CapturedFinding, Collected, Kind, Member, Server
from kshark.report.names import base_names
from kshark.tables.capture_summary import CaptureSummary

#: Verdicts in the order of the report.
VERDICTS: Final = ("violation", "unknown", "note")
#: Counts with a limit.
_BOUNDED: Final = (
    "brokers",
    "offers",
    "apis",
    "clients",
    "steps",
    "of_members",
    "of_clients",
    "of_groups",
    "of_clusters",
)
_PLURALS: Final = {"violation": "violations", "unknown": "unknown", "note": "notes"}


@dataclass(frozen=True)
class Origin:
    """The files of a capture; `locate` returns the file of a packet, and its number in that file."""

    name: str
    files: Sequence[str]
    locate: Callable[[int], tuple[str, int] | None] | None = None
    #: True if they are request logs.
    are_logs: bool = False
    #: Topics' names by id.
    topics: Mapping[str, str] = field(default_factory=dict)


def summed(
    counts: Collected, origins: Sequence[Origin], headlines: Sequence[facts.Headlines], registry: Registry
) -> facts.Report:
    """Return the report of all captures together; `headlines`: those of each capture."""
    for name in _BOUNDED:
        getattr(counts, name).bound()
    brokers = _brokers(counts)
    return facts.Report(
        kshark=__version__,
        totals=_totals(counts),
        headlines=[one for one in headlines if one.headlines],
        captures=[_capture(origin, counts.captures[origin.name]) for origin in origins],
        connections=[
            facts.Service(*row) for row in _wide(counts.connections, ("connections", "bytes", "gaps", "older"))
        ],
        gaps=[facts.Gaps(*row) for row in _wide(counts.gaps, ("gaps", "bytes"))],
        weirds=[
            facts.WeirdCount(code, _severity(code), times, size)
            for code, times, size in _wide(counts.weirds, ("times", "bytes"))
        ],
        brokers=brokers,
        findings=_kinds(counts, {origin.name: origin for origin in origins}),
        clients_in_findings=_clients_in_findings(counts),
        groups_in_findings=[
            facts.Verdicts(group.name, None, None, **verdicts, cluster=group.cluster or None)
            for group, verdicts in _by_name(counts.of_groups)
        ],
        over_time=facts.Timed(
            counts.times.width_ns,
            [
                facts.Cell(begin, dimension, name, verdict, count)
                for (begin, (dimension, name, verdict)), count in sorted(counts.times.cells.items())
            ],
        ),
        members=_members(counts),
        latency=_latency(counts, registry),
        apis=_apis(counts, registry),
        clients=[
            facts.Client(caller.client_id, caller.software, caller.host, count, caller.cluster or None)
            for caller, count in _most(counts.clients)
        ],
        others={
            name: getattr(counts, name).others for name in _BOUNDED if name != "offers" and getattr(counts, name).others
        },
        clusters=_clusters(counts, brokers),
    )


def _capture(origin: Origin, summary: CaptureSummary) -> facts.Capture:
    verdicts = summary.verdicts
    return facts.Capture(
        name=origin.name,
        files=base_names(origin.files),
        first_time_ns=summary.since_ns,
        last_time_ns=summary.until_ns,
        clusters=summary.cluster_ids,
        brokers=summary.brokers,
        releases=summary.broker_releases,
        software=summary.client_software,
        counts=facts.CaptureCounts(
            connections=summary.connections.total(),
            tls_connections=summary.connections["tls"],
            stream_bytes=summary.stream_bytes,
            gaps=summary.gaps,
            missing_bytes=summary.missing_bytes,
            exchanges=summary.exchanges,
            judged=summary.judged,
            sessions=summary.sessions,
            violations=verdicts["violation"],
            unknown=verdicts["unknown"],
            notes=verdicts["note"],
        ),
        findings=[facts.CodeCount(*row) for row in summary.codes],
    )


def _clusters(counts: Collected, brokers: Sequence[facts.Broker]) -> list[facts.Cluster]:
    """Return the clusters, those with the worst findings first."""
    captures: Counter[str] = Counter()
    for summary in counts.captures.values():
        captures.update(summary.cluster_ids or ([""] if summary.exchanges else []))
    servers, requests = Counter[str](), Counter[str]()
    for broker in brokers:
        servers[broker.cluster or ""] += 1
        requests[broker.cluster or ""] += broker.requests
    verdicts = dict(_by_name(counts.of_clusters))
    nothing = dict.fromkeys(_PLURALS.values(), 0)
    rows = [
        facts.Cluster(name or None, captures[name], servers[name], requests[name], **verdicts.get(name, nothing))
        for name in captures.keys() | servers.keys()
    ]
    return sorted(
        rows,
        key=lambda row: (
            -row.violations,
            -row.unknown,
            -row.notes,
            -row.requests,
            row.cluster is None,
            row.cluster or "",
        ),
    )


def _most(counter: Counter[Any]) -> list[tuple[Any, int]]:
    """Return the entries by count, then by key: `most_common` would depend on the order of counting."""
    return sorted(counter.items(), key=lambda item: (-item[1], repr(item[0])))


def _ordered(counter: Counter[Any]) -> dict[str, int]:
    return {str(key): count for key, count in _most(counter)}


def _wide(counter: Counter[tuple[str, str]], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return a row for each name, sorted by the first column, largest first."""
    names = {name for name, _ in counter}
    return sorted(
        ((name, *(counter[name, column] for column in columns)) for name in names), key=lambda row: (-row[1], row[0])
    )


def _totals(counts: Collected) -> facts.Totals:
    verdicts: Counter[str] = Counter()
    for (kind, _), count in counts.kinds.items():
        verdicts[kind.verdict] += count
    ends = Counter(
        session.closed.how if session.closed is not None else "never_opened" for _, session in counts.sessions
    )
    return facts.Totals(
        violations=verdicts["violation"],
        unknown=verdicts["unknown"],
        notes=verdicts["note"],
        unknown_because=_ordered(counts.reasons),
        sessions=len(counts.sessions),
        session_ends=_ordered(ends),
        members=len({member for member, _, _ in counts.steps}),
        exchanges=counts_of(counts.outcomes),
    )


def _severity(code: str) -> str:
    entry = CATALOGUE.get(code)
    return "warn" if entry is None else entry.severity


def _brokers(counts: Collected) -> list[facts.Broker]:
    releases: dict[Server, set[str]] = {}
    for server, offered in counts.offers:
        matching = set(releases_offering(dict(offered)))
        releases[server] = releases.get(server, set()) | matching
    return [
        facts.Broker(server.address, count, sorted(releases.get(server, ())), server.cluster or None)
        for server, count in _most(counts.brokers)
    ]


# -- findings


def _kinds(counts: Collected, origins: Mapping[str, Origin]) -> list[facts.FindingKind]:
    blame: dict[Kind, Counter[str]] = {}
    for (kind, who), count in counts.kinds.items():
        blame.setdefault(kind, Counter())[who] += count
    order = sorted(blame, key=lambda kind: (VERDICTS.index(kind.verdict), -blame[kind].total(), kind))
    return [
        facts.FindingKind(
            kind.verdict,
            kind.code,
            kind.cause or None,
            blame[kind].total(),
            _ordered(blame[kind]),
            [_shown(captured, origins[captured.capture]) for captured in counts.shown[kind]],
            advice_of(kind.code, kind.cause or None),
        )
        for kind in order
    ]


def _shown(captured: CapturedFinding, origin: Origin) -> facts.ShownFinding:
    finding = captured.finding
    packets = {p for w in finding.witness for p in (w.request_packet, w.response_packet, w.packet) if p is not None} | {
        finding.packet
    }
    names = dict(zip(origin.files, base_names(origin.files), strict=True))
    frames: dict[str, list[int]] = {}
    for packet in sorted(packets):
        located = (origin.files[0], packet) if origin.locate is None else origin.locate(packet)
        if located is not None:
            frames.setdefault(names[located[0]], []).append(located[1])
    topic = None if finding.topic_id is None else origin.topics.get(finding.topic_id)
    return facts.ShownFinding(
        captured.capture,
        finding,
        topic,
        [facts.FileFrames(file, numbers, origin.are_logs) for file, numbers in frames.items()],
        captured.cluster or None,
    )


def _by_name(counter: Counter[tuple[Any, str]]) -> list[tuple[Any, dict[str, int]]]:
    """Return each name with its verdicts, the worst first."""
    verdicts_of: dict[Any, dict[str, int]] = {}
    for (name, verdict), count in counter.items():
        verdicts_of.setdefault(name, dict.fromkeys(_PLURALS.values(), 0))[_PLURALS[verdict]] += count
    return sorted(verdicts_of.items(), key=lambda item: ([-count for count in item[1].values()], repr(item[0])))


def _clients_in_findings(counts: Collected) -> list[facts.Verdicts]:
    return [
        facts.Verdicts(
            caller.client_id, caller.software or None, caller.host, **verdicts, cluster=caller.cluster or None
        )
        for caller, verdicts in _by_name(counts.of_clients)
    ]


# -- members


def _members(counts: Collected) -> list[facts.MemberLine]:
    """Return the worst members: most findings first, then most rejected requests; up to a limit."""
    of_findings = dict(_by_name(counts.of_members))
    callers: dict[Member, Counter[Any]] = {}
    errors: dict[Member, Counter[Any]] = {}
    for (member, caller, error), count in counts.steps.items():
        callers.setdefault(member, Counter())[caller] += count
        errors.setdefault(member, Counter())[error] += count
    nothing = dict.fromkeys(_PLURALS.values(), 0)

    def rank(member: Member) -> Any:
        verdicts = of_findings.get(member, nothing).values()
        refused = sum(count for error, count in errors[member].items() if error)
        return [-count for count in verdicts], -refused, -errors[member].total(), member

    worst = sorted(errors, key=rank)[: limits.REPORT_MEMBERS]
    chosen = set(worst)
    accepted, refused = counts.accepted.of(chosen), counts.refused.of(chosen)
    sessions: dict[Member, list[ShareSession]] = {}
    for capture, session in counts.sessions:
        key = Member(capture, session.broker, session.group_id or "", session.member_id or "")
        if key in chosen:
            sessions.setdefault(key, []).append(session)
    lines = []
    for member in worst:
        ((caller, _), *_) = _most(callers[member])
        steps = sorted([*accepted[member], *refused[member]], key=lambda tick: tick.packet)
        lines.append(
            facts.MemberLine(
                capture=member.capture,
                broker=member.broker,
                group_id=member.group_id,
                member_id=member.member_id,
                client_id=caller.client_id,
                software=caller.software,
                **of_findings.get(member, nothing),
                requests=errors[member].total(),
                refused=_ordered(Counter({error: count for error, count in errors[member].items() if error})),
                sessions=sorted(sessions.get(member, ()), key=lambda session: session.session),
                steps=[facts.MemberRequest(*tick) for tick in steps],
                one_in=1 << counts.accepted.thinned,
                one_in_refused=1 << counts.refused.thinned,
            )
        )
    return lines


# -- APIs


def _latency(counts: Collected, registry: Registry) -> list[facts.Latency]:
    rows = []
    for (key, waited), measured in counts.latency.items():
        p50, p95, p99 = measured.at(50, 95, 99)
        rows.append(facts.Latency(key, _api(registry, key), waited, measured.count, p50, p95, p99, measured.greatest))
    return sorted(rows, key=lambda row: (row.waited, -row.count, row.api_key))


def _apis(counts: Collected, registry: Registry) -> list[facts.ApiUse]:
    requests: Counter[int] = Counter()
    versions: dict[int, dict[int, Counter[str]]] = {}
    for (key, version, software), count in counts.apis.items():
        requests[key] += count
        versions.setdefault(key, {}).setdefault(version, Counter())[software] += count
    errors: dict[int, Counter[int]] = {}
    for (key, code), count in counts.errors.items():
        errors.setdefault(key, Counter())[code] += count
    return [
        facts.ApiUse(
            key,
            _api(registry, key),
            count,
            counts.unanswered[key],
            {str(version): _ordered(by_software) for version, by_software in sorted(versions[key].items())},
            _ordered(errors.get(key, Counter())),
        )
        for key, count in _most(requests)
    ]


def _api(registry: Registry, key: int) -> str:
    return registry.name(key) or f"api {key}"
