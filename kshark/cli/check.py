"""`kshark check`: the findings of the rule catalogue, then the verdict."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kshark.analysis import RULES, Change, MemberKey, Observed, Outcomes, Parties, RuleCoverage
from kshark.analysis.rules import BOOK
from kshark.cli.anonymizing import add_anonymity
from kshark.cli.apis import registry
from kshark.cli.conformance import (
    FORMATS,
    NOTHING_ASKED,
    Conformance,
    NewFindings,
    Result,
    add_conformance,
    end,
    formatted,
    parties,
    required,
    untested,
    verify,
    warn_incomplete,
)
from kshark.cli.each import captures_of, each
from kshark.cli.parser import Parser, add_captures, add_format, close_to
from kshark.cli.printed_findings import (
    EarlyFindings,
    Printed,
    ShownFindings,
    collected,
    details,
    print_details,
    rule_codes,
)
from kshark.cli.resting import Resting
from kshark.cli.shown import add_filter, filtered
from kshark.cli.source import Source, print_notes
from kshark.errors import Destroyed, Empty, UsageError
from kshark.headlines import NO_OUTCOMES, capture_headlines, screen
from kshark.model import Event, Finding
from kshark.output.catalogue import judged
from kshark.output.findings import FindingCounts
from kshark.output.sink import Sink
from kshark.output.spans import PLAIN, WARN, folded
from kshark.pipeline import JUDGED, Options
from kshark.run import Run
from kshark.units import safe

if TYPE_CHECKING:
    from kshark.cli.evidence import Evidence

EXAMPLES = (
    "kshark check trace.pcap",
    "kshark check trace.pcap -V",
    "kshark check trace.pcap -T json | tail -1",
    "kshark check captures/ --each -q",
    "kshark check trace.pcap -q --coverage",
    "kshark check trace.pcap --select EPOCH_SKIP_AHEAD,SESSION_UNKNOWN",
    "kshark check trace.pcap -Y 'kafka.client_id == billing-3'",
    "kshark check trace.pcap --records --select BATCH_COUNT_MISMATCH,BATCH_OFFSETS",
    "kshark check trace.pcap --evidence evidence/",
    "kshark check trace.pcap --evidence evidence/ --anonymize",
    "kshark check trace.pcap --ignore SESSION_NOT_CLOSED || echo 'a rule was broken'",
)
EXIT_CODES: Final = (
    "exit code: 1 if a rule was broken (unknowns and notes do not count), 2 if no capture can be read,\n"
    "3 if nothing could be judged (TLS without keys, no Kafka, no packets), 130 if Ctrl-C ended the reading and no\n"
    "rule was broken up to there, else 0.\n"
)
FAIL_ON: Final = {
    "violation": "a rule was broken",
    "unknown": "something could not be proved",
    "nothing-checked": "no rule was tested",
}

#: The exit code if no capture has anything that can be judged, and the outcome of each.
NOTHING_JUDGED: Final = 3
_NOTHING: Final = "nothing"
#: The outcome of a capture that cannot be read, among several.
_LEFT_OUT: Final = "left out"
#: The outcome of a capture in which a rule of `--require` was never tested.
_UNTESTED: Final = "untested"
_OWN_FORMATS: Final = ("text", "json")

Chosen = Callable[[Finding], bool]


def arguments(parser: Parser) -> None:
    add_captures(parser)
    add_format(parser, *FORMATS)
    add_verbose(parser)
    add_selection(parser)
    add_coverage(parser)
    add_fail_on(parser)
    add_conformance(parser)
    add_filter(parser, "only findings based on a message that passes the filter, and coverage of these (all is judged)")
    parser.add_argument(
        "--records",
        action="store_true",
        help="decode record batches, for rules 125, 126 and 158: counts, offsets, and the partitions of keys",
    )
    add_evidence(parser)
    parser.epilog = f"{parser.epilog}\n{EXIT_CODES}"


def add_verbose(parser: Parser) -> None:
    """Add `-V` and `--details`."""
    parser.add_argument("-V", dest="verbose", action="store_true", help="also every finding, with its evidence (text)")
    parser.add_argument(
        "--details", action="append", default=[], metavar="CODE,...", help="also the findings with these codes (text)"
    )


def add_selection(parser: Parser) -> None:
    """Add `--select` and `--ignore`."""
    parser.add_argument(
        "--select", action="append", default=[], metavar="CODE,...", help="only findings with these codes"
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="CODE,...", help="no findings with these codes"
    )


def add_coverage(parser: Parser) -> None:
    """Add `--coverage`."""
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="how often each rule was tested, held, was broken, or stayed unknown",
    )


def add_fail_on(parser: Parser) -> None:
    """Add `--fail-on`."""
    parser.add_argument(
        "--fail-on",
        default="violation",
        metavar="WHAT,...",
        help=f"reasons for exit code 1: {', '.join(FAIL_ON)} ({'; '.join(FAIL_ON.values())}); default: violation",
    )


def add_evidence(parser: Parser) -> None:
    """Add `--evidence` and what belongs to it."""
    parser.add_argument(
        "--evidence", metavar="DIR", help="write captures there that give the same findings, with what they show"
    )
    parser.add_argument(
        "--per",
        choices=("cause", "finding"),
        default="cause",
        metavar="cause|finding",
        help="with --evidence: one for findings with the same code, cause and party (default), or one for each",
    )
    parser.add_argument(
        "--secrets", action="store_true", help="with --evidence: the captures get the secrets of --tls-keys they need"
    )
    add_anonymity(
        parser, "with --evidence: pseudonyms for addresses and names, and zero bytes for the payload of records"
    )


def run(args: Namespace) -> int:
    selection(args)  # report a wrong option before reading anything
    details(args)
    failing = fail_on(args)
    args.known = verify(args)
    read = filtered(options(args), args)
    need_evidence(args)
    captures = captures_of(args)
    with judging():
        results = [*each(args, read, _check_with(args, captures), captures=captures, stops=True)]
    judged = [result for result in results if _LEFT_OUT not in result.outcomes]
    if args.each:
        args.unread = not judged
    end(judged, args.known, args)
    return exit_code([result.outcomes for result in judged], {*failing, _UNTESTED})


@contextmanager
def judging() -> Iterator[None]:
    """Give an error the exit code 3 if it says that nothing can be judged."""
    try:
        yield
    except (Empty, Destroyed) as error:
        error.exit_code = NOTHING_JUDGED
        error.args = (f"nothing could be judged: {error}",)
        raise


def options(args: Namespace) -> Options:
    """Return the pipeline options of a check."""
    return replace(JUDGED, records=args.records or JUDGED.records, payload=args.records)


class Checking(Run):
    """The check of one capture, limited to the selected findings."""

    def __init__(
        self,
        args: Namespace,
        *,
        named: bool,
        keeps: bool = True,
        sessions: bool = False,
        coverage: bool = False,
        listing: bool = False,
        on_change: Callable[[Change], object] | None = None,
    ) -> None:
        chosen, self._resting = selection(args), Resting(args)
        super().__init__(
            registry(args),
            shows=lambda finding: chosen(finding) and self._resting.shows(finding),
            keeps=keeps,
            sessions=sessions,
            coverage=coverage and counted_requests(args, self._resting),
            named=named,
            complete=getattr(args, "complete", False),
            records=getattr(args, "records", False),
            listing=listing,
            on_change=on_change,
        )

    def page(self, page: list[Event]) -> list[Finding]:
        self._resting.add(page)
        return super().page(page)


def need_evidence(args: Namespace) -> None:
    """Raise UsageError for an option that has no effect without `--evidence`."""
    given = {"--anonymize": args.anonymize, "--anonymize-key": args.anonymize_key, "--secrets": args.secrets}
    for option in (option for option, value in given.items() if value and args.evidence is None):
        raise UsageError(f"{option} needs --evidence DIR")


def _check_with(args: Namespace, captures: list[list[str]]) -> Callable[[Source, Namespace, Sink], Result]:
    """Return `_check`, with the evidence to write if it is asked for."""
    if args.evidence is None:
        return _check
    from kshark.cli.evidence import Evidence  # only needed with --evidence

    return partial(_check, evidence=Evidence(args, captures))


def _check(source: Source, args: Namespace, sink: Sink, evidence: Evidence | None = None) -> Result:
    """Check a capture and print the result."""
    is_early = source.is_pipe and not args.quiet and args.format in _OWN_FORMATS and not args.baseline
    early = EarlyFindings(source, args, sink) if is_early else None
    checking = Checking(args, named=args.format != "json", coverage=asks_for_coverage(args))
    for page in source:
        proved = checking.page(page)
        if evidence is not None:
            evidence.page(page)
        if early is not None and proved:
            early.print(proved, checking.topics)
        del page  # its memory is used again by the next page
    checking.close()
    source.has_verdict = True
    if source.left_out and not source.packets:
        return Result({_LEFT_OUT})
    rest = None if early is None else early.rest(checking.findings)
    findings = NewFindings(ShownFindings(checking.findings, source), args)
    printed = collected(findings, args, sink, rest)
    source.notes.leave_out(judged(printed.counts.codes))
    print_notes(source, heading=args.each)  # before the result: that stays in sight
    name = source.name if args.each else None
    observed, clients = checking.observed, checking.clients(args.by) if args.by else []
    warn_incomplete(observed, args)
    missing = untested(coverage_of(observed, args), clients, args)
    outcomes = outcomes_of(printed.counts, observed, args) | ({_UNTESTED} if missing else set())
    conformance = Conformance(clients, missing, findings.known)
    if args.format in _OWN_FORMATS:
        verdict(printed, observed, args, sink, name, outcomes=checking.outcomes, conformance=conformance)
        print_details(findings if rest is None else rest, args, sink, checking.topics)
        part = None
    else:
        if nothing_judged(printed.counts, observed):
            print_why_empty(observed, args, sink)
        fails_on_unknown = "unknown" in fail_on(args)
        part = formatted(source.name, findings, coverage_of(observed, args), conformance, args, sink, checking.topics,
                         fails_on_unknown=fails_on_unknown)  # fmt: skip
    if evidence is not None:
        evidence.write(source, findings)
    return Result(outcomes, findings.kinds, part)


def verdict(
    printed: Printed,
    observed: Observed,
    args: Namespace,
    sink: Sink,
    name: str | None = None,
    outcomes: Mapping[MemberKey, Outcomes] = NO_OUTCOMES,
    conformance: Conformance = NOTHING_ASKED,
    capture: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Print what the findings mean: the headlines, then the counts of findings, of what was judged, and of rules
    without findings. Before them the coverage, if requested; after them what else the options ask for. `capture`: what
    else the JSON summary says about the capture.
    """
    chosen = _chosen(args)
    rules = sorted({rule.number for rule in RULES if rule.number is not None and chosen(rule.code)})
    if nothing_judged(printed.counts, observed):
        print_why_empty(observed, args, sink)
    headlines = [] if args.quiet else printed.headlines.of(outcomes, capture_headlines(observed, printed.counts))
    if args.format == "json":
        summary = printed.counts.summary(observed, rules)
        if name is not None:
            summary["summary"]["file"] = name
        if shows_coverage(args):
            summary["summary"]["coverage"] = conformance.coverage_rows(coverage_of(observed, args), args)
        summary["summary"].update({**capture, **conformance.summary(args)})
        sink.json([*({"headline": headline} for headline in headlines), summary])
    else:
        if shows_coverage(args):
            sink.lines(conformance.coverage_lines(coverage_of(observed, args), args, sink.width))
        sink.lines(
            screen(headlines, printed.counts, observed, rules, sink.width, verbose=getattr(args, "verbose", False))
        )
        sink.lines(conformance.lines(args, sink.width))


def print_why_empty(observed: Observed, args: Namespace, sink: Sink) -> None:
    """Print why nothing could be judged, if so: the first line of text, or a line on stderr beside JSON."""
    why = observed.why_empty(has_keys=bool(args.tls_keys))
    if why is not None and args.format != "text":
        print(f"kshark: nothing could be judged: {safe(why)}", file=sys.stderr)
    elif why is not None:
        sink.lines(folded([("Nothing could be judged: ", WARN), (f"{safe(why)}.", PLAIN)], sink.width, 2))


def nothing_judged(counts: FindingCounts, observed: Observed) -> bool:
    """True if nothing could be judged."""
    return observed.is_empty(has_events=counts.has_events)


def exit_code(outcomes: Iterable[set[str]], failing: set[str]) -> int:
    """Return the exit code for the outcomes of several captures, in which `failing` ones are 1."""
    found = [*outcomes]
    if any(map(failing.intersection, found)):
        return 1
    return NOTHING_JUDGED if found and all(_NOTHING in each for each in found) else 0


def outcomes_of(tally: FindingCounts, observed: Observed, args: Namespace) -> set[str]:
    """Return the keys of FAIL_ON that apply to a capture, and _NOTHING if nothing could be judged."""
    idle = asks_for_coverage(args) and not any(map(_was_checked, coverage_of(observed, args)))
    outcomes = {
        "violation": tally.verdicts["violation"],
        "unknown": tally.verdicts["unknown"],
        "nothing-checked": idle,
        _NOTHING: nothing_judged(tally, observed),
    }
    return {outcome for outcome, applies in outcomes.items() if applies}


def _was_checked(rule: RuleCoverage) -> bool:
    """True if the rule was tested. Reading bytes without an error alone tests nothing."""
    return rule.tested > (rule.held if BOOK.by_code[rule.code].read else 0)


def asks_for_coverage(args: Namespace) -> bool:
    """True if coverage must be counted: it is shown, or decides the exit code."""
    shows = shows_coverage(args) or args.format == "junit"
    return shows or bool(required(args)) or "nothing-checked" in fail_on(args)


def counted_requests(args: Namespace, resting: Resting) -> bool | Parties:
    """Return what coverage counts: all requests, or by client and only those that pass `-Y`."""
    return parties(args, resting.has_passed) or True


def shows_coverage(args: Namespace) -> bool:
    """True if `--coverage` is set; a report has no such option."""
    return getattr(args, "coverage", False)


def coverage_of(observed: Observed, args: Namespace) -> list[RuleCoverage]:
    """Return the coverage of the selected rules."""
    chosen = _chosen(args)
    return [rule for rule in observed.rules() if chosen(rule.code)]


def fail_on(args: Namespace) -> set[str]:
    """Return the words of `--fail-on`. Raises UsageError for an unknown word."""
    named = {word.strip().lower() for word in args.fail_on.split(",") if word.strip()}
    if not named:
        raise UsageError(f"--fail-on accepts one or more of {', '.join(FAIL_ON)}")
    for word in sorted(named - FAIL_ON.keys()):
        raise UsageError(f'--fail-on: no "{word}"{close_to(word, FAIL_ON)} (accepted: {", ".join(FAIL_ON)})')
    return named


def selection(args: Namespace) -> Chosen:
    """Return the predicate of `--select` and `--ignore`. Raises UsageError for a code that is not in the catalogue."""
    chosen = _chosen(args)
    return lambda finding: chosen(finding.code)


def _chosen(args: Namespace) -> Callable[[str], bool]:
    select, ignore = rule_codes(args.select), rule_codes(args.ignore)
    return lambda code: (not select or code in select) and code not in ignore
