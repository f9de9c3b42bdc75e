"""Options of `kshark check` for authors of clients: coverage by client, required rules, known findings, complete
captures.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from kshark.analysis import OF_CLIENTS, ClientCoverage, Observed, Parties, RuleCoverage
from kshark.analysis.rules import BOOK
from kshark.cli.parser import Parser, close_to
from kshark.errors import UsageError
from kshark.model import Finding
from kshark.output.baseline import Baseline, FindingKind, count_kinds, kinds_written
from kshark.output.sink import Sink
from kshark.output.spans import DIM, WARN, Line, folded
from kshark.units import counted, safe

#: Formats that are documents, with a part for each capture.
DOCUMENTS: Final = ("junit", "sarif")
FORMATS: Final = ("text", "json", *DOCUMENTS, "github")
_ALL: Final = "all"
#: Most findings that are named as gone.
_NAMES: Final = 8


def add_conformance(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--by",
        choices=("client", "software"),
        metavar="client|software",
        help="with --coverage, --require or -T junit: for each client id, or software and version",
    )
    parser.add_argument(
        "--recipes", action="store_true", help="with --coverage: the right and the wrong requests of untested rules"
    )
    parser.add_argument(
        "--complete",
        action="store_true",
        help="the capture holds all traffic of its clients: hidden requests are no doubt",
    )
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="CODE,...",
        help="exit code 1 if one of these rules was never tested; all: each rule about clients",
    )
    parser.add_argument(
        "--baseline", metavar="FILE", help="leave out known findings: of -T json, or of --write-baseline"
    )
    parser.add_argument("--write-baseline", metavar="FILE", help="write the findings as known ones")


def verify(args: Namespace) -> Baseline:
    """Return the known findings. Raises UsageError for a wrong option."""
    required(args)
    if args.by and not (args.coverage or args.require or args.format == "junit"):
        raise UsageError("--by groups coverage: use it with --coverage, --require or -T junit")
    if args.recipes and not (args.coverage and args.format == "text"):
        raise UsageError("--recipes belongs to the text of --coverage: kshark check FILE --coverage --recipes")
    return Baseline.read(Path(args.baseline)) if args.baseline else Baseline()


def required(args: Namespace) -> list[str]:
    """Return the codes of `--require`, in the order of the catalogue. Raises UsageError for a code without coverage."""
    given = getattr(args, "require", [])
    codes = {code.strip().upper() for text in given for code in text.split(",") if code.strip()}
    if given and not codes:
        raise UsageError("--require accepts codes of rules, or all: --require NO_RECOVERY,USE_AFTER_FINAL")
    numbered = {rule.code: None for rule in BOOK.rules if rule.number is not None}
    for code in sorted(codes - {_ALL.upper()} - numbered.keys()):
        raise UsageError(
            f'--require: no rule "{code}" with coverage{close_to(code, numbered)} (kshark check FILE --coverage lists '
            "them)"
        )
    if getattr(args, "by", None) and (others := sorted(codes - {_ALL.upper()} - OF_CLIENTS)):
        raise UsageError(f"--require: {others[0]} is not about requests of clients; leave out --by to require it")
    if _ALL.upper() in codes:
        codes |= OF_CLIENTS
    return [code for code in numbered if code in codes]


def parties(args: Namespace, passes: Callable[[int], bool] | None) -> Parties | None:
    """Return what coverage counts by client; None if it counts all requests together.

    `passes`: true for packets of messages that pass `-Y`.
    """
    return Parties(passes) if getattr(args, "by", None) or passes is not None else None


class NewFindings:
    """Iterable over the findings that are not known. `kinds`: all kinds that were found, with their numbers, if an
    option asks for them."""

    def __init__(self, findings: Iterable[Finding], args: Namespace) -> None:
        """`findings` are read more than once."""
        self._findings, self._baseline = findings, args.known
        self.kinds: Final = count_kinds(findings if args.baseline or args.write_baseline else ())

    def __iter__(self) -> Iterator[Finding]:
        return (finding for finding in self._findings if not self._baseline.has(finding))

    @property
    def known(self) -> Counter[FindingKind]:
        """The kinds that are known, with their numbers."""
        return Counter({kind: times for kind, times in self.kinds.items() if kind in self._baseline.kinds})


class Untested(Struct, frozen=True):
    """Rules of `--require` that were never tested, in all or by one client. `by`: what `client` is the name of."""

    codes: Sequence[str]
    by: str = ""
    client: str | None = None

    @property
    def sentence(self) -> str:
        whom = "" if self.client is None else f" by {self.by} {safe(self.client)}"
        return f"never tested{whom}: {', '.join(self.codes)} (--require)"


def untested(rules: Sequence[RuleCoverage], clients: Sequence[ClientCoverage], args: Namespace) -> list[Untested]:
    """Return which rules of `--require` were never tested: in all, or by each client. Without a client, all."""
    codes = required(args)
    if not codes or args.by is None or not clients:
        rules = [] if args.by else rules
        return [Untested(missing)] if (missing := _missing(codes, rules)) else []
    return [Untested(missing, args.by, client.name) for client in clients if (missing := _missing(codes, client.rules))]


def _missing(codes: Iterable[str], rules: Sequence[RuleCoverage]) -> list[str]:
    tested = {rule.code for rule in rules if rule.tested}
    return [code for code in codes if code not in tested]


class Conformance(Struct, frozen=True):
    """The answers of a capture to the options: coverage of each client, what was not tested, known findings."""

    clients: Sequence[ClientCoverage] = ()
    untested: Sequence[Untested] = ()
    known: Mapping[FindingKind, int] = field(default_factory=dict)

    def coverage_rows(self, rules: Sequence[RuleCoverage], args: Namespace) -> list[dict[str, Any]]:
        """Return the coverage for JSON: a row for each rule, or for each rule and client."""
        by = getattr(args, "by", None)
        if by is None:
            return [rule._asdict() for rule in rules]
        return [
            {**({"client": name} if by == "client" else {}), "software": software if by == "client" else name,
             **rule._asdict()}
            for name, software, rules_of_client in self.with_rules(rules)
            for rule in rules_of_client
        ]  # fmt: skip

    def with_rules(self, rules: Sequence[RuleCoverage]) -> list[ClientCoverage]:
        """Return the coverage of each client, with these rules only."""
        chosen = {rule.code for rule in rules}
        return [
            client._replace(rules=[rule for rule in client.rules if rule.code in chosen]) for client in self.clients
        ]

    def coverage_lines(self, rules: Sequence[RuleCoverage], args: Namespace, width: int | None) -> Iterator[Line]:
        """Return the coverage as text, with recipes for untested rules if they are asked for."""
        from kshark.output.coverage import client_lines, coverage_lines  # rich, 30 ms
        from kshark.output.recipes import recipe_lines

        by, tested = getattr(args, "by", None), {rule.code for rule in rules if rule.tested}
        if by is None:
            yield from coverage_lines(rules, width)
        else:
            clients = self.with_rules(rules)
            yield from client_lines(clients, by, width)
            rules = [rule for rule in rules if rule.code in OF_CLIENTS]
            tested = {rule.code for client in clients for rule in client.rules if rule.tested}
        if getattr(args, "recipes", False):
            yield from recipe_lines([rule.code for rule in rules if rule.code not in tested])

    def summary(self, args: Namespace) -> dict[str, Any]:
        """Return the keys of the JSON summary that the options add."""
        known = {"known": sum(self.known.values())} if getattr(args, "baseline", None) else {}
        by = getattr(args, "by", None) or "client"
        rows = [{by: missing.client, "codes": missing.codes} for missing in self.untested]
        return {**known, **({"untested": rows} if getattr(args, "require", None) else {})}

    def lines(self, args: Namespace, width: int | None) -> Iterator[Line]:
        """Return the lines below the verdict."""
        if getattr(args, "baseline", None):
            known = sum(self.known.values())
            are = "is" if known == 1 else "are"
            yield [(f"{counted(known, 'known finding')} {are} left out: --baseline", DIM)]
        for missing in self.untested:
            yield from folded([(missing.sentence, WARN)], width, 2)


NOTHING_ASKED: Final = Conformance()


class Result(Struct, frozen=True):
    """The check of one capture. `outcomes`: what decides the exit code. `kinds`: all kinds of findings, known ones too.
    `part`: the capture's part of a document."""

    outcomes: set[str]
    kinds: Mapping[FindingKind, int] = field(default_factory=dict)
    part: Any = None


def formatted(
    name: str,
    findings: NewFindings,
    rules: Sequence[RuleCoverage],
    conformance: Conformance,
    args: Namespace,
    sink: Sink,
    topics: Mapping[str, str],
    *,
    fails_on_unknown: bool,
) -> Any:
    """Print the annotations of a capture, or return its part of a document."""
    from kshark.output.checked_capture import CheckedCapture

    capture = CheckedCapture(
        "standard input" if name == "-" else Path(name).name,
        findings,
        topics,
        rules,
        conformance.with_rules(rules),
        args.by,
        conformance.known,
        required(args),
        fails_on_unknown,
    )
    sentences = [missing.sentence for missing in conformance.untested]
    for sentence in sentences if args.format in DOCUMENTS else ():
        print(f"kshark: {sentence}", file=sys.stderr)
    if args.format == "junit":
        from kshark.output.junit import suites

        return suites(capture)
    if args.format == "sarif":
        from kshark.output.sarif import run_of

        return run_of(capture)
    from kshark.output.github import annotation_lines

    file = capture.name if Path(name).is_absolute() else name
    for line in annotation_lines(capture, file, sentences):
        sink.text(line)
    return None


def end(results: Sequence[Result], baseline: Baseline, args: Namespace) -> None:
    """Print the document of all captures, and name known findings that no capture has; write the new baseline."""
    sink, found = Sink(sys.stdout), Counter[FindingKind]()
    for result in results:
        found.update(result.kinds)
    if args.format == "junit":
        from kshark.output.junit import document

        sink.text(document(result.part for result in results))
    elif args.format == "sarif":
        from kshark.output.jsonlines import pretty
        from kshark.output.sarif import document as log

        sink.bytes(memoryview(pretty(log(result.part for result in results))))
    gone = gone_line(baseline, found)
    if gone and args.format == "text":
        sink.lines(folded([(gone, DIM)], sink.width, 2))
    elif gone:
        print(f"kshark: {gone}", file=sys.stderr)
    write_baseline(args, found)


def warn_incomplete(observed: Observed, args: Namespace) -> None:
    """Say on stderr why the capture does not hold all traffic, against `--complete`."""
    if not args.complete:
        return
    reasons = ["packets were dropped before they were captured"] if observed.defects["PACKETS_DROPPED"] else []
    if tls := observed.tls_connections:
        reasons.append(f"{counted(tls, 'TLS connection')} {'is' if tls == 1 else 'are'} not read")
    for reason in reasons:
        print(f"kshark: --complete is not true: {reason}; what rests on it stays unknown", file=sys.stderr)


def gone_line(baseline: Baseline, found: Counter[FindingKind]) -> str:
    """Return the sentence about known findings that no capture has any more; empty if there are none."""
    gone = [kind for kind in baseline.kinds if kind not in found]
    names = ", ".join(dict.fromkeys(safe(kind.name) for kind in gone[:_NAMES]))
    more = f" and {len(gone) - _NAMES} more" if len(gone) > _NAMES else ""
    return f"known findings that no longer occur: {names}{more}; take them out of --baseline" if gone else ""


def write_baseline(args: Namespace, found: Counter[FindingKind]) -> None:
    """Write the findings of all captures for `--baseline`. Raises UsageError if the file cannot be written."""
    if args.write_baseline:
        try:
            Path(args.write_baseline).write_bytes(kinds_written(found))
        except OSError as error:
            raise UsageError(f"--write-baseline: {args.write_baseline}: {error.strerror}") from error
