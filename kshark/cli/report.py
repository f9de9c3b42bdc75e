"""`kshark report`: the findings and their context, as an HTML page, as JSON and as Parquet."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from kshark.cli.anonymizing import add_anonymity, pseudonyms
from kshark.cli.apis import registry
from kshark.cli.check import EXIT_CODES, NOTHING_JUDGED, add_selection, judging, nothing_judged, selection, verdict
from kshark.cli.each import captures_of, each
from kshark.cli.parser import Parser, add_captures, add_format
from kshark.cli.shown import add_filter, filtered
from kshark.cli.source import Source, name_of
from kshark.errors import Destroyed, Empty, UnreadableInput, UsageError
from kshark.output.local_folder import local_folder
from kshark.output.sink import Sink
from kshark.report import facts
from kshark.report.collected import Collected
from kshark.report.folder import DATA, FINDINGS, PAGE, PAGES, prepare, write
from kshark.report.names import base_names
from kshark.report.summing import Origin, summed
from kshark.tables.captures import capture_names
from kshark.units import number

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from kshark.anonymous import Pseudonyms
    from kshark.cli.reporting import Part, Read

EXAMPLES: Final = (
    "kshark report trace.pcap -o report",
    "kshark report trace.pcap -o report --anonymize",
    "kshark report captures/ --each -o report",
    "kshark report trace.pcap -o report --since 14:03 --until 14:20 --ignore SESSION_NOT_CLOSED",
    "kshark report trace.pcap --group billing --picture billing.png",
    "kshark report trace.pcap --group billing --member billing-3 --picture billing-3.svg",
)


def arguments(parser: Parser) -> None:
    add_captures(parser)
    parser.add_argument(
        "-o",
        dest="folder",
        metavar="DIR",
        help="the folder of the report; an earlier report in it is replaced; with --each also a page for each capture",
    )
    parser.add_argument("--group", metavar="NAME", help="with --picture: the share group")
    parser.add_argument("--member", metavar="NAME", help="with --picture: one member, by its id or its client id")
    parser.add_argument(
        "--picture",
        metavar="FILE",
        help="instead of a report, one picture of a share group or a member as FILE.svg or FILE.png: epochs, records, "
        "findings and events over time",
    )
    add_anonymity(parser, "pseudonyms for addresses, clients, groups, members, topics and files in all that is written")
    add_format(parser, "text", "json")
    add_selection(parser)
    add_filter(parser, "only findings based on a message that passes the filter (all messages are judged and counted)")
    parser.epilog = f"{parser.epilog}\n{EXIT_CODES}"


def run(args: Namespace) -> int:
    if args.picture is not None or args.group is not None or args.member is not None:
        from kshark.cli.picturing import write_picture

        return write_picture(args)
    folder = usable(args)
    from kshark.cli.reporting import OPTIONS

    captures = captures_of(args)
    writing = Writing(folder, args, pseudonyms(args), several=len(captures) > 1)
    show = partial(_part, base_names(capture_names(captures)))
    with judging():
        for read in each(args, filtered(OPTIONS, args), show, captures=captures, headings=False):
            writing.add(read, named=bool(args.each))
    return writing.close()


def _part(names: Sequence[str], source: Source, args: Namespace, _: Sink) -> Read:
    from kshark.cli.reporting import read_part

    source.has_verdict = True
    return read_part(names[source.number], source, args, source.files)


def usable(args: Namespace) -> Path:
    """Return the folder of the report.

    Raises UsageError, before reading anything, if the options are wrong or a package is missing.
    """
    if not args.folder:
        raise UsageError("no folder given for the report; name one with -o DIR")
    selection(args)
    import_module("kshark.report.page")  # raises UsageError if its packages are missing
    try:
        import_module("kshark.output.parquet_findings")
    except ImportError:
        raise UsageError("a report needs pyarrow: pip install 'kshark[report]'") from None
    return local_folder(args.folder)


class Writing:
    """Write a report into its folder from the part of each capture, and print the verdicts.

    Raises UsageError for a folder with other content.
    """

    def __init__(
        self, folder: Path, args: Namespace, names: Pseudonyms | None = None, *, several: bool = False
    ) -> None:
        """`names`: the pseudonyms of what is written; None: the names of the capture. `several`: each capture has a
        page of its own, too."""
        from kshark.output.parquet_findings import FindingsFile

        prepare(folder)
        self._folder, self._args = folder, args
        self._sink = Sink(sys.stdout)
        self._findings = FindingsFile(folder / FINDINGS)
        self._names = names
        #: Rows that wait for the names of all captures.
        self._rows: list[RecordBatch] = []
        self._counts = Collected()
        self._origins: list[Origin] = []
        self._headlines: list[facts.Headlines] = []
        self._pages = Pages(folder, names) if several else None
        self._violated = False
        self._judged = False
        #: Why files could not be read, or not to their end.
        self._unread: list[UnreadableInput] = [*getattr(args, "faults", ())]

    def add(self, read: Read, *, named: bool, name: str | None = None) -> None:
        """Add the part of a capture and print its verdict; `named`: with `name`, or that of its files."""
        part, errors = read
        self._unread += errors
        if part is not None:
            self._add(part, (name or name_of(part.origin.files)) if named else None)

    def _add(self, part: Part, name: str | None) -> None:
        if self._names is None:
            self._findings.add(part.findings)
        else:
            self._rows += part.findings
        headlines = facts.Headlines(part.origin.name, part.headlines)
        if self._pages is not None:
            self._pages.add(summed(part.collected, [part.origin], [headlines], registry(self._args)))
        self._counts += part.collected
        self._origins.append(part.origin)
        self._headlines.append(headlines)
        self._violated = self._violated or part.printed.counts.verdicts["violation"] > 0
        self._judged = self._judged or not nothing_judged(part.printed.counts, part.observed)
        if name is not None and self._args.format == "text":
            self._sink.text(f"== {name}\n")
        verdict(part.printed, part.observed, self._args, self._sink, name, outcomes=part.outcomes)

    def close(self) -> int:
        """Write the report and return the exit code."""
        report = summed(self._counts, self._origins, self._headlines, registry(self._args))
        report.unread = [_unread(error) for error in self._unread]
        if self._names is not None:
            from kshark.anonymous.report import anonymous_report, anonymous_rows

            report = anonymous_report(report, self._names)
            self._findings.add(anonymous_rows(self._rows, self._names))
        self._findings.close()
        page = _page(report) if self._pages is None else self._pages.close(report)
        write(self._folder / DATA, facts.to_json(report))
        write(self._folder / PAGE, page)
        if not self._args.quiet:
            pages = "" if self._pages is None else f", {PAGES}/ (a page for each of {number(len(self._origins))})"
            print(f"kshark: {self._folder / PAGE}, {DATA} and {FINDINGS}{pages}", file=sys.stderr)
        if self._args.each:
            self._args.unread = not self._origins
        if not self._origins:
            return NOTHING_JUDGED if any(isinstance(error, Empty | Destroyed) for error in self._unread) else 2
        return 1 if self._violated else 0 if self._judged else NOTHING_JUDGED


def _unread(error: UnreadableInput) -> facts.Unread:
    """Return a file that could not be read, without its folder."""
    file, _, reason = str(error).partition(": ")
    return facts.Unread(PurePath(file).name, reason)


class Pages:
    """The pages of several captures: one for each, and the page that leads to them."""

    def __init__(self, folder: Path, names: Pseudonyms | None) -> None:
        from kshark.report.batch import PageNames

        self._folder, self._pseudonyms = folder, names
        self._names = PageNames()
        self._pages: list[facts.Page] = []

    def add(self, report: facts.Report) -> None:
        """Write the page of one capture."""
        from kshark.report.words import verdict_of

        if self._pseudonyms is not None:
            from kshark.anonymous.report import anonymous_report

            report = anonymous_report(report, self._pseudonyms)
        path, verdict = self._names.path(report.captures[0].name), verdict_of(report)
        self._pages.append(facts.Page(path, verdict.level, verdict.sentence))
        write(self._folder / path, _page(report, f"../{PAGE}"))

    def close(self, report: facts.Report) -> bytes:
        """Return the page of all captures, after their pages are named in the report."""
        from kshark.report.batch import html

        for capture, page in zip(report.captures, self._pages, strict=True):
            capture.page = page
        return html(report).encode("utf-8", "backslashreplace")


def _page(report: facts.Report, up: str | None = None) -> bytes:
    from kshark.report.page import html

    return html(report, up).encode("utf-8", "backslashreplace")
