"""Write recordings: read what the recorder holds again, and copy what shows a finding."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from kshark.capture.copying import Copy, copy
from kshark.capture.selection import Selection
from kshark.evidence import folder as case_folder
from kshark.evidence.capture import Copied
from kshark.evidence.cases import Case, Recorded, folder_name, headline_of
from kshark.evidence.comments import NewComments, add_finding, signed
from kshark.evidence.connections import Connections, Reach, Scope
from kshark.evidence.writing import write_evidence
from kshark.headlines import Headlines
from kshark.live.recorder.due import Due
from kshark.live.recorder.options import RecorderOptions
from kshark.model import Ends, Finding
from kshark.output.json_findings import json_findings
from kshark.output.jsonlines import json_lines
from kshark.pipeline import Options
from kshark.registry import Registry
from kshark.run import Run
from kshark.units import clock, counted, duration, moment, safe, size

JOB: Final = "job.msgpack"
RESULT: Final = "result.msgpack"
KEYS: Final = "keys.txt"
#: Of a recording of everything: its findings, and what it is.
_FINDINGS: Final = "findings.json"
_TEXT: Final = "recording.txt"
_SECOND: Final = 1_000_000_000
#: Findings that get comments in a recording of everything.
_MOST_COMMENTS: Final = 1_000
_RECORDING: Final = re.compile(r"\.?\d{8}T\d{6}Z-[A-Za-z0-9._-]+")


#: Packets between two ends, from one number to another.
Stretch = tuple[Ends, int, int]


class Around(Struct):
    """The packets around the finding of a recording, by reach. `is_cut`: some of its evidence is not held any more."""

    finding: Finding
    stretches: dict[Reach, list[Stretch]]
    is_cut: bool


class Job(Struct):
    """Recordings to write, and what is held: files, the first packet's number, and the times of the first and last.

    `around`: one for each recording with a finding, in their order. `every`: all connections, for the widest reach.
    """

    paths: list[str]
    first: int
    since_ns: int
    until_ns: int
    dues: list[Due]
    around: list[Around] = []
    every: list[Stretch] = []


class Saved(Struct):
    """A recording that was written. `gives`: the same finding is in it; None if it is one of everything."""

    name: str
    size: int
    gives: bool | None


class Result(Struct):
    saved: list[Saved] = []
    #: Why others were not written.
    failures: list[str] = []


@dataclass(frozen=True, slots=True)
class Saving:
    """Write the recordings of a job; its attributes are those of the capture.

    `interfaces`: the names of those captured. `secrets`: recordings get the TLS secrets. `check`: options that `kshark
    check` needs to read one.
    """

    recorder: RecorderOptions
    options: Options
    registry: Registry
    interfaces: str
    secrets: bool = False
    check: str = ""

    def __call__(self, folder: Path) -> None:
        """Do the job in a folder, and write its result there."""
        job = msgspec.msgpack.decode((folder / JOB).read_bytes(), type=Job)
        result = Result()
        try:
            self._save(job, (folder / KEYS).read_bytes(), result)
        except OSError as error:
            result.failures.append(f"{safe(str(error.filename or self.recorder.folder))}: {error.strerror or error}")
        except Exception as error:  # reported by who gave the job: the capture goes on
            result.failures.append(f"{type(error).__name__}: {safe(str(error))}; this is a bug of kshark")
        (folder / RESULT).write_bytes(msgspec.msgpack.encode(result))

    def _save(self, job: Job, keys: bytes, result: Result) -> None:
        remove_unfinished(self.recorder.folder)
        options = replace(self.options, tls_keys=keys)
        held = Copied(
            job.paths,
            options,
            self.registry,
            keys=keys if self.secrets else b"",
            first=job.first,
            chained=True,
            names=[self.interfaces],
        )
        try:
            for due in job.dues:
                if due.finding is None:
                    self._write_everything(held, job, due.reason, result)
            dues = [due for due in job.dues if due.finding is not None]
            if dues:
                self._write_cases(held, job, dues, result)
        finally:
            remove_unfinished(self.recorder.folder)
            keep_newest(self.recorder.folder, self.recorder.keep)

    def _write_cases(self, held: Copied, job: Job, dues: Sequence[Due], result: Result) -> None:
        chosen = _Chosen(job)
        cases: list[Case] = []
        taken: set[str] = set()
        for due, around in zip(dues, job.around, strict=True):
            finding = around.finding
            headlines = Headlines()
            headlines.add(finding)
            cases.append(
                Case(
                    finding,
                    due.count,
                    due.packets,
                    free_name(self.recorder.folder, folder_name(_stamp(finding.time_ns), finding), taken),
                    headline_of(headlines, finding),
                    Recorded(self.interfaces, job.since_ns, job.until_ns, due.missed, around.is_cut),
                )
            )
        scopes = scopes_of(self.recorder)
        for written in write_evidence(held, chosen, cases, self.recorder.folder, self.check, scopes=scopes):
            result.saved.append(Saved(written.case.name, written.size, written.is_reproduced))

    def _write_everything(self, held: Copied, job: Job, reason: str, result: Result) -> None:
        """Write all packets that are held, with comments for what they show."""
        run = Run(held.registry)
        for page in held.again(held.options):
            run.page(page)
        run.close()
        findings = [*run.findings]
        comments: NewComments = {}
        violations = [finding for finding in findings if finding.verdict == "violation"]
        for finding in violations[:_MOST_COMMENTS]:
            add_finding(comments, finding)
        stem = f"{_stamp(job.until_ns)}-{re.sub(r'[^A-Za-z0-9]+', '_', reason)}"
        name = free_name(self.recorder.folder, stem, set())
        target = case_folder.begin(self.recorder.folder, name)
        path = target / f"{name}.pcapng"
        with path.open("wb") as file:
            written = Copy(file.write, comments=signed(comments), keys=held.keys)
            copy(held.files, [written], clip=held.cut, chained=True)
        numbers = {number: place for place, number in enumerate(written.numbers, 1)}
        (target / _FINDINGS).write_bytes(json_lines([*json_findings(renumbered(findings, numbers))]))
        lines = [
            f"Saved by {safe(reason)}: all packets that the recorder held of {safe(self.interfaces)}",
            f"{counted(len(written.numbers), 'packet')}, {size(path.stat().st_size)}, of {moment(job.since_ns)} to "
            f"{clock(job.until_ns, 3)} UTC ({duration(job.until_ns - job.since_ns)})",
            f"{counted(len(violations), 'violation')} among {counted(len(findings), 'finding')} ({_FINDINGS})",
            "",
            f"kshark check {name}.pcapng{self.check}",
        ]
        (target / _TEXT).write_text("\n".join(lines) + "\n", encoding="utf-8", errors="backslashreplace")
        case_folder.complete(self.recorder.folder, name)
        result.saved.append(Saved(name, path_size(self.recorder.folder / name / path.name), None))


class _Chosen:
    """Chooses the packets that the capture has chosen for each finding."""

    def __init__(self, job: Job) -> None:
        self._around = {id(around.finding): around for around in job.around}
        self._every = job.every

    def selection(self, finding: Finding, scope: Scope) -> Selection | None:
        around = self._around[id(finding)]
        stretches = self._every if scope.reach == "everything" else around.stretches.get(scope.reach)
        if stretches is None:
            return None
        selection = Selection()
        for stretch in stretches:
            selection.add(*stretch)
        return selection


def scopes_of(options: RecorderOptions) -> tuple[Scope, ...]:
    """Return the scopes to try: without long ended connections first."""
    before = options.before_ns
    near: tuple[Reach, ...] = ("groups", "clients")
    return (*(Scope(reach, to_end=True, before_ns=before) for reach in near), Scope("everything", to_end=True))


def around(finding: Finding, connections: Connections, options: RecorderOptions, first: int) -> Around:
    """Return the packets around a finding. `first`: the number of the first packet that is held."""
    stretches: dict[Reach, list[Stretch]] = {}
    for scope in scopes_of(options):
        if scope.reach != "everything" and (selection := connections.selection(finding, scope)) is not None:
            stretches[scope.reach] = [*selection.stretches]
    flows = connections.named(finding)
    is_cut = not flows or any(flow.opened_by is None or flow.first_packet < first for flow in flows)
    return Around(finding, stretches, is_cut)


def every(connections: Connections, first: int) -> list[Stretch]:
    """Return all connections of which packets are held."""
    return [(it.ends, it.first_packet, it.last_packet) for it in connections.flows if it.last_packet >= first]


def renumbered(findings: Iterable[Finding], numbers: dict[int, int]) -> Iterable[Finding]:
    """Yield findings with the numbers of their packets in a file."""
    for finding in findings:
        witness = [
            msgspec.structs.replace(
                one,
                request_packet=numbers.get(one.request_packet or 0),
                response_packet=numbers.get(one.response_packet or 0),
                packet=numbers.get(one.packet or 0),
            )
            for one in finding.witness
        ]
        until = finding.until_packet
        yield msgspec.structs.replace(
            finding,
            packet=numbers.get(finding.packet, 1),
            witness=witness,
            until_packet=numbers.get(until) if isinstance(until, int) else until,
        )


def free_name(folder: Path, name: str, taken: set[str]) -> str:
    """Return a name that no other recording has: `name`, or with a number."""
    free, number = name, 1
    while free in taken or (folder / free).exists():
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free


def keep_newest(folder: Path, many: int) -> None:
    """Remove recordings but for the last ones that were written."""
    ours = [path for path in folder.iterdir() if not path.name.startswith(".") and _is_recording(path)]
    for path in sorted(ours, key=lambda path: path.stat().st_mtime_ns)[:-many]:
        shutil.rmtree(path)


def remove_unfinished(folder: Path) -> None:
    """Remove recordings that a killed process has left unfinished."""
    for path in folder.glob(".*.unfinished"):
        if _is_recording(path):
            shutil.rmtree(path)


def path_size(path: Path) -> int:
    return path.stat().st_size


def _is_recording(path: Path) -> bool:
    """True for a folder that holds only what a recorder writes."""
    if path.is_symlink() or not path.is_dir() or not _RECORDING.fullmatch(path.name):
        return False
    name = path.name.removeprefix(".").removesuffix(".unfinished")
    ours = {case_folder.TEXT, case_folder.DATA, case_folder.ATTEMPT, _FINDINGS, _TEXT, f"{name}.pcapng"}
    return all(it.name in ours or it.name.startswith(".") for it in path.iterdir())


def _stamp(time_ns: int) -> str:
    return datetime.fromtimestamp(max(0, time_ns) // _SECOND, UTC).strftime("%Y%m%dT%H%M%SZ")
