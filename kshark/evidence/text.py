"""The texts of a case: finding.txt for people, finding.json for programs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from kshark.evidence import folder
from kshark.evidence.capture import Copied
from kshark.evidence.cases import Case, Recorded, headline_of
from kshark.evidence.connections import SCOPES, Scope
from kshark.headlines import Headline, Headlines
from kshark.model import Finding
from kshark.output.findings import finding_lines, packets_of
from kshark.output.json_findings import json_findings
from kshark.output.jsonlines import json_lines
from kshark.output.spans import plain
from kshark.output.wireshark import of_connection, of_frames
from kshark.units import clock, counted, duration, moment, number, safe, size

_PACKETS: Final = 12


class Written(Struct):
    """The files of a case. `finding`: with the numbers that its packets have in the file.

    `numbers`: the packets of the file, by their numbers in the capture. `messages`: messages in one line, by packet of
    the file. `file` is empty if the smallest evidence is too long.
    """

    case: Case
    target: Path
    options: str
    file: str = ""
    size: int = 0
    scope: Scope = SCOPES[0]
    #: The first scope that was tried.
    narrowest: Scope = SCOPES[0]
    numbers: array[int] = field(default_factory=lambda: array("q"))
    finding: Finding | None = None
    is_reproduced: bool = False
    messages: dict[int, list[str]] = field(default_factory=dict)
    is_anonymous: bool = False

    @property
    def command(self) -> str:
        return f"kshark check {self.file}{self.options} --details {self.case.first.code}"


def write_texts(capture: Copied, written: Written) -> None:
    """Write both texts into the folder of the case."""
    sources = capture.names or [PurePath(file).name for file in capture.files]
    names = ["capture"] if written.is_anonymous else [*map(safe, sources)]
    text = "\n".join(_lines(written, names)) + "\n"
    (written.target / folder.TEXT).write_text(text, encoding="utf-8", errors="backslashreplace")
    (written.target / folder.DATA).write_bytes(json_lines([*_data(written, names)]))


def _lines(written: Written, names: list[str]) -> Iterator[str]:
    case, finding = written.case, written.finding
    headline = _headline(written)
    yield safe(headline.text)
    if headline.advice:
        yield f"→ {headline.advice}"
    yield ""
    if not written.is_anonymous:
        yield f"In the capture ({', '.join(names)})"
        yield from _indented(_of_capture(case.first))
    elif finding is not None and written.is_reproduced:
        yield f"In {written.file}, with other names and addresses, and without record payloads"
        yield from _indented(finding)
    if case.count > 1:
        others = " ".join(map(str, case.packets[1 : 1 + _PACKETS]))
        more = " …" if case.count > 1 + _PACKETS else ""
        noun = "packet" if case.count == 2 else "packets"
        yield f"{counted(case.count - 1, 'finding')} like it: {noun} {others}{more}"
        yield ""
    if case.recorded is not None:
        yield from _recorded(case.recorded)
    if finding is None:
        yield "No packets are here: the connections of the client alone are too large for evidence."
        yield "kshark read FILE -Y FILTER -w OUT.pcapng, or --since and --until, takes fewer of them."
        return
    yield f"In {written.file} ({counted(len(written.numbers), 'packet')}, {size(written.size)}): {written.scope.text}"
    yield from _packets(written, finding)
    yield ""
    yield "Reproduce"
    yield f"  {written.command}"
    yield f"  Wireshark: {of_frames(packets_of(finding))}"
    if finding.client and finding.broker:
        yield f"  Wireshark: {of_connection(finding.client, finding.broker)}"
    yield ""
    yield from _result(written)


def _recorded(recorded: Recorded) -> Iterator[str]:
    if recorded.missed:
        yield f"{counted(recorded.missed, 'finding')} like it since the recording before have no file of their own."
    held = duration(recorded.until_ns - recorded.since_ns)
    yield f"The recorder held the packets of {moment(recorded.since_ns)} to {clock(recorded.until_ns, 3)} UTC ({held})."
    yield ""


def _result(written: Written) -> Iterator[str]:
    recorded = written.case.recorded
    if not written.is_reproduced and written.is_anonymous:
        yield f"{written.case.first.code}: without names, addresses and payloads it is not found in this file any more."
    elif not written.is_reproduced and recorded is not None and recorded.is_cut:
        yield "This file alone does not give the finding: its connections began before the first packet that the"
        yield f"recorder held, that of {moment(recorded.since_ns)} UTC. --record 10m,4GB would hold more."
    elif not written.is_reproduced:
        yield "This file alone does not give the finding: it rests on packets that no part of the capture shows alone."
    elif written.scope != written.narrowest:
        narrowest = written.narrowest.text
        yield f"It gives the same finding. {narrowest[0].upper()}{narrowest[1:]} did not: the finding also"
        yield "rests on the other packets."
    else:
        yield "It gives the same finding."


def _packets(written: Written, finding: Finding) -> Iterator[str]:
    """Yield a row for each packet of the evidence and its neighbours: its numbers and its messages."""
    evidence = {*packets_of(finding)}
    rows = [
        (str(packet), number(written.numbers[packet - 1]), "*" if packet in evidence else " ", line)
        for packet in sorted(evidence | written.messages.keys())
        if 0 < packet <= len(written.numbers)
        for line in written.messages.get(packet, ["no message ends here"])
    ]
    here = max([6, *(len(row[0]) for row in rows)])
    there = max([7, *(len(row[1]) for row in rows)])
    yield f"    {'packet':>{here}}  {'capture':>{there}}  message (* evidence)"
    for packet, original, mark, line in rows:
        yield f"  {mark} {packet:>{here}}  {original:>{there}}  {line}"


def _indented(finding: Finding) -> Iterator[str]:
    for line in finding_lines(finding, None, {}):
        yield f"  {plain(line)}".rstrip()


def _of_capture(finding: Finding) -> Finding:
    """Return a finding whose files have no folders: paths of a machine are of no use to others."""
    witness = [
        one
        if one.places is None
        else replace(one, places=[replace(it, file=PurePath(it.file).name) for it in one.places])
        for one in finding.witness
    ]
    return replace(finding, witness=witness)


def _headline(written: Written) -> Headline:
    """Return the headline of all findings; in an anonymous copy that of its finding, with its names."""
    case, finding = written.case, written.finding
    if case.headline is not None and not written.is_anonymous:
        return case.headline
    headlines = Headlines()
    if finding is not None and written.is_reproduced:
        headlines.add(finding)
    return headline_of(headlines, case.first)


def _data(written: Written, names: list[str]) -> Iterator[Any]:
    """Yield the finding as `kshark check -T json` prints it, its headline, and what the evidence is."""
    case, finding = written.case, written.finding
    if not written.is_anonymous:
        yield from json_findings([_of_capture(case.first)])
    elif finding is not None and written.is_reproduced:
        yield from json_findings([finding])
    yield {"headline": _headline(written)}
    if case.recorded is not None:
        yield {"recorded": case.recorded}
    yield {
        "evidence": {
            "captures": names,
            "findings": case.count,
            "packets_of_findings": case.packets,
            "file": written.file or None,
            "packets": len(written.numbers),
            "bytes": written.size,
            "reach": written.scope.reach,
            "to_end": written.scope.to_end,
            "reproduces": written.is_reproduced,
            "anonymous": written.is_anonymous,
            "command": written.command if written.file else None,
            "wireshark": None if finding is None else of_frames(packets_of(finding)),
            "packet": None if finding is None else finding.packet,
            "witness": [] if finding is None else finding.witness,
        }
    }
