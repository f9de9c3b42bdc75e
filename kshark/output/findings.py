"""A finding for a person: who, what, the evidence, the next step; and the summary line after all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kshark.analysis import REASONS
from kshark.model import Finding
from kshark.output.catalogue import CODES
from kshark.output.spans import CODE, DIM, ERROR, GOOD, NOTE, PLAIN, VALUE, WARN, Line, folded, plain
from kshark.output.units import clock, counted, number, safe, shortened

_INDENT: Final = 14
_LEAST: Final = 54
_STYLES: Final = {"violation": ERROR, "unknown": WARN, "note": NOTE}
_BY: Final = {"violation": " by", "unknown": ", perhaps"}
#: At most so many packets of the evidence are listed.
_PACKETS: Final = 8


def finding_lines(finding: Finding, width: int | None, topics: Mapping[str, str]) -> Iterator[Line]:
    """Four to six lines, wrapped to the terminal; an empty one at the end. `topics`: names by id, as far as they are known."""
    style = _STYLES[finding.verdict]
    yield [(clock(finding.time_ns, 3) + "  ", DIM), (finding.code, style), ("  ", PLAIN), *_headline(finding, style)]
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
    if finding.blame != "unknown" and finding.verdict != "note":
        name = f" {safe(finding.client_id)}" if finding.blame == "client" and finding.client_id else ""
        line.append((f"{_BY[finding.verdict]} {finding.blame}{name}", PLAIN))
    if finding.cause is not None:
        line += [(" · ", DIM), (finding.cause, CODE)]
    return line


def _where(finding: Finding, topics: Mapping[str, str]) -> str:
    """Client, group, member, partition, broker, as far as they are known."""
    more = f", {finding.software}" if finding.software else ""
    parts = [f"client {finding.client_id} ({finding.client}{more})" if finding.client_id else f"client {finding.client}{more}"]
    if finding.group_id is not None:
        parts.append(f"group {finding.group_id}")
    if finding.member_id is not None:
        parts.append(f"member {finding.member_id}")
    if finding.topic_id is not None:
        name = topics.get(finding.topic_id, finding.topic_id)
        parts.append(f"topic {name}" + ("" if finding.partition is None else f"[{finding.partition}]"))
    parts.append(f"broker {finding.broker}")
    return " · ".join(shortened(part, 90) for part in parts)


def _next_step(finding: Finding) -> str:
    packets = sorted(
        {p for w in finding.witness for p in (w.request_packet, w.response_packet, w.packet) if p is not None} | {finding.packet}
    )
    shown = " ".join(str(packet) for packet in packets[-_PACKETS:])
    more = f" and {len(packets) - _PACKETS} earlier" if len(packets) > _PACKETS else ""
    return f"kshark explain {finding.code} · {'packet' if len(packets) == 1 else 'packets'} {shown}{more}"


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

    def summary(self, seen: Mapping[str, Any]) -> dict[str, Any]:
        """The last JSON line: what was seen (sessions, exchanges, gaps), what was found."""
        return {
            "summary": {
                "sessions": seen.get("sessions", 0),
                "exchanges": seen.get("exchanges", 0),
                "violations": self.verdicts["violation"],
                "unknown": self.verdicts["unknown"],
                "notes": self.verdicts["note"],
                "gaps": seen.get("gaps", 0),
                "by_code": dict(sorted(self.codes.items())),
            }
        }

    def lines(self, seen: Mapping[str, Any], width: int | None = None) -> Iterator[Line]:
        """`2 violations in 1,204 sessions, 9 unknown, 3 notes (48,210 exchanges, 1 gap)`, and below it each code's share."""
        violations, unknown = self.verdicts["violation"], self.verdicts["unknown"]
        if violations + unknown + self.verdicts["note"] > 1:
            yield from folded([(" · ".join(f"{code} {number(count)}" for code, count in self.codes.most_common()), DIM)], width)
        style = ERROR if violations else WARN if unknown else GOOD
        because = ", ".join(f"{reason} {number(count)}" for reason, count in self.reasons.most_common())
        line = [
            (counted(violations, "violation"), style),
            (f" in {counted(seen.get('sessions', 0), 'session')}, ", PLAIN),
            (f"{number(unknown)} unknown", WARN if unknown else PLAIN),
            (f" ({because})" if because else "", DIM),
            (f", {counted(self.verdicts['note'], 'note')}", PLAIN),
            (f" ({counted(seen.get('exchanges', 0), 'exchange')}, {counted(seen.get('gaps', 0), 'gap')})", DIM),
        ]
        yield from folded(line, width, 2)


def verdict(tally: Tally, seen: Mapping[str, Any]) -> str:
    """The verdict line as plain text."""
    return plain(list(tally.lines(seen))[-1])
