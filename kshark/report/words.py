"""The verdict for a person on call: one sentence that says what happened, and what else has to be known with it."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from kshark.analysis import REASONS
from kshark.output.catalogue import CODES, parties
from kshark.output.units import counted, number, safe, shortened, size
from kshark.report.facts import FindingKind, Report, Verdicts

#: Whom a finding may blame and there may be many of.
_MANY: Final = ("client", "broker")
#: Kinds of findings that the verdict names.
_NAMED: Final = 3
#: A SESSION_UNKNOWN by its cause: the catalogue's text leaves that open.
_ENDED: Final = {
    "broker_restart": "A request was refused because the broker had restarted and forgotten its share sessions.",
    "connection_closed": "A request was refused because the connection that had opened its share session was closed.",
    "evicted": "A request was refused because the broker had given the place of its share session to another.",
    "session_limit": "A request was refused because the broker had no room for another share session.",
    "never_opened": "A request was refused because no share session had been opened for it.",
    "broker_anomaly": "A request was refused though nothing had ended its share session.",
    "unknown": "A request was refused for want of a share session; what ended it cannot be told.",
}


class Verdict(NamedTuple):
    """`level` is violation, unknown, note, good or nothing (there was nothing to judge); `more` are further
    sentences."""

    level: str
    sentence: str
    more: list[str]


def verdict_of(report: Report) -> Verdict:
    """What a report comes to; never a bare zero."""
    totals, unseen = report.totals, _unseen(report)
    if totals.violations:
        return Verdict("violation", _broken(report), [*_most_often(report, "violation"), *_beside(report), *unseen])
    if totals.unknown:
        looks = "finding looks" if totals.unknown == 1 else "findings look"
        sentence = (
            f"No rule is proved broken, but {number(totals.unknown)} {looks} like it: the capture cannot prove them "
            f"either way."
        )
        return Verdict(
            "unknown", sentence, [*_reasons(report), *_most_often(report, "unknown"), *_beside(report), *unseen]
        )
    judged = f"in {counted(totals.sessions, 'share session')} and {counted(_exchanges(report), 'exchange')}"
    if totals.notes:
        return Verdict(
            "note",
            f"No rule was broken {judged}; {counted(totals.notes, 'note')} to read.",
            [*_most_often(report, "note"), *_damage(report), *unseen],
        )
    if totals.sessions or _exchanges(report):
        seen = judged if totals.sessions else f"in {counted(_exchanges(report), 'exchange')}; no share session was seen"
        more = [*_damage(report), *unseen]
        return Verdict("note" if more else "good", f"No rule was broken {seen}.", more)
    others = [
        f"{counted(one.connections, 'connection')} {one.service}"
        for one in report.connections
        if one.service != "kafka"
    ]
    return Verdict(
        "nothing",
        "There was nothing to judge: the capture holds no Kafka.",
        [f"Seen instead: {', '.join(others)}."] if others else [],
    )


def _exchanges(report: Report) -> int:
    return sum(report.totals.exchanges.values())


def _broken(report: Report) -> str:
    """`Client A broke the protocol 28 times.`"""
    count = report.totals.violations
    blame: Counter[str] = Counter()
    for kind in report.findings:
        for name, many in kind.blame.items() if kind.verdict == "violation" else ():
            blame[" or ".join(parties(kind.code, name))] += many
    times = {1: "once", 2: "twice"}.get(count, f"{number(count)} times")
    if list(blame) != ["client"]:
        who = " and ".join(f"{name}s" if name in _MANY else name for name, _ in blame.most_common())
        return f"The protocol was broken {times}, by {who}."
    clients = [one for one in report.clients_in_findings if one.violations]
    if len(clients) == 1:
        return f"Client {name_of(clients[0])} broke the protocol {times}."
    return (
        f"{number(len(clients))} clients broke the protocol {times}, {name_of(clients[0])} most often "
        f"({number(clients[0].violations)})."
    )


def name_of(client: Verdicts) -> str:
    """A client by its id, else by its address."""
    return shortened(client.name, 60) if client.name else client.address or "without a name"


def _most_often(report: Report, verdict: str) -> list[str]:
    """What the most frequent findings say."""
    kinds = [kind for kind in report.findings if kind.verdict == verdict]
    if not kinds:
        return []
    return [
        f"{meaning_of(kind).removesuffix('.')} ({times(kind.count)})." if len(kinds) > 1 else meaning_of(kind)
        for kind in kinds[:_NAMED]
    ]


def times(count: int) -> str:
    """`once`, `9 times`."""
    return "once" if count == 1 else f"{number(count)} times"


def meaning_of(kind: FindingKind) -> str:
    """What the catalogue says of it."""
    if kind.code == "SESSION_UNKNOWN" and kind.cause in _ENDED:
        return _ENDED[kind.cause]
    entry = CODES.get(kind.code)
    return entry.text if entry is not None else kind.code


def _reasons(report: Report) -> list[str]:
    """Why what looks wrong is not proved."""
    return [
        f"Not proved, {times(count)}: {REASONS.get(reason, safe(reason))}."
        for reason, count in report.totals.unknown_because.items()
    ]


def _beside(report: Report) -> list[str]:
    """What else was found, less severe than what the sentence says."""
    found = []
    if report.totals.violations and report.totals.unknown:
        found.append(f"{number(report.totals.unknown)} more look like it and cannot be proved")
    if report.totals.notes:
        found.append(f"{counted(report.totals.notes, 'note')} where nobody broke a rule")
    return [f"Beside {'it' if totals_of(report) == 1 else 'them'}: {', and '.join(found)}."] if found else []


def totals_of(report: Report) -> int:
    """How many findings the verdict's sentence is about."""
    return report.totals.violations or report.totals.unknown


def _damage(report: Report) -> list[str]:
    """Messages that are not as the protocol has them: no rule judges them, and still somebody sent them."""
    wrong = [one for one in report.weirds if one.severity == "error"]
    told = ", ".join(f"{one.code} {times(one.times)}" for one in wrong[:_NAMED])
    return (
        [f"Some bytes are not as the protocol has them: {told}{' and more' if len(wrong) > _NAMED else ''}."]
        if wrong
        else []
    )


def _unseen(report: Report) -> list[str]:
    """What may hold more: bytes that the capture lacks, and those that are encrypted."""
    lost, lost_bytes = sum(one.gaps for one in report.gaps), sum(one.bytes for one in report.gaps)
    unseen = [f"{counted(lost, 'gap')} ({size(lost_bytes)})"] if lost else []
    unseen += [
        f"{counted(one.connections, 'TLS connection')} ({size(one.bytes)})"
        for one in report.connections
        if one.service == "tls"
    ]
    return [f"Not judged, since it could not be read: {' and '.join(unseen)}."] if unseen else []


def weird_text(code: str) -> str:
    """What the catalogue says of a weird."""
    entry = CODES.get(code)
    return "" if entry is None else entry.text
