"""Golden files of a capture: its findings as text that a reviewer can read, messages and sessions as JSON lines,
compressed."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Any

from kshark.cli import main
from tests.shared import CAPTURES

GOLDEN = Path(__file__).parent
#: What is kept of each capture as JSON lines: a name and the command that prints them.
TOLD = {
    "read": ("read", "-T", "json", "--no-records"),
    "sessions": ("sessions", "-V", "-T", "json"),
}
#: Fields of a finding that a reviewer looks at first, beside its code and verdict.
JUDGED = ("blame", "cause", "unknown_because")
CAPTURES_TOLD = sorted(CAPTURES.glob("*.pcap*"))


def output_of(arguments: tuple[str, ...], capture: Path) -> list[str]:
    """The lines that the command prints, without its notes."""
    out = io.BytesIO()
    text = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
        main([*arguments, str(capture)])
    return out.getvalue().decode().splitlines()


def findings_of(capture: Path) -> list[str]:
    """Every finding in a paragraph: what it is, why, on what evidence, and all else that it says; last what it was
    found in."""
    lines: list[str] = []
    for line in output_of(("check", "-T", "json"), capture):
        finding: dict[str, Any] = json.loads(line)
        if "summary" in finding:
            counts = finding["summary"]
            lines.append(", ".join(f"{name} {count}" for name, count in counts.items() if isinstance(count, int)))
            lines += [
                "unexplained {count} x {api} {error_code} of {clients}".format_map(row) for row in counts["unexplained"]
            ]
            lines += [
                "ordinary {count} x {api} {error_code} of {clients}: {cause}".format_map(row)
                for row in counts["ordinary"]
            ]
            lines.append(", ".join(f"{name} {what}" for name, what in counts["covered"].items()))
        else:
            lines += [*paragraph(finding), ""]
    return lines


def witness(each: dict[str, Any]) -> str:
    told = (
        "{flow} {event} by {packet}"
        if each["event"]
        else "{flow}/{correlation_id} in {request_packet}-{response_packet}"
    )
    return told.format_map(each)


def paragraph(finding: dict[str, Any]) -> Iterator[str]:
    judged = [f"{name} {finding[name]}" for name in JUDGED if finding[name] is not None]
    yield ", ".join(("packet {packet}: {code} {verdict}".format_map(finding), *judged))
    yield f"  {finding['argument']}"
    yield "  witness " + ", ".join(map(witness, finding["witness"]))
    rest = finding.keys() - {"packet", "code", "verdict", *JUDGED, "argument", "witness"}
    yield "  " + ", ".join(f"{name} {value}" for name, value in finding.items() if name in rest and value is not None)


def lines_file(capture: Path, name: str) -> Path:
    return GOLDEN / f"{capture.name}.{name}.jsonl.gz"


def findings_file(capture: Path) -> Path:
    return GOLDEN / f"{capture.name}.findings.txt"


def write(capture: Path) -> None:
    for name, arguments in TOLD.items():
        text = "".join(f"{line}\n" for line in output_of(arguments, capture))
        lines_file(capture, name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    findings_file(capture).write_text("".join(f"{line}\n" for line in findings_of(capture)))


def differences(capture: Path) -> list[str]:
    """What is not as it was: of findings all, of messages and sessions the first lines."""
    told = list(
        unified_diff(
            findings_file(capture).read_text().splitlines(), findings_of(capture), "before", "now", lineterm=""
        )
    )
    for name, arguments in TOLD.items():
        before = gzip.decompress(lines_file(capture, name).read_bytes()).decode().splitlines()
        now = output_of(arguments, capture)
        if len(before) != len(now):
            told.append(f"{name}: {len(before)} lines before, {len(now)} now")
        other = ((number, a, b) for number, (a, b) in enumerate(zip(before, now, strict=False), 1) if a != b)
        told += [f"{name}, line {number}:\n  before {a}\n  now    {b}" for number, a, b in islice(other, 3)]
    return told
