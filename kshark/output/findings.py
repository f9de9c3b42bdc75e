"""A finding as text: who, what, the evidence, the next step; and the summary lines after all findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from kshark.analysis import REASONS, Observed
from kshark.endpoints import via
from kshark.error_names import ERROR_NAMES
from kshark.model import Finding
from kshark.output.catalogue import CODES, JUDGED_BY, group_of, parties
from kshark.output.spans import CODE, DIM, ERROR, NOTE, PLAIN, VALUE, WARN, Line, folded
from kshark.output.wireshark import of_frames
from kshark.units import clock, counted, duration, moment, number, safe, shortened
from kshark_dissectors.errors import RETRIABLE

_INDENT: Final = 14
_LEAST: Final = 54
#: Styles of verdicts.
STYLES: Final = {"violation": ERROR, "unknown": WARN, "note": NOTE}
#: Most packets of the evidence, brokers of a capture, and kinds of errors in a line.
_PACKETS: Final = 8
_BROKERS: Final = 3
_KINDS: Final = 2
#: With fewer exchanges, a missing direction may be chance.
_ONE_SIDED: Final = 5
#: State machines of one member: requests on its other connections can change their state.
_OF_MEMBERS: Final = ("session", "member")
_OF_BYTES: Final = {rule.number for rule in JUDGED_BY.values()}


#: Code, verdict and cause.
Sort = tuple[str, str, str | None]


def sort_of(finding: Finding) -> Sort:
    """Return the properties that equal findings share."""
    return finding.code, finding.verdict, finding.cause


def finding_lines(finding: Finding, width: int | None, topics: Mapping[str, str]) -> Iterator[Line]:
    """Return five to seven lines, wrapped to the terminal, and an empty line. `topics`: known topic names by id."""
    style = STYLES[finding.verdict]
    headline = [
        (clock(finding.time_ns, 3) + "  ", DIM),
        (finding.code, style),
        ("  ", PLAIN),
        *judgement(finding, style),
    ]
    yield from folded(headline, None if width is None else max(width, _LEAST), _INDENT)
    yield from _below(_where(finding, topics), DIM, width)
    entry = CODES.get(finding.code)
    if entry is not None:
        yield from _below(entry.text, PLAIN, width)
    yield from _below(safe(finding.argument), VALUE, width)
    if finding.unknown_because is not None:
        yield from _below(_not_proved(finding), WARN, width)
    yield from _below(_next_step(finding), DIM, width)
    for text in _display_filters(finding):
        yield from _below(text, DIM, width)
    yield []


def _not_proved(finding: Finding) -> str:
    """Return the reason why a finding is unknown, with the word that `kshark explain` takes."""
    reason = finding.unknown_because or "unknown"
    entry = CODES.get(finding.code)
    if reason == "hidden_traffic" and entry is not None and group_of(entry) in _OF_MEMBERS:
        meaning = "another connection of this member, not in this capture, could explain it"
    else:
        meaning = REASONS.get(reason, "")
    return f"Not proved: {meaning} ({reason})." if meaning else f"Not proved: {reason}."


def _below(text: str, style: str, width: int | None) -> Iterator[Line]:
    """Indent text below the code's column."""
    return folded([(" " * _INDENT, PLAIN), (text, style)], None if width is None else max(width, _LEAST), _INDENT)


def judgement(finding: Finding, style: str = PLAIN) -> Line:
    """Return `violation by client billing-3 · skip_after_timeout`."""
    line: Line = [(finding.verdict, style)]
    if finding.verdict == "violation":
        name = f" {safe(finding.client_id)}" if finding.blame == "client" and finding.client_id else ""
        line.append((f" by {' or '.join(parties(finding.code, finding.blame))}{name}", PLAIN))
    if finding.cause is not None:
        line += [(" · ", DIM), (finding.cause, CODE)]
    return line


def _where(finding: Finding, topics: Mapping[str, str]) -> str:
    """Return client, group, member, partition and broker, as far as known."""
    about = ", ".join(filter(None, (via(finding.client, finding.proxy), finding.software)))
    parts = []
    if finding.client_id:
        parts.append(f"client {finding.client_id} ({about})" if about else f"client {finding.client_id}")
    elif about:
        parts.append(f"client {about}")
    if finding.group_id is not None:
        parts.append(f"group {finding.group_id or '(empty)'}")
    if finding.member_id is not None:
        parts.append(f"member {finding.member_id or '(empty)'}")
    if finding.topic_id is not None:
        name = topics.get(finding.topic_id, finding.topic_id)
        parts.append(f"topic {name}" + ("" if finding.partition is None else f"[{finding.partition}]"))
    parts.append(f"broker {finding.broker}")
    return " · ".join(shortened(part, 90) for part in parts)


def packets_of(finding: Finding) -> list[int]:
    """Return the packets of the evidence, in order."""
    return sorted(
        {p for w in finding.witness for p in (w.request_packet, w.response_packet, w.packet) if p is not None}
        | {finding.packet}
    )


def logged_line(finding: Finding) -> int | None:
    """Return the line of a request log with the last of the evidence; None if it is in packets."""
    lines = [place.frame for witness in finding.witness for place in witness.places or () if place.is_line]
    return lines[-1] if lines else None


def _next_step(finding: Finding) -> str:
    packets, logs = packets_of(finding), _logs(finding)
    step = f"kshark explain {finding.code}"
    if not logs:
        shown = " ".join(str(packet) for packet in packets[-_PACKETS:])
        more = f" and {len(packets) - _PACKETS} earlier" if len(packets) > _PACKETS else ""
        step += f" · {'packet' if len(packets) == 1 else 'packets'} {shown}{more}"
    for file, frames_of_file in _frames(finding).items():
        numbers = " ".join(map(str, sorted(frames_of_file)[:_PACKETS]))
        noun = "line" if file in logs else "frame"
        step += (
            f" · {safe(file)}: {noun if len(frames_of_file) == 1 else noun + 's'} "
            f"{numbers}{' …' if len(frames_of_file) > _PACKETS else ''}"
        )
    return step


def _frames(finding: Finding) -> dict[str, set[int]]:
    """Return the frame numbers of the evidence by file, if packet numbers do not show them."""
    frames: dict[str, set[int]] = {}
    for place in (place for witness in finding.witness for place in witness.places or ()):
        frames.setdefault(place.file, set()).add(place.frame)
    return frames


def _logs(finding: Finding) -> set[str]:
    """Return the files of the evidence that are request logs: their frames are lines."""
    return {place.file for witness in finding.witness for place in witness.places or () if place.is_line}


def _display_filters(finding: Finding) -> Iterator[str]:
    """Yield a Wireshark display filter for the packets of the evidence, for each file."""
    frames = _frames(finding)
    if not frames:
        yield f"Wireshark: {of_frames(packets_of(finding)[-_PACKETS:])}"
    logs = _logs(finding)
    for file, numbers in frames.items():
        if file in logs:
            continue
        name = f" ({safe(PurePath(file).name)})" if len(frames) > 1 else ""
        yield f"Wireshark{name}: {of_frames(sorted(numbers)[:_PACKETS])}"


class FindingCounts:
    """Counts of the findings that are shown; findings excluded by --select do not count for the verdict."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        #: By verdict and code.
        self.sorts: Counter[tuple[str, str]] = Counter()

    @property
    def has_events(self) -> bool:
        """True if a finding is an event of the catalogue."""
        return any(code in CODES and group_of(CODES[code]) == "event" for code in self.codes)

    def add(self, finding: Finding) -> None:
        self.verdicts[finding.verdict] += 1
        self.codes[finding.code] += 1
        self.sorts[finding.verdict, finding.code] += 1
        if finding.verdict == "unknown":
            self.reasons[finding.unknown_because or "unknown"] += 1

    def summary(self, observed: Observed, rules: Sequence[int]) -> dict[str, Any]:
        """Return the last JSON line: the captured data, the findings, and the errors without a finding.

        `rules`: the numbers of the checked rules.
        """
        return {
            "summary": {
                "sessions": observed.sessions,
                "exchanges": observed.exchanges,
                "violations": self.verdicts["violation"],
                "unknown": self.verdicts["unknown"],
                "notes": self.verdicts["note"],
                "gaps": observed.gaps,
                "by_code": dict(sorted(self.codes.items())),
                "rules": [*rules],
                "unexplained": observed.unexplained(),
                "ordinary": observed.ordinary(),
                "covered": observed.covered(),
            }
        }


def judged_lines(observed: Observed, rules: Sequence[int], width: int | None = None) -> Iterator[Line]:
    """Return what was judged and what was not, and the errors without a finding."""
    yield from folded(_judged(observed, rules), width, 2)
    line: Line = []
    for title, style, rows in _errors_by_meaning(observed):
        if rows:
            line += [(" · " if line else "", DIM), (title, style), (_errors(rows), PLAIN if style == WARN else DIM)]
    if line:
        yield from folded(line, width, 2)


def _errors_by_meaning(observed: Observed) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield the errors that no finding explains: those without a rule, retriable ones, and expected ones."""
    unexplained = observed.unexplained()
    yield "errors without a rule: ", WARN, [row for row in unexplained if not _is_retriable(row)]
    yield "retriable errors without a rule: ", DIM, [row for row in unexplained if _is_retriable(row)]
    yield "expected errors: ", DIM, observed.ordinary()


def _judged(observed: Observed, rules: Sequence[int]) -> Line:
    """Return the line about what was judged; data that could not be read follows.

    `judged 98 of 113 requests with 10.0.1.5:9092 · 2 rules · 2026-11-21 14:03:07.412 to 14:20:11.020 UTC (17 min 3 s)`.
    """
    head, judged = _head(observed, rules)
    brokers = sorted(observed.brokers)
    line = (
        f" with {', '.join(brokers) if len(brokers) <= _BROKERS else counted(len(brokers), 'broker')}"
        if brokers and judged
        else ""
    )
    if rules and judged:
        line += f" · {counted(len(rules), 'rule')}"
    if observed.since_ns is not None and observed.until_ns is not None:
        took = duration(observed.until_ns - observed.since_ns)
        since, until = moment(observed.since_ns), moment(observed.until_ns)
        line += f" · {since} to {until.removeprefix(since[:11])} UTC ({took})"
    tls = f" · {counted(observed.tls_connections, 'TLS connection')} not read" if observed.tls_connections else ""
    rest = f" · {counted(observed.duplicates, 'packet')} captured twice" if observed.duplicates else ""
    explained = observed.answered.total()
    if explained and observed.is_explained:
        few = {1: "the one error is", 2: "both errors are"}
        rest += f" · {few.get(explained, f'all {number(explained)} errors are')} explained"
    one_sided = _one_sided(observed)
    parts = (line, DIM), (tls, WARN), (rest, DIM), (f" · {one_sided}" if one_sided else "", WARN)
    return [*head, *((text, style) for text, style in parts if text)]


def _one_sided(observed: Observed) -> str:
    """Return a warning if the capture has only one direction of its connections: rules need both."""
    exchanges, orphans = observed.exchanges, observed.orphans
    due = exchanges - orphans - observed.one_way
    if max(due, orphans) < _ONE_SIDED:
        return ""
    if orphans == exchanges:
        return "the capture has responses, but no requests"
    return "the capture has requests, but no responses" if not orphans and due == observed.unanswered else ""


def _head(observed: Observed, rules: Sequence[int]) -> tuple[Line, bool]:
    """Return the share of judged requests, or why nothing was judged; and True if something was judged."""
    exchanges = counted(observed.exchanges, "exchange" if observed.orphans else "request")
    if observed.judged:
        seen = 0 if observed.one_sided else observed.judged
        return [(f"{'judged' if rules else 'searched'} {number(seen)} of {exchanges}", DIM)], True
    if not observed.exchanges:
        return [("nothing was judged: ", WARN), ("the capture has no Kafka request", PLAIN)], False
    what, others = ("nothing was", "") if _OF_BYTES.isdisjoint(rules) else ("only bytes were", "other ")
    return [(f"{what} judged: ", WARN), (f"no {others}rule applies to the APIs of the {exchanges}", PLAIN)], False


def _is_retriable(row: Mapping[str, Any]) -> bool:
    """True for retriable errors, common while brokers start and leaders move.

    Not for share sessions: their errors have causes.
    """
    return row["error_code"] in RETRIABLE and row["api"] not in ("ShareFetch", "ShareAcknowledge")


def _errors(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return `OffsetCommit ILLEGAL_GENERATION ×12 (client c1) · 3 more, see -T json`."""
    texts = [_error(**row) for row in rows[:_KINDS]]
    if omitted := sum(row["count"] for row in rows[_KINDS:]):
        texts.append(f"{number(omitted)} more, see -T json")
    return " · ".join(texts)


def _error(api: str, error_code: int, count: int, clients: Sequence[str], cause: str | None = None) -> str:
    client = f"client {shortened(clients[0], 40)}" if len(clients) == 1 else counted(len(clients), "client")
    name = ERROR_NAMES.get(error_code, f"error {error_code}")
    return f"{api} {name} ×{number(count)} ({f'{cause}, ' if cause else ''}{client})"
