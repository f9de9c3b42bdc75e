"""Pages that mkdocs makes from the catalogue, and links that leave docs/: a hook of mkdocs.yml.

`rules/` has an index and a page for each rule and event, made from its row; `changes.md` is CHANGELOG.md. Links to
files outside docs/ lead to the repository. Run by `make docs`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kshark.analysis.rules.causes import CAUSES
from kshark.anomaly import CATALOGUE
from kshark.output.catalogue import EVERY_RULE, JUDGED_BY, group_of
from kshark.output.entries import facts_of, legend
from kshark.output.error_entries import error_object
from kshark.output.kip_entries import kip_object
from kshark.registry import Registry
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.kips import KIPS

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

    from kshark.analysis import Rule

ROOT: Final = Path(__file__).resolve().parent.parent
CATALOGUE_PAGE: Final = ROOT / "tests" / "analysis" / "rules" / "CATALOGUE.md"
REPOSITORY: Final = "https://github.com/kshark/kshark/blob/main/"
#: Pages of the site that are files of the repository elsewhere.
COPIES: Final = {"changes.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
#: Pages of the site that stand for a file of the repository: a link to the file leads to the page.
_STANDS_FOR: Final = {**COPIES, "rules/index.md": str(CATALOGUE_PAGE.relative_to(ROOT))}
#: Headings of the index, by the group of a rule, in its order.
_GROUPS: Final = {
    "event": "Events: what happened to a broker, a connection, a topic or a member",
    "session": "Share sessions",
    "in flight": "Records in flight",
    "member": "Members of share groups",
    "consumer": "Members of consumer groups",
    "generation": "Generations, member epochs and instance ids",
    "persister": "Stored state of share partitions",
    "exchange": "Single requests and their responses",
    "records": "Record batches",
}
#: Headings of the oddities of bytes, by the stage that finds them.
_STAGES: Final = {
    "capture": "Files",
    "link": "Packets",
    "reassembly": "TCP",
    "proxy": "PROXY headers",
    "tls": "TLS",
    "framing": "Frames",
    "exchange": "Requests and responses",
    "codec": "Bodies",
    "records": "Record batches",
}
_BYTES: Final = "Bytes, frames and connections"
#: Blocks and spans of code.
_CODE: Final = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)$|`[^`\n]*`)", re.M | re.S)
_TICKETS: Final = (
    (r"\b(KAFKA-\d+)\b", r"[\1](https://issues.apache.org/jira/browse/\1)"),
    (r"\b([\w.-]+/[\w.-]+)#(\d+)\b", r"[\1#\2](https://github.com/\1/issues/\2)"),
)
#: Columns of a line that fits into a page; tables may be wider.
_LINE: Final = 110
_TITLES: Final = {
    "must be": "Must be",
    "advice": "What to do",
    "test it by": "How to test it",
    "judges": "Judges",
    "when": "Broken by",
    "verdict": "Verdict",
    "may blame": "May blame",
    "exit code": "Exit code",
    "reference": "Source",
    "tickets": "Tickets",
    "rests on": "Rests on",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    from mkdocs.structure.files import File, InclusionLevel

    for name, content in pages():
        listed = not name.startswith("rules/") or name in ("rules/index.md", "rules/bytes.md")
        inclusion = InclusionLevel.INCLUDED if listed else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, name, content=content, inclusion=inclusion))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files outside docs/ lead to the repository."""
    name = page.file.src_uri
    return wrapped(with_rules(with_links(markdown, name), name))


def wrapped(markdown: str) -> str:
    """Mark blocks of output with long sentences, which the style sheet wraps; tables keep their lines."""

    def marked(block: re.Match[str]) -> str:
        long = [line.strip() for line in block[1].split("\n") if len(line) > _LINE]
        sentences = long and all("  " not in line for line in long)
        return f"``` {{ .console .wrapped }}\n{block[1]}```" if sentences else block[0]

    return re.sub(r"^```console\n(.*?)^```$", marked, markdown, flags=re.M | re.S)


def pages() -> Iterator[tuple[str, str]]:
    """Return name and Markdown of every page that is made."""
    yield "rules/index.md", index()
    yield "rules/bytes.md", oddities()
    yield "errors.md", errors()
    yield "kips.md", kips()
    for rule in EVERY_RULE:
        yield f"rules/{rule.code}.md", rule_page(rule)
    for name, source in COPIES.items():
        yield name, (ROOT / source).read_text()


def with_links(markdown: str, name: str) -> str:
    """Return a page with its links as the site needs them.

    A link to a page of the site, or a file beside it, stays relative; one to another file of the repository becomes
    absolute.
    """
    source = PurePosixPath(COPIES.get(name, f"docs/{name}"))

    def led(link: re.Match[str]) -> str:
        target, _, anchor = link[2].partition("#")
        if not target or re.match(r"[a-z][a-z+.-]*:", target):
            return link[0]
        path = os.path.normpath(source.parent / target)
        inside = next((page for page, copy in _STANDS_FOR.items() if copy == path), None)
        if inside is None and path.startswith("docs/"):
            inside = path.removeprefix("docs/")
        if inside is not None:
            place = os.path.relpath(inside, PurePosixPath(name).parent)
        else:
            place = REPOSITORY + path
        return f"{link[1]}({place}{'#' * bool(anchor)}{anchor})"

    return "".join(
        part if index % 2 else re.sub(r"(\])\(([^)\s]+)\)", led, part)
        for index, part in enumerate(_CODE.split(markdown))
    )


def with_rules(markdown: str, name: str) -> str:
    """Return a page in which `CODE` of a rule, outside of blocks and links, leads to the rule's page."""
    rules = {rule.code for rule in EVERY_RULE}
    to_rules = os.path.relpath("rules", PurePosixPath(name).parent)
    parts = _CODE.split(markdown)
    for index in range(1, len(parts), 2):
        code = parts[index].strip("`")
        if parts[index] == f"`{code}`" and code in rules and not parts[index + 1].startswith("]"):
            parts[index] = f"[{parts[index]}]({to_rules}/{code}.md)"
    return "".join(parts)


def index() -> str:
    """Return the page that lists all rules by what they judge."""
    groups: dict[str, list[Rule]] = {title: [] for title in (*_GROUPS.values(), _BYTES)}
    for rule in EVERY_RULE:
        groups[_GROUPS.get(group_of(rule), _BYTES)].append(rule)
    accusing = sum(rule.accuses for rule in EVERY_RULE)
    lines = [
        "# Rules",
        "",
        f"kshark knows {len(EVERY_RULE)} rules and events. {accusing} of them can end in a **violation**: the capture "
        "proves that a rule of the protocol was broken, and the exit code is 1. The others note what happened. "
        "The same text, without a browser: `kshark explain CODE`, `kshark explain rules`.",
        "",
        "*V* violation, *U* unknown where the capture cannot prove it, *N* note: no rule was broken.",
    ]
    for title, rules in groups.items():
        lines += ["", f"## {title}", "", "| code | | may blame | verdicts | rule |", "|---|---|---|---|---|"]
        lines += [
            f"| [{rule.code}]({rule.code}.md) | {_prose(rule.text)} | {', '.join(rule.blame)} "
            f"| {' '.join(verdict[0].upper() for verdict in rule.verdicts)} | {rule.number or ''} |"
            for rule in rules
        ]
    return "\n".join([*lines, ""])


def oddities() -> str:
    """Return the page of the weirds: facts about bytes, by the stage that finds them."""
    lines = [
        "# Oddities of bytes",
        "",
        "What is odd about the bytes of a capture gets a code, too. It may be the fault of the capture, so that it "
        "accuses nobody; some are judged by a rule. `kshark check` prints them as notes on the capture.",
    ]
    for group, title in _STAGES.items():
        entries = [entry for entry in CATALOGUE.values() if entry.group == group]
        lines += ["", f"## {title}", "", "| code | | what to do |", "|---|---|---|"]
        for entry in entries:
            judged = JUDGED_BY.get(entry.code)
            advice = _prose(entry.advice) if judged is None else f"judged as [{judged.code}]({judged.code}.md)"
            lines.append(f"| `{entry.code}` | {_prose(entry.text)} | {advice} |")
    return "\n".join([*lines, ""])


def errors() -> str:
    """Return the page of Kafka's error codes: who sends each, why, what the client does, and rules."""
    lines = [
        "# Errors",
        "",
        "Every error code of Kafka. The same, without a browser: `kshark explain 123`, or its name.",
    ]
    registry = Registry()
    for error in ErrorCode:
        if error is not ErrorCode.NONE:
            lines += _error(error_object(error, registry), registry)
    return "\n".join([*lines, ""])


def _error(error: dict[str, Any], registry: Registry) -> list[str]:
    """Return the section of an error."""
    retriable = "Retriable" if error["retriable"] else "Not retriable"
    lines = ["", f"## {error['error_code']} {error['error']}", "", f"{_prose(error['meaning'])} *{retriable}.*"]
    for (keys, level), causes in groupby(error["causes"], itemgetter("api_keys", "level")):
        where = ", ".join([*(registry.name(key) or str(key) for key in keys), level])
        lines += ["", f"*{where}*", "", *(f"- {_prose(cause['cause'])}" for cause in causes)]
    lines += ["", f"**What the client does:** {_prose(error['remedy'])}."] if error["remedy"] else []
    apis = error["apis"]
    senders = "every API" if apis is None else ", ".join(api["api"] for api in apis)
    lines += ["", f"**Sent by** {senders}."] if senders else []
    rules = ", ".join(f"[{code}](rules/{code}.md)" for code in error["rules"])
    return [*lines, "", f"**Explained by** {rules}."] if rules else lines


def kips() -> str:
    """Return the page of KIPs: the releases, APIs, errors and rules of each."""
    lines = [
        "# KIPs",
        "",
        "What each Kafka Improvement Proposal brought to the protocol. The same, without a browser: `kshark explain "
        "KIP-932`.",
    ]
    registry = Registry()
    for number in sorted(KIPS):
        lines += _kip(kip_object(number, registry))
    return "\n".join([*lines, ""])


def _kip(kip: dict[str, Any]) -> list[str]:
    """Return the section of a KIP."""
    lines = ["", f"## {kip['kip']}", "", f"{_prose(kip['title'])}.", ""]
    releases = [f"Kafka {one['release']}" + (f" ({one['stage']})" if one["stage"] else "") for one in kip["releases"]]
    apis = [f"{api['api']} {api['versions'] or ''}".rstrip() for api in kip["apis"]]
    errors = [f"[{one['error']}](errors.md#{one['error_code']}-{one['error'].lower()})" for one in kip["errors"]]
    rules = [f"[{code}](rules/{code}.md)" for code in kip["rules"]]
    facts = {
        "Releases": releases,
        "APIs and versions": apis,
        "Errors": errors,
        "Rules": rules,
        "Changed by": kip["changed_by"],
    }
    return [*lines, *(f"- **{name}:** {', '.join(found)}" for name, found in facts.items() if found)]


@cache
def shown_by() -> dict[str, list[str]]:
    """Return at most two bundled captures by the code of a rule with a finding there (the page beside its tests)."""
    rows = [[cell.strip() for cell in row.split("|")] for row in CATALOGUE_PAGE.read_text().splitlines()]
    head = next(index for index, row in enumerate(rows) if "captures" in row)
    code, captures = rows[head].index("code"), rows[head].index("captures")
    named = {row[code]: re.sub(r" and \d+ more$", "", row[captures]) for row in rows[head + 2 :] if len(row) > captures}
    return {rule: [_file_of(name) for name in names.split(", ")] for rule, names in named.items() if names}


def _file_of(name: str) -> str:
    """Return the path of a bundled capture."""
    return next(f"captures/{path.name}" for path in (ROOT / "captures").glob(f"{name}.pcap*"))


def rule_page(rule: Rule) -> str:
    """Return the page of a rule: what it demands, causes, requests that break and keep it, evidence, tickets."""
    number = f"Rule {rule.number} · " if rule.number is not None else ""
    facts: dict[str, str] = {}
    for name, text in facts_of(rule):
        facts[name] = f"{facts[name]} {text}" if name in facts else text
    lines = [f"# {rule.code}", "", _prose(rule.text), ""]
    lines += [f"*{number}{_GROUPS.get(group_of(rule), _BYTES)}*"]
    for name in ("must be", "advice", "test it by"):
        if name in facts:
            lines += ["", f"**{_TITLES[name]}.** {_prose(facts.pop(name))}"]
    if rule.causes:
        lines += ["", "## Causes", "", "| cause | meaning |", "|---|---|"]
        lines += [f"| `{cause}` | {_prose(CAUSES.get(cause, ''))} |" for cause in rule.causes]
    if rule.wrong:
        titles = ("Breaks the rule", "Keeps the rule") if rule.accuses else ("Is noted", "Is not noted")
        for title, exchanges in zip(titles, (rule.wrong, rule.right), strict=True):
            if exchanges:
                lines += ["", f"## {title}", "", "```text", *exchanges.split("; "), "```"]
        lines += ["", f"{legend(rule)}."]
    lines += ["", "## How it is judged", "", "| | |", "|---|---|"]
    lines += [f"| {_TITLES[name]} | {_linked(text)} |" for name, text in facts.items()]
    lines += ["", "## Find it", "", "```sh", f"kshark check trace.pcap --select {rule.code} -V"]
    lines += [
        f"kshark check {path} --select {rule.code} -V     # real traffic" for path in shown_by().get(rule.code, [])
    ]
    lines.append("```")
    return "\n".join([*lines, ""])


def _linked(text: str) -> str:
    """Return text with links for its tickets and KIPs."""
    text = _prose(text)
    for pattern, link in _TICKETS:
        text = re.sub(pattern, link, text)
    return re.sub(
        r"\bKIP-(\d+)\b",
        lambda kip: f"[{kip[0]}](../kips.md#kip-{kip[1]})" if int(kip[1]) in KIPS else kip[0],
        text,
    )


def _prose(text: str) -> str:
    """Return text in which no character means Markdown or HTML."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", text)
