"""A finding for a person: who, what, the evidence, the next step; and the summary line after all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kshark.analysis import REASONS, Observed
from kshark.model import Finding
from kshark.output.catalogue import CODES, JUDGED_BY, parties
from kshark.output.spans import CODE, DIM, ERROR, GOOD, NOTE, PLAIN, VALUE, WARN, Line, folded
from kshark.output.units import clock, counted, duration, moment, number, safe, shortened
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.errors import RETRIABLE

_INDENT: Final = 14
_LEAST: Final = 54
_STYLES: Final = {"violation": ERROR, "unknown": WARN, "note": NOTE}
#: At most so many packets of the evidence are listed, brokers of a capture, kinds of refusals.
_PACKETS: Final = 8
_BROKERS: Final = 3
_REFUSALS: Final = 6
#: With fewer exchanges it may be chance that none of them is whole.
_ONE_SIDED: Final = 5
_OF_BYTES: Final = {rule.number for rule in JUDGED_BY.values()}
_ERRORS: Final = {error.value: error.name for error in ErrorCode}


#: Code, verdict and cause.
Sort = tuple[str, str, str | None]


class Alike(NamedTuple):
    """Findings of one code, verdict and cause: the first of them, how many there are, and the time of the last."""

    first: Finding
    times: int
    last_ns: int


def sort_of(finding: Finding) -> Sort:
    """What findings that say the same have in common."""
    return finding.code, finding.verdict, finding.cause


def alike(findings: Iterable[Finding]) -> list[Alike]:
    """Findings in the order of packets by what they say: violations first, then what is most."""
    told: dict[Sort, Alike] = {}
    for finding in findings:
        sort = sort_of(finding)
        same = told.get(sort)
        told[sort] = (
            Alike(finding, 1, finding.time_ns) if same is None else Alike(same.first, same.times + 1, finding.time_ns)
        )
    return sorted(told.values(), key=lambda one: ([*_STYLES].index(one.first.verdict), -one.times))


def finding_lines(
    finding: Finding, width: int | None, topics: Mapping[str, str], like: Alike | None = None
) -> Iterator[Line]:
    """Four to six lines, wrapped to the terminal; an empty one at the end.

    `topics`: names by id, as far as they are known. `like`: those that it stands for.
    """
    style = _STYLES[finding.verdict]
    headline = [
        (clock(finding.time_ns, 3) + "  ", DIM),
        (finding.code, style),
        ("  ", PLAIN),
        *_headline(finding, style),
    ]
    if like is not None and like.times > 1:
        headline.append((f" · the first of {number(like.times)}, until {clock(like.last_ns, 3)}", PLAIN))
    yield from folded(headline, None if width is None else max(width, _LEAST), _INDENT)
    yield from _below(_where(finding, topics), DIM, width)
    entry = CODES.get(finding.code)
    if entry is not None:
        yield from _below(entry.text, PLAIN, width)
    yield from _below(safe(finding.argument), VALUE, width)
    if finding.unknown_because is not None:
        meaning = REASONS.get(finding.unknown_because)
        yield from _below(f"not proved: {finding.unknown_because}{', ' + meaning if meaning else ''}", WARN, width)
    yield from _below(_next_step(finding), DIM, width)
    yield []


def _below(text: str, style: str, width: int | None) -> Iterator[Line]:
    """Text below the code's column."""
    return folded([(" " * _INDENT, PLAIN), (text, style)], None if width is None else max(width, _LEAST), _INDENT)


def _headline(finding: Finding, style: str) -> Line:
    """`violation by client billing-3 · skip_after_timeout`."""
    line: Line = [(finding.verdict, style)]
    if finding.verdict == "violation":
        name = f" {safe(finding.client_id)}" if finding.blame == "client" and finding.client_id else ""
        line.append((f" by {' or '.join(parties(finding.code, finding.blame))}{name}", PLAIN))
    if finding.cause is not None:
        line += [(" · ", DIM), (finding.cause, CODE)]
    return line


def _where(finding: Finding, topics: Mapping[str, str]) -> str:
    """Client, group, member, partition, broker, as far as they are known."""
    more = f", {finding.software}" if finding.software else ""
    parts = [
        f"client {finding.client_id} ({finding.client}{more})"
        if finding.client_id
        else f"client {finding.client}{more}"
    ]
    if finding.group_id is not None:
        parts.append(f"group {finding.group_id or '(empty)'}")
    if finding.member_id is not None:
        parts.append(f"member {finding.member_id or '(empty)'}")
    if finding.topic_id is not None:
        name = topics.get(finding.topic_id, finding.topic_id)
        parts.append(f"topic {name}" + ("" if finding.partition is None else f"[{finding.partition}]"))
    parts.append(f"broker {finding.broker}")
    return " · ".join(shortened(part, 90) for part in parts)


def _next_step(finding: Finding) -> str:
    packets = sorted(
        {p for w in finding.witness for p in (w.request_packet, w.response_packet, w.packet) if p is not None}
        | {finding.packet}
    )
    shown = " ".join(str(packet) for packet in packets[-_PACKETS:])
    more = f" and {len(packets) - _PACKETS} earlier" if len(packets) > _PACKETS else ""
    step = f"kshark explain {finding.code} · {'packet' if len(packets) == 1 else 'packets'} {shown}{more}"
    frames: dict[str, set[int]] = {}
    for place in (place for witness in finding.witness for place in witness.places or ()):
        frames.setdefault(place.file, set()).add(place.frame)
    for file, found in frames.items():
        named = " ".join(map(str, sorted(found)[:_PACKETS]))
        step += (
            f" · {safe(file)}: {'frame' if len(found) == 1 else 'frames'} "
            f"{named}{' …' if len(found) > _PACKETS else ''}"
        )
    return step


class Tally:
    """Counts the findings that are shown; those left out by --select do not count for the verdict."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    def add(self, finding: Finding) -> None:
        self.verdicts[finding.verdict] += 1
        self.codes[finding.code] += 1
        if finding.verdict == "unknown":
            self.reasons[finding.unknown_because or "unknown"] += 1

    def summary(self, observed: Observed, rules: Sequence[int]) -> dict[str, Any]:
        """The last JSON line: what was seen, what was found, and what no finding explains. `rules`: numbers of those
        that were checked."""
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

    def lines(self, observed: Observed, rules: Sequence[int], width: int | None = None) -> Iterator[Line]:
        """Each code's share; `2 violations in 1,204 sessions, 9 unknown, 3 notes (48,210 exchanges, 1 gap)`; what that
        rests on, and what is left to be explained."""
        violations, unknown = self.verdicts["violation"], self.verdicts["unknown"]
        if violations + unknown + self.verdicts["note"] > 1:
            yield from folded(
                [(" · ".join(f"{code} {number(count)}" for code, count in self.codes.most_common()), DIM)], width
            )
        style = ERROR if violations else WARN if unknown else GOOD if observed.judged else PLAIN
        because = ", ".join(f"{reason} {number(count)}" for reason, count in self.reasons.most_common())
        line = [
            (counted(violations, "violation"), style),
            (f" in {counted(observed.sessions, 'session')}, ", PLAIN),
            (f"{number(unknown)} unknown", WARN if unknown else PLAIN),
            (f" ({because})" if because else "", DIM),
            (f", {counted(self.verdicts['note'], 'note')}", PLAIN),
            (f" ({counted(observed.exchanges, 'exchange')}, {counted(observed.gaps, 'gap')})", DIM),
        ]
        yield from folded(line, width, 2)
        yield from folded(_judged(observed, rules), width, 2)
        left = observed.unexplained()
        if final := [row for row in left if not _may_be_asked_again(row)]:
            yield from folded([("refusals without a rule: ", WARN), (_refusals(final), PLAIN)], width, 2)
        if again := [row for row in left if _may_be_asked_again(row)]:
            yield from folded([("retriable refusals without a rule: ", DIM), (_refusals(again), DIM)], width, 2)
        if ordinary := observed.ordinary():
            yield from folded([("refusals that are nobody's fault: ", DIM), (_refusals(ordinary), DIM)], width, 2)


def _judged(observed: Observed, rules: Sequence[int]) -> Line:
    """`36 rules looked at 98 of 113 exchanges with 10.0.1.5:9092 · 2026-11-21 14:03:07.412 to 14:20:11.020 UTC (17 min
    3 s)`.

    Behind it stands what was not read.
    """
    head, judged = _head(observed, rules)
    brokers = sorted(observed.brokers)
    line = (
        f" with {', '.join(brokers) if len(brokers) <= _BROKERS else counted(len(brokers), 'broker')}"
        if brokers and judged
        else ""
    )
    if observed.since_ns is not None and observed.until_ns is not None:
        took = duration(observed.until_ns - observed.since_ns)
        since, until = moment(observed.since_ns), moment(observed.until_ns)
        line += f" · {since} to {until.removeprefix(since[:11])} UTC ({took})"
    tls = f" · {counted(observed.tls_connections, 'TLS connection')} not read" if observed.tls_connections else ""
    rest = f" · {counted(observed.duplicates, 'packet')} captured twice" if observed.duplicates else ""
    explained = observed.answered.total()
    if explained and not observed.unexplained():
        few = {1: "the one refusal is", 2: "both refusals are"}
        rest += f" · {few.get(explained, f'all {number(explained)} refusals are')} explained"
    one_sided = _one_sided(observed)
    parts = (line, DIM), (tls, WARN), (rest, DIM), (f" · {one_sided}" if one_sided else "", WARN)
    return [*head, *((text, style) for text, style in parts if text)]


def _one_sided(observed: Observed) -> str:
    """That a capture holds one direction of its connections only: then rules have little to go by."""
    exchanges, orphans = observed.exchanges, observed.orphans
    due = exchanges - orphans - observed.one_way
    if max(due, orphans) < _ONE_SIDED:
        return ""
    if orphans == exchanges:
        return "no request was captured, answers only"
    return "no answer was captured, requests only" if not orphans and due == observed.unanswered else ""


def _head(observed: Observed, rules: Sequence[int]) -> tuple[Line, bool]:
    """How many rules looked at how many exchanges, or why none did; and whether one did."""
    exchanges = counted(observed.exchanges, "exchange")
    if observed.judged:
        what = f"{counted(len(rules), 'rule')} looked at" if rules else "what was selected was looked for in"
        return [(f"{what} {number(observed.judged)} of {exchanges}", DIM)], True
    if not observed.exchanges:
        return [("nothing was judged: ", WARN), ("there is no exchange of Kafka", PLAIN)], False
    what, others = ("nothing was", "") if _OF_BYTES.isdisjoint(rules) else ("only bytes were", "other ")
    return [
        (f"{what} judged: ", WARN),
        (f"none of {exchanges} is of an API that {others}rules are about", PLAIN),
    ], False


def _may_be_asked_again(row: Mapping[str, Any]) -> bool:
    """Whether it is of every day, while brokers start and leaders move; never among share sessions, whose refusals have
    causes."""
    return row["error_code"] in RETRIABLE and row["api"] not in ("ShareFetch", "ShareAcknowledge")


def _refusals(left: Sequence[Mapping[str, Any]]) -> str:
    """`12 × OffsetCommit 22 (ILLEGAL_GENERATION) of client c1 · 3 more, which -T json names`."""
    told = [_refusal(**row) for row in left[:_REFUSALS]]
    if more := sum(row["count"] for row in left[_REFUSALS:]):
        told.append(f"{number(more)} more, which -T json names")
    return " · ".join(told)


def _refusal(api: str, error_code: int, count: int, clients: Sequence[str], cause: str | None = None) -> str:
    of = f"client {shortened(clients[0], 40)}" if len(clients) == 1 else counted(len(clients), "client")
    return f"{number(count)} × {api} {error_code} ({cause or _ERRORS.get(error_code, 'not known')}) of {of}"
