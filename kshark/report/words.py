"""The verdict for a person on call: one sentence about what happened, and further sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from kshark.analysis import REASONS
from kshark.output.catalogue import CODES, parties
from kshark.report.facts import Capture, FindingKind, Report, Verdicts
from kshark.units import counted, number, safe, shortened, size

#: Blamed parties of which there may be several.
_MANY: Final = ("client", "broker")
#: Most kinds of findings in the verdict.
_NAMED: Final = 3
#: SESSION_UNKNOWN by cause; the catalogue's text does not name one.
_ENDED: Final = {
    "broker_restart": "A request was rejected because the broker had restarted and lost its share sessions.",
    "connection_closed": "A request was rejected because the connection that had opened its share session was closed.",
    "evicted": "A request was rejected because the broker had evicted its share session for another one.",
    "session_limit": "A request was rejected because the broker had no room for another share session.",
    "never_opened": "A request was rejected because its share session had never been opened.",
    "broker_anomaly": "A request was rejected although its share session had not ended.",
    "unknown": "A request was rejected because its share session did not exist; why it ended is unknown.",
}


class Verdict(NamedTuple):
    """`level` is violation, unknown, note, good, or nothing (nothing to judge); `more` are further sentences."""

    level: str
    sentence: str
    more: list[str]


def verdict_of(report: Report) -> Verdict:
    """Return the verdict of a report; a zero is never alone."""
    totals, unseen = report.totals, _unseen(report)
    if totals.violations:
        return Verdict("violation", _broken(report), [*_most_often(report, "violation"), *_beside(report), *unseen])
    if totals.unknown:
        looks = "finding looks" if totals.unknown == 1 else "findings look"
        sentence = (
            f"No violation is proved, but {number(totals.unknown)} {looks} like one: the capture can neither prove nor "
            f"exclude it."
        )
        return Verdict(
            "unknown", sentence, [*_reasons(report), *_most_often(report, "unknown"), *_beside(report), *unseen]
        )
    judged = f"in {counted(totals.sessions, 'share session')} and {counted(_exchanges(report), 'exchange')}"
    if totals.notes:
        return Verdict(
            "note",
            f"No rule was broken {judged}; {counted(totals.notes, 'note')}.",
            [*_most_often(report, "note"), *_damage(report), *unseen],
        )
    if totals.sessions or _exchanges(report):
        seen = (
            judged
            if totals.sessions
            else f"in {counted(_exchanges(report), 'exchange')}; the capture has no share session"
        )
        more = [*_damage(report), *unseen]
        return Verdict("note" if more else "good", f"No rule was broken {seen}.", more)
    others = [
        f"{counted(service.connections, 'connection')} {service.service}"
        for service in report.connections
        if service.service != "kafka"
    ]
    return Verdict(
        "nothing",
        "Nothing to judge: the capture has no Kafka traffic.",
        [f"Found instead: {', '.join(others)}."] if others else [],
    )


def verdict_of_batch(report: Report, ranked: Sequence[Capture]) -> Verdict:
    """Return the verdict of several captures; `ranked`: the captures, the worst first."""
    if not ranked:
        return Verdict("nothing", "Nothing to judge: no file could be read.", _not_read(report))
    total, level = counted(len(ranked), "capture"), _level_of(ranked)
    worst = ranked[0]
    text = "" if worst.page is None else worst.page.text
    text = text[:1].lower() + text[1:]
    if level in ("violation", "unknown"):
        cluster = f" (cluster {shortened(worst.clusters[0], 40)})" if len(worst.clusters) == 1 else ""
        return Verdict(
            level,
            f"The worst of {total} is {shortened(worst.name, 60)}{cluster}: {text}",
            [
                *_of_all(report, ranked),
                *_first_kind(report, level),
                *_not_read(report),
                *_unjudged(ranked),
                *_unseen(report),
            ],
        )
    if level == "nothing":
        return Verdict(level, f"Nothing to judge: none of {total} has Kafka traffic.", _not_read(report))
    return Verdict(
        level,
        f"No rule was broken in {total} with {counted(_exchanges(report), 'exchange')}.",
        [*_beside(report), *_not_read(report), *_unjudged(ranked), *_damage(report), *_unseen(report)],
    )


def _level_of(captures: Sequence[Capture]) -> str:
    levels = {"" if capture.page is None else capture.page.level for capture in captures}
    return next((level for level in ("violation", "unknown", "note", "good") if level in levels), "nothing")


def _of_all(report: Report, captures: Sequence[Capture]) -> list[str]:
    """Return how many captures have findings, and the worst cluster."""
    counts = [capture.counts for capture in captures]
    broken = sum(count.violations > 0 for count in counts)
    doubtful = sum(count.unknown > 0 and not count.violations for count in counts)
    sentences = []
    if broken:
        shown = f"{number(broken)} of {counted(len(captures), 'capture')}"
        sentences.append(
            f"{shown} {'breaks' if broken == 1 else 'break'} the protocol, {times(report.totals.violations)} in all."
        )
    if doubtful:
        sentences.append(
            f"{counted(doubtful, 'more capture' if broken else 'capture')} may break it: nothing is proved."
        )
    named = [cluster for cluster in report.clusters if cluster.cluster is not None]
    if len(named) > 1 and named[0].violations:
        worst = named[0]
        sentences.append(
            f"Of {counted(len(named), 'cluster')} that captures name, the worst is "
            f"{shortened(worst.cluster or '', 40)}: {counted(worst.violations, 'violation')} in "
            f"{counted(worst.captures, 'capture')}."
        )
    return sentences


def _not_read(report: Report) -> list[str]:
    """Return the files that could not be read."""
    names = [one.file for one in report.unread]
    return [f"{counted(len(names), 'file')} could not be read: {_listed(names)}."] if names else []


def _listed(names: Sequence[str]) -> str:
    more = f" and {number(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
    return ", ".join(shortened(name, 40) for name in names[:_NAMED]) + more


def _unjudged(captures: Sequence[Capture]) -> list[str]:
    """Return the captures without anything to judge."""
    names = [capture.name for capture in captures if capture.page is not None and capture.page.level == "nothing"]
    if not names:
        return []
    return [f"{counted(len(names), 'capture')} without Kafka traffic that could be judged: {_listed(names)}."]


def _exchanges(report: Report) -> int:
    return sum(report.totals.exchanges.values())


def _broken(report: Report) -> str:
    """Return the sentence about violations: `Client A broke the protocol 28 times.`"""
    count = report.totals.violations
    blame: Counter[str] = Counter()
    for kind in report.findings:
        for name, number_of_findings in kind.blame.items() if kind.verdict == "violation" else ():
            blame[" or ".join(parties(kind.code, name))] += number_of_findings
    times = {1: "once", 2: "twice"}.get(count, f"{number(count)} times")
    if list(blame) != ["client"]:
        blamed = " and ".join(f"{name}s" if name in _MANY else name for name, _ in blame.most_common())
        return f"The protocol was broken {times}, by {blamed}."
    clients = [client for client in report.clients_in_findings if client.violations]
    if len(clients) == 1:
        return f"Client {name_of(clients[0])} broke the protocol {times}."
    return (
        f"{number(len(clients))} clients broke the protocol {times}, {name_of(clients[0])} most often "
        f"({number(clients[0].violations)})."
    )


def name_of(client: Verdicts) -> str:
    """Return a client's id, or its address."""
    return shortened(client.name, 60) if client.name else client.address or "(unnamed)"


def _most_often(report: Report, verdict: str) -> list[str]:
    """Return the texts of the most frequent findings."""
    kinds = [kind for kind in report.findings if kind.verdict == verdict]
    if not kinds:
        return []
    return [
        f"{meaning_of(kind).removesuffix('.')} ({times(kind.count)})." if len(kinds) > 1 else meaning_of(kind)
        for kind in kinds[:_NAMED]
    ]


def _first_kind(report: Report, verdict: str) -> list[str]:
    """Return the text of the most frequent finding of several captures."""
    kinds = [kind for kind in report.findings if kind.verdict == verdict]
    return [f"Most often: {kinds[0].code}, {times(kinds[0].count)}. {meaning_of(kinds[0])}"] if kinds else []


def times(count: int) -> str:
    """Return `once`, or `9 times`."""
    return "once" if count == 1 else f"{number(count)} times"


def meaning_of(kind: FindingKind) -> str:
    """Return the catalogue's text of a kind of findings."""
    if kind.code == "SESSION_UNKNOWN" and kind.cause in _ENDED:
        return _ENDED[kind.cause]
    entry = CODES.get(kind.code)
    return entry.text if entry is not None else kind.code


def _reasons(report: Report) -> list[str]:
    """Return the reasons why findings are not proved."""
    return [
        f"Not proved, {times(count)}: {REASONS.get(reason, safe(reason))}."
        for reason, count in report.totals.unknown_because.items()
    ]


def _beside(report: Report) -> list[str]:
    """Return the number of less severe findings."""
    others = []
    if report.totals.violations and report.totals.unknown:
        others.append(f"{counted(report.totals.unknown, 'possible violation')} not proved")
    if report.totals.notes:
        others.append(f"{counted(report.totals.notes, 'note')} without a broken rule")
    return [f"Also: {', and '.join(others)}."] if others else []


def _damage(report: Report) -> list[str]:
    """Return a sentence about messages that violate the wire format; no rule judges them."""
    wrong = [weird for weird in report.weirds if weird.severity == "error"]
    codes = ", ".join(f"{weird.code} {times(weird.times)}" for weird in wrong[:_NAMED])
    return (
        [f"Some bytes violate the wire format: {codes}{' and more' if len(wrong) > _NAMED else ''}."] if wrong else []
    )


def _unseen(report: Report) -> list[str]:
    """Return the data that could not be judged: gaps and TLS."""
    lost, lost_bytes = sum(gap.gaps for gap in report.gaps), sum(gap.bytes for gap in report.gaps)
    unseen = [f"{counted(lost, 'gap')} ({size(lost_bytes)})"] if lost else []
    unseen += [
        f"{counted(service.connections, 'TLS connection')} ({size(service.bytes)})"
        for service in report.connections
        if service.service == "tls"
    ]
    return [f"Not judged, because not readable: {' and '.join(unseen)}."] if unseen else []


def weird_text(code: str) -> str:
    """Return the catalogue's text of a weird."""
    entry = CODES.get(code)
    return "" if entry is None else entry.text
