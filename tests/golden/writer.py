"""Golden files that a reviewer can read: findings of every capture as text; of a few captures that differ most, one
message of each form and all sessions as JSON lines."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

from kshark.cli import main
from tests.shared import CAPTURES

GOLDEN = Path(__file__).parent
#: Captures of which messages are kept: old versions, share groups, SASL, damaged frames, damaged segments.
READ: Final = ("zk-old-clients", "share-java-explicit", "security-sasl", "adv-frames", "tcp-hostile")
#: Captures of which sessions are kept: refused epochs, acknowledgements, one side of the traffic.
SESSIONS: Final = ("adv-sessions-4.2.1", "adv-acks", "tcp-var-oneside")
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
        elif "headline" in finding:
            lines += ["{kind}: {text}".format_map(finding["headline"]), ""]
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
    of_rule = {"weight", "rests_on"}  # the same for every finding of a rule
    rest = finding.keys() - {"packet", "code", "verdict", *JUDGED, "argument", "witness", *of_rule}
    yield "  " + ", ".join(f"{name} {value}" for name, value in finding.items() if name in rest and value is not None)


def messages_of(capture: Path) -> list[str]:
    """The first message of each API, version, kind and anomaly."""
    first: dict[tuple[Any, ...], str] = {}
    for line in output_of(("read", "-T", "json", "--no-records"), capture):
        told = json.loads(line)
        first.setdefault((*map(told.get, ("api", "version", "kind")), *told.get("weird", ())), line)
    return [*first.values()]


def findings_file(capture: Path) -> Path:
    return GOLDEN / f"{capture.name}.findings.txt"


def golden(capture: Path) -> Iterator[tuple[Path, list[str]]]:
    """The golden files of a capture, and what they hold if nothing changed."""
    yield findings_file(capture), findings_of(capture)
    if capture.stem in READ:
        yield GOLDEN / f"{capture.name}.read.jsonl", messages_of(capture)
    if capture.stem in SESSIONS:
        yield GOLDEN / f"{capture.name}.sessions.jsonl", output_of(("sessions", "-V", "-T", "json"), capture)


def write(capture: Path) -> None:
    for path, lines in golden(capture):
        path.write_text("".join(f"{line}\n" for line in lines))


def differences(capture: Path) -> list[str]:
    return [
        line
        for path, lines in golden(capture)
        for line in unified_diff(path.read_text().splitlines(), lines, path.name, "now", lineterm="", n=0)
    ]
