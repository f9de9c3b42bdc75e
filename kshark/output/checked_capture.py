"""A checked capture as other tools' formats show it: the findings of each client, rule by rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from kshark.analysis import OF_CLIENTS, REASONS, UNNAMED, By, ClientCoverage, Rule, RuleCoverage
from kshark.endpoints import host_of
from kshark.model import Finding
from kshark.output.baseline import FindingKind
from kshark.output.catalogue import CODES
from kshark.output.findings import finding_lines
from kshark.output.spans import plain
from kshark.units import counted, number

#: `passed`, `failed`; `skipped`: never tested, not decided, or known.
Result = Literal["passed", "failed", "skipped"]
#: Most findings of a rule in full.
_FINDINGS: Final = 20
#: The group of findings that are about no client.
_OTHERS: Final = "brokers and network"


class CheckedCapture(NamedTuple):
    """The result of a check, without known findings.

    `name`: the file's name without its folder; of several files, of the first one. `findings` are read more than once.
    `clients`: the coverage of each, `rules`: that of all together; one of both is empty. `known`: known findings.
    `required`: rules that must have been tested. `fails_on_unknown`: an unproved finding fails as a violation does.
    """

    name: str
    findings: Iterable[Finding]
    topics: Mapping[str, str]
    rules: Sequence[RuleCoverage] = ()
    clients: Sequence[ClientCoverage] = ()
    by: By | None = None
    known: Mapping[FindingKind, int] = MappingProxyType({})
    required: Sequence[str] = ()
    fails_on_unknown: bool = False


class Case(NamedTuple):
    """One rule for one client. `message`: why it is not passed, in a sentence; `kind`: the same in a word or two;
    `details`: its findings in full."""

    code: str
    result: Result
    kind: str = ""
    message: str = ""
    details: str = ""


class Group(NamedTuple):
    """The rules of one client, of the clients with one software, or of the whole capture."""

    name: str
    software: str | None
    cases: Sequence[Case]


def groups(capture: CheckedCapture) -> list[Group]:
    """Return the rules of each client; then those that others broke."""
    found: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in capture.findings:
        found[_group_of(finding, capture.by), finding.code].append(finding)
    parts = [(client.name, client.software, client.rules) for client in capture.clients]
    if capture.by is None:
        parts = [("", None, capture.rules)]
    result = []
    for name, software, rules in parts:
        rows = {row.code: row for row in rules}
        others = [code for group, code in found if group == name and code not in rows]
        client = name, software
        cases = [_case(code, rows[code], found.pop((name, code), []), capture, client) for code in rows]
        cases += [_case(code, None, found.pop((name, code)), capture) for code in others]
        result.append(Group(name or "capture", software, [case for case in cases if case is not None]))
    rest = [_case(code, None, findings, capture) for (_, code), findings in found.items()]
    if cases := [case for case in rest if case is not None]:
        result.append(Group(_OTHERS, None, cases))
    return result


def _group_of(finding: Finding, by: By | None) -> str:
    """Return the name of the group of a finding: its client, unless it accuses another party."""
    if by is None:
        return ""
    if finding.blame not in ("client", "unknown") or (finding.blame == "unknown" and finding.code not in OF_CLIENTS):
        return _OTHERS
    return finding.client_id or host_of(finding.client) if by == "client" else finding.software or UNNAMED


def _case(
    code: str,
    row: RuleCoverage | None,
    findings: Sequence[Finding],
    capture: CheckedCapture,
    client: tuple[str, str | None] = ("", None),
) -> Case | None:
    """Return the case of a rule; None for a rule without coverage that nobody broke."""
    violations = [finding for finding in findings if finding.verdict == "violation"]
    unknown = [finding for finding in findings if finding.verdict == "unknown"]
    if violations:
        return _found(code, "failed", "violation", violations, capture)
    if unknown:
        return _found(code, "failed" if capture.fails_on_unknown else "skipped", "not proved", unknown, capture)
    if row is None:
        return None
    if not row.tested:
        is_required = code in capture.required
        asks = f"never tested; what it asks for: {_asked(code)}"
        return Case(code, "failed" if is_required else "skipped", "never tested", asks)
    known = sum(
        times
        for kind, times in capture.known.items()
        if kind.code == code and (capture.by is None or kind.may_be_of(*client))
    )
    if known and row.broken + row.unknown:
        return Case(code, "skipped", "known", f"{counted(known, 'known finding')} left out: --baseline")
    if row.unknown and not row.held:
        return Case(code, "skipped", "not decided", f"tested {number(row.tested)} times, never decided")
    return Case(code, "passed", "", f"right {counted(row.held, 'time')}")


def _asked(code: str) -> str:
    """Return what a rule asks for; its fault, if the row says no more."""
    rule = CODES[code]
    return (rule.must if isinstance(rule, Rule) else "") or f"not this: {rule.text}"


def _found(code: str, result: Result, kind: str, findings: Sequence[Finding], capture: CheckedCapture) -> Case:
    times = f"{number(len(findings))} times: " if len(findings) > 1 else ""
    first = findings[0]
    because = f" Not proved: {REASONS.get(first.unknown_because, '')}." if first.unknown_because else ""
    return Case(
        code, result, kind, f"{times}{CODES[code].text}{because}", _details(findings, capture.topics) + advice_of(code)
    )


def _details(findings: Sequence[Finding], topics: Mapping[str, str]) -> str:
    """Return findings as `kshark check -V` prints them."""
    lines = [plain(line) for finding in findings[:_FINDINGS] for line in finding_lines(finding, None, topics)]
    more = f"and {number(len(findings) - _FINDINGS)} more\n" if len(findings) > _FINDINGS else ""
    return "".join(f"{line}\n" for line in lines) + more


def advice_of(code: str) -> str:
    """Return what to do about a finding, and the known issues."""
    entry = CODES[code]
    tickets = f"\ntickets: {', '.join(entry.tickets)}" if isinstance(entry, Rule) and entry.tickets else ""
    return f"advice: {entry.advice}{tickets}\n" if entry.advice else ""
