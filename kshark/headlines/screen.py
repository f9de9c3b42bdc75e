"""The first screen of `kshark check`: headlines, then one summary by verdict, then what was judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kshark.analysis import Observed
from kshark.headlines.headline import Headline
from kshark.output.findings import FindingCounts, judged_lines
from kshark.output.spans import CODE, DIM, ERROR, GOOD, PLAIN, VALUE, WARN, Line, folded
from kshark.units import counted, number

#: Lines and columns of the screen.
_LINES: Final = 23
_COLUMNS: Final = 80
#: Most codes of a verdict.
_CODES: Final = 3
_STYLES: Final = {"capture": WARN, "hurt": VALUE, "event": VALUE, "rule": VALUE}
_OUTCOMES: Final = {
    "violation": ("violation", "violations", ERROR),
    "unknown": ("not proved", "not proved", WARN),
    "note": ("note", "notes", DIM),
}


def screen(
    headlines: Sequence[Headline],
    counts: FindingCounts,
    observed: Observed,
    rules: Sequence[int],
    width: int | None,
    *,
    verbose: bool = False,
) -> Iterator[Line]:
    """Return the lines of the screen: at most 23 on 80 columns, so that a prompt fits below.

    `rules`: the numbers of the checked rules. `verbose`: all headlines, whatever room they need.
    """
    tail = [*_summary(counts, observed, width), *judged_lines(observed, rules, width)]
    room = _LINES - 2 - _height(tail)
    left = 0
    advice = ""
    for at, headline in enumerate(headlines):
        whole = [*_lines(headline, width, advises=headline.advice != advice)]
        fitting = (lines for lines in (whole, [*_text(headline, width)]) if _height(lines) <= room)
        lines = whole if verbose or not at else next(fitting, [])
        left += not lines
        room -= _height(lines)
        advice = headline.advice
        yield from lines
    if left:
        yield [(f"And {counted(left, 'more headline')}: -V.", DIM)]
    if headlines:
        yield []
    yield from tail


def _text(headline: Headline, width: int | None) -> Iterator[Line]:
    code = [] if headline.code is None else [(f" {headline.code}", CODE)]
    yield from folded([(headline.text, _STYLES[headline.kind]), *code], width, 2)


def _lines(headline: Headline, width: int | None, *, advises: bool) -> Iterator[Line]:
    yield from _text(headline, width)
    if headline.kind == "event" and headline.more:
        yield from folded([(f"  Explains {_codes(headline.more)}", DIM)], width, 4)
    if headline.advice and advises:
        yield from folded([("  → ", DIM), (headline.advice, PLAIN)], width, 4)


def _summary(counts: FindingCounts, observed: Observed, width: int | None) -> Iterator[Line]:
    """Return the findings by verdict, each with its most frequent codes; nothing if nothing could be judged."""
    if not observed.exchanges and not counts.verdicts.total():
        return
    line: Line = []
    for verdict, (noun, nouns, style) in _OUTCOMES.items():
        total = counts.verdicts[verdict]
        if not total and verdict != "violation":
            continue
        codes = {code: count for (of, code), count in counts.sorts.most_common() if of == verdict}
        if not total:
            style = GOOD if observed.judged else PLAIN
        line += [(" · " if line else "", DIM), (f"{number(total)} {noun if total == 1 else nouns}", style)]
        if codes and verdict != "note":
            line.append((f": {_codes(codes)}", PLAIN))
    yield from folded(line, width, 2)


def _codes(codes: Mapping[str, int]) -> str:
    shown = ", ".join(code if count == 1 else f"{code} {number(count)}" for code, count in [*codes.items()][:_CODES])
    return shown if len(codes) <= _CODES else f"{shown}, {counted(len(codes) - _CODES, 'more kind')}"


def _height(lines: Sequence[Line]) -> int:
    """Return the number of lines on a screen of 80 columns."""
    return sum(max(1, -(-sum(len(text) for text, _ in line) // _COLUMNS)) for line in lines)
