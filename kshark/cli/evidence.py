"""`kshark check --evidence DIR`: captures that give the findings again, to be handed on."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kshark.anonymous import Pseudonyms
from kshark.capture.copying import need_files
from kshark.cli.anonymizing import pseudonyms
from kshark.cli.printed_findings import rule_codes
from kshark.cli.writing import copied
from kshark.errors import UsageError
from kshark.evidence.cases import chosen_cases, is_due
from kshark.evidence.connections import Connections
from kshark.evidence.folder import prepare
from kshark.evidence.writing import write_evidence
from kshark.output.catalogue import weight_of
from kshark.units import counted, safe, size

if TYPE_CHECKING:
    from kshark.cli.source import Source
    from kshark.evidence.text import Written
    from kshark.model import Event, Finding


class Evidence:
    """Takes the pages of a capture, and writes the evidence of its findings.

    Raises UsageError if the folder cannot be used, or if the capture can be read only once.
    """

    def __init__(self, args: Namespace, captures: Sequence[Sequence[str]]) -> None:
        if len(captures) > 1:
            raise UsageError("--evidence is about one capture; name one, or leave out --each")
        need_files(captures[0], "--evidence")
        self._args = args
        self._names = _names(args)
        self._folder = prepare(args.evidence)
        self._connections = Connections()

    def page(self, page: Iterable[Event]) -> None:
        self._connections.page(page)

    def write(self, source: Source, findings: Iterable[Finding]) -> None:
        """Write the evidence of these findings, which are read more than once, and print a summary to stderr."""
        args = self._args
        cases, left = chosen_cases(_Due(findings, named=rule_codes(args.select)), args.per, self._names)
        capture = copied(source, args)
        written = [*write_evidence(capture, self._connections, cases, self._folder, _options(args), self._names)]
        _print_written(written, self._folder, findings)
        if left:
            print(f"kshark: {counted(left, 'more case')} without evidence: choose codes with --select", file=sys.stderr)


class _Due:
    """The findings for which evidence is due: all of the codes that were named, else those that are not mere notes."""

    def __init__(self, findings: Iterable[Finding], named: set[str]) -> None:
        self._findings = findings
        self._named = named

    def __iter__(self) -> Iterator[Finding]:
        return (it for it in self._findings if it.code in self._named or (not self._named and is_due(it)))


def _names(args: Namespace) -> Pseudonyms | None:
    """Return the pseudonyms of `--anonymize`; None without it. Raises UsageError for options that contradict it."""
    names = pseudonyms(args)
    if names is not None and args.secrets:
        raise UsageError("--anonymize leaves out what is inside TLS; leave out --secrets")
    return names


def _options(args: Namespace) -> str:
    """Return the options of a check that are needed to repeat it."""
    options = [f"-d {rule}" for rule in args.decode_as]
    if args.records:
        options.append("--records")
    if args.max_request_bytes is not None:
        options.append(f"--max-request-bytes {args.max_request_bytes}")
    if args.tls_keys and not args.secrets:
        options.append("--tls-keys FILE")
    return "".join(f" {option}" for option in options)


def _print_written(written: Sequence[Written], folder: Path, findings: Iterable[Finding]) -> None:
    if not written:
        codes = {finding.code for finding in findings}
        why = "nothing was broken, and nothing happened"
        if codes:
            heaviest = min(codes, key=lambda code: (-weight_of(code), code))
            why = f"there are only notes, whose codes must be named (--select {heaviest})"
        print(f"kshark: no evidence was written: {why}", file=sys.stderr)
        return
    again = sum(it.is_reproduced for it in written)
    total = size(sum(it.size for it in written))
    print(
        f"kshark: wrote evidence of {counted(len(written), 'case')} to {safe(str(folder))} ({total}); "
        f"{'each gives' if again == len(written) else f'{again} of them give'} the same finding again",
        file=sys.stderr,
    )
