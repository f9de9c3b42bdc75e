"""`kshark report --picture`: one picture of a share group, or of a member."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import UNSET

from kshark import limits
from kshark.analysis import AnalysisResult
from kshark.anonymous import Pseudonyms
from kshark.anonymous.report import anonymous_report
from kshark.api_keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from kshark.cli.anonymizing import pseudonyms
from kshark.cli.apis import registry
from kshark.cli.check import judging, selection
from kshark.cli.each import captures_of, each
from kshark.cli.parser import close_to
from kshark.cli.reporting import OPTIONS, Part, Reporting
from kshark.cli.shown import filtered
from kshark.cli.source import Source
from kshark.errors import UsageError
from kshark.model import Event, Exchange, Finding
from kshark.output.sink import Sink
from kshark.report.facts import Report
from kshark.report.folder import write
from kshark.report.group_records import GroupRecords
from kshark.report.mergeable import Bins
from kshark.report.names import base_names
from kshark.report.picture import Subject, picture, png
from kshark.report.summing import summed
from kshark.tables.captures import capture_names
from kshark.units import safe, shortened

_SUFFIXES: Final = (".svg", ".png")
_SHARE: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE)
#: Most names in a message.
_NAMED: Final = 6


class _Made(NamedTuple):
    part: Part
    records: Bins


def write_picture(args: Namespace) -> int:
    """Write the picture that the options describe. Returns 1 if it shows a violation, else 0.

    Raises UsageError, before reading anything, if the options are wrong; after it, if there is no such group or member.
    """
    path, subject = usable(args)
    captures = captures_of(args)
    if len(captures) != 1:
        raise UsageError("a picture is of one capture: leave --each out, or name one file")
    with judging():
        (made,) = each(args, filtered(OPTIONS, args), _made, captures=captures, headings=False)
    report = summed(made.part.collected, [made.part.origin], [], registry(args))
    names = pseudonyms(args)
    if names is not None:
        subject, report = anonymous_subject(subject, report, names), anonymous_report(report, names)
    svg = picture(subject, report, made.records)
    try:
        write(path, png(svg) if path.suffix.lower() == ".png" else svg.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    if not args.quiet:
        print(f"kshark: {safe(str(path))}", file=sys.stderr)
    return 1 if report.totals.violations else 0


def anonymous_subject(subject: Subject, report: Report, names: Pseudonyms) -> Subject:
    """Return the subject with pseudonyms; a member is named by its id or by its client id."""
    member = subject.member
    if member is not None:
        is_id = any(line.member_id == member for line in report.members)
        member = names.of("member" if is_id else "client", member)
    return Subject(names.of("group", subject.group), member)


def usable(args: Namespace) -> tuple[Path, Subject]:
    """Return the file and the subject of the picture. Raises UsageError if the options do not name one."""
    if args.picture is None:
        raise UsageError("--group and --member choose what a picture shows; name its file with --picture FILE.svg")
    if args.folder:
        raise UsageError("-o makes a report, --picture one picture; give one of them")
    if args.group is None:
        raise UsageError("--picture needs the name of a share group: --group NAME (kshark groups FILE lists them)")
    path = Path(args.picture)
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"a picture is an SVG or a PNG: {path} ends with neither .svg nor .png")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for the picture")
    selection(args)
    return path, Subject(args.group, args.member)


def _made(source: Source, args: Namespace, _: Sink) -> _Made:
    """Read a capture. Raises UsageError if it has no share request of the subject."""
    shown = _Shown(source, Subject(args.group, args.member))
    (name,) = base_names(capture_names([source.files]))
    reporting = Reporting(name, args, shown.shows, source.includes_time)
    for page in source:
        reporting.page(page)
    if not shown.is_present:
        raise UsageError(shown.absence())
    return _Made(reporting.close(source.files, source.locate, source.log_lines), shown.records.times)


class _Shown:
    """Select the events and findings that a picture shows, and count the records in them."""

    def __init__(self, source: Source, subject: Subject) -> None:
        self._source, self._subject = source, subject
        self.records = GroupRecords()
        self.is_present = False
        #: Names of share groups, and of the members of this one.
        self._groups: dict[str, None] = {}
        self._members: dict[str, None] = {}

    def shows(self, item: Event | AnalysisResult) -> bool:
        """True for share requests, findings and events of the subject, and for all that is neither."""
        if not self._source.shows(item):
            return False
        if isinstance(item, Finding):
            return self._is_about(item)
        return self._is_of(item) if isinstance(item, Exchange) else True

    def _is_of(self, exchange: Exchange) -> bool:
        request = exchange.request
        if request is None or request.api_key not in _SHARE:
            return False
        group_id, member_id = (getattr(request.body, name, None) for name in ("group_id", "member_id"))
        _note(self._groups, group_id)
        if group_id != self._subject.group:
            return False
        names = (request.client_id, member_id)
        for name in names:
            _note(self._members, name)
        if self._subject.member is not None and self._subject.member not in names:
            return False
        self.is_present = True
        self.records.feed(exchange)
        return True

    def _is_about(self, finding: Finding) -> bool:
        """True if a finding is about the subject, or an event of a broker or the network that may concern it."""
        is_event = finding.until_ns is not UNSET
        if finding.group_id != self._subject.group and not (is_event and finding.group_id is None):
            return False
        if self._subject.member is None or self._subject.member in (finding.member_id, finding.client_id):
            return True
        return is_event and finding.member_id is None and not finding.client_id

    def absence(self) -> str:
        """Return why there is no picture, with the names that there are."""
        group, member = self._subject
        title = self._source.title
        if not self._groups:
            return f"{title} has no share request, so there is no share group to draw"
        if group not in self._groups:
            return f'{title} has no share request of group "{safe(group)}"{_others(group, "groups", self._groups)}'
        others = _others(member or "", "members", self._members)
        return f'group "{safe(group)}" has no member "{safe(member or "")}"{others}'


def _note(names: dict[str, None], name: object) -> None:
    if isinstance(name, str) and len(names) < limits.STATISTICS_ROWS:
        names[name] = None


def _others(name: str, what: str, names: dict[str, None]) -> str:
    """Return a similar name, or the first names that there are."""
    first = ", ".join(shortened(other, 40) for other in [*names][:_NAMED])
    return close_to(name, names) or f"; its {what}: {first}{' and more' if len(names) > _NAMED else ''}"
