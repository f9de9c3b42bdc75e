"""The part of a report about one capture, built here or by a worker, and sent to the writer of the report."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kshark.analysis import AnalysisResult, MemberKey, Observed, Outcomes
from kshark.capture.log_lines import LogLines
from kshark.capture.numbering import Locate
from kshark.cli.apis import registry
from kshark.cli.check import Checking
from kshark.cli.printed_findings import Printed, rule_codes
from kshark.headlines import Headline, Headlines, capture_headlines
from kshark.model import Event, Finding
from kshark.output.findings import FindingCounts
from kshark.output.parquet_findings import FindingRows
from kshark.pipeline import Options
from kshark.report.collected import Collected
from kshark.report.collector import Collector
from kshark.report.summing import Origin

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from kshark.cli.source import Source
    from kshark.errors import UnreadableInput


#: Record batches are read without their records, as `kshark export` does, so that damaged batches are reported.
OPTIONS: Final = Options(records="headers")


class Part(NamedTuple):
    """The part of one capture: its origin, counts, findings, observed traffic, the rows of its findings, and how its
    members fared.
    """

    origin: Origin
    collected: Collected
    printed: Printed
    observed: Observed
    findings: list[RecordBatch]
    outcomes: dict[MemberKey, Outcomes]

    @property
    def headlines(self) -> list[Headline]:
        """The headlines of `kshark check`."""
        return self.printed.headlines.of(self.outcomes, capture_headlines(self.observed, self.printed.counts))


#: The part of a capture, and why files were left out; no part if all were.
Read = tuple["Part | None", "list[UnreadableInput]"]


def read_part(name: str, source: Source, args: Namespace, files: Sequence[str]) -> Read:
    """Return the part of a capture; `files`: those of `source`, as named on the command line."""
    reporting = Reporting(name, args, source.shows, source.includes_time)
    for page in source:
        reporting.page(page)
    if source.faults and not source.packets:
        return None, source.faults
    locate = source.locate and partial(_renamed, source.locate, dict(zip(source.files, files, strict=True)))
    return reporting.close(files, locate, source.log_lines), source.faults


def _renamed(locate: Locate, names: Mapping[str, str], packet: int) -> tuple[str, int] | None:
    """Return the file as named on the command line, and the packet's number there."""
    location = locate(packet)
    return location and (names[location[0]], location[1])


class Reporting:
    """Build the part of one capture from its pages.

    `shows`: true for events in the requested period; `tells`: true for times in it.
    """

    def __init__(
        self,
        name: str,
        args: Namespace,
        shows: Callable[[Event | AnalysisResult], bool] | None = None,
        tells: Callable[[int], bool] | None = None,
    ) -> None:
        self._name = name
        self._shows = shows
        self._tells = tells
        self._checking = Checking(args, named=True, sessions=True)
        self._collector = Collector(name, registry(args))
        self._rows = FindingRows(name)
        self._headlines = Headlines(rule_codes(args.select))

    def page(self, page: list[Event]) -> None:
        self._checking.page(page)
        self._collector.page(page if self._shows is None else filter(self._shows, page))
        self._rows.page(page)

    def close(self, files: Sequence[str], locate: Locate | None = None, log_lines: LogLines | None = None) -> Part:
        """Return the part.

        `locate` returns the file of a packet if there are several files, `log_lines` the lines of request logs.
        """
        checked = self._checking
        checked.close()
        for session in checked.sessions:
            if session.closed is None or self._tells is None or self._tells(session.closed.time_ns):
                self._collector.session(session)
        origin = Origin(self._name, files, locate, log_lines is not None, checked.topics)
        findings: Iterable[Finding] = checked.findings
        if self._shows is not None:
            findings = filter(self._shows, findings)
        if log_lines is not None:
            findings = map(log_lines.named, findings)
        printed = Printed(FindingCounts(), self._headlines)
        batches = self._rows.close(self._counted(findings, printed))
        return Part(origin, self._collector.close(), printed, checked.observed, batches, checked.outcomes)

    def _counted(self, findings: Iterable[Finding], printed: Printed) -> Iterator[Finding]:
        """Yield findings, in packet order, after they are counted. The collector has counted all events."""
        for finding in findings:
            printed.add(finding)
            self._collector.finding(finding)
            yield finding
