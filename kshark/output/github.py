"""A check as annotations of GitHub Actions: one for each kind of finding of a client.

GitHub shows ten errors and ten warnings of a step: findings of one kind share an annotation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from kshark.analysis import REASONS
from kshark.model import Finding
from kshark.output.catalogue import CODES, weight_of
from kshark.output.checked_capture import CheckedCapture, advice_of
from kshark.output.findings import logged_line
from kshark.units import number, safe

_LEVELS: Final = {"violation": "error", "unknown": "warning"}
_PACKETS: Final = 8


def annotation_lines(capture: CheckedCapture, file: str, untested: Sequence[str]) -> Iterator[str]:
    """Yield a line for each annotation: violations first, then what is not proved and what was never tested.

    `file`: the capture as it was named. `untested`: sentences about rules of `--require`.
    """
    kinds: defaultdict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for finding in capture.findings:
        if finding.verdict in _LEVELS:
            kinds[finding.verdict, finding.code, _party(finding)].append(finding)
    for (verdict, code, party), findings in sorted(kinds.items(), key=lambda kind: _rank(*kind[0][:2])):
        title = f"{code}: {party}" if verdict == "violation" else f"{code}: not proved"
        yield _annotation(_LEVELS[verdict], file, title, _message(code, findings))
    for sentence in untested:
        yield _annotation("error", file, "never tested", sentence)


def _rank(verdict: str, code: str) -> tuple[bool, int, str]:
    return verdict != "violation", -weight_of(code), code


def _party(finding: Finding) -> str:
    name = finding.broker if finding.blame == "broker" else finding.client_id or finding.client or finding.broker
    return f"{finding.blame} {name}" if finding.blame != "unknown" else name


def _message(code: str, findings: Sequence[Finding]) -> str:
    first, *others = findings
    because = f"\nNot proved: {REASONS.get(first.unknown_because, '')}." if first.unknown_because else ""
    lines = [logged_line(finding) for finding in findings[:_PACKETS]]
    noun = "packets" if lines[0] is None else "lines"
    places = ", ".join(
        str(finding.packet if line is None else line) for finding, line in zip(findings, lines, strict=False)
    )
    more = f" and {number(len(findings) - _PACKETS)} more" if len(findings) > _PACKETS else ""
    times = f"{number(len(findings))} times; first: " if others else ""
    text = f"{CODES[code].text}\n{times}{first.argument}{because}\n{noun} {places}{more}\n{advice_of(code)}"
    return f"{text}kshark explain {code}"


def _annotation(level: str, file: str, title: str, message: str) -> str:
    text = "%0A".join(_data(safe(line)) for line in message.splitlines())
    return f"::{level} file={_property(file)},title={_property(title)}::{text}\n"


def _data(text: str) -> str:
    """Escape a message, as @actions/core does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(safe(text)).replace(":", "%3A").replace(",", "%2C")
