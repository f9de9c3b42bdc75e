"""`make docs` builds docs/ as a site without a warning, which loads nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kshark.anomaly import CATALOGUE
from kshark.output.catalogue import CODES, EVERY_RULE
from kshark_dissectors.enums import ErrorCode
from kshark_dissectors.kips import KIPS
from tests.patience import PATIENCE_S
from tests.shared import ROOT
from tools import documentation

NEEDS_MKDOCS = "it needs mkdocs (make docs installs it: pip install 'kshark[docs]')"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("material") is None:
        pytest.skip(NEEDS_MKDOCS)
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not re.findall(r"^(?:WARNING|ERROR).*", done.stderr, re.M)
    return folder


def test_the_site_has_a_page_for_each_rule(built: Path) -> None:
    assert {page.stem for page in (built / "rules").glob("*.html")} == {
        "index",
        "bytes",
        *(rule.code for rule in EVERY_RULE),
    }


def test_the_site_loads_nothing_from_elsewhere(built: Path) -> None:
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(https?:[^\"' >]+)")
    assert {page.name: loaded.findall(page.read_text()) for page in built.rglob("*.html")} == {
        page.name: [] for page in built.rglob("*.html")
    }


def test_relative_links_of_the_site_lead_to_its_files(built: Path) -> None:
    dead = [
        (page.name, target)
        for page in built.rglob("*.html")
        if page.name != "404.html"  # its links begin at the root of a server
        for target in re.findall(r"<a\b[^>]*\bhref=\"([^\"#]+)", page.read_text())
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists()
    ]
    assert dead == []


# -- what the hook makes, without mkdocs


def test_a_rule_s_page_says_what_explain_says() -> None:
    pages = dict(documentation.pages())
    page = pages["rules/SESSION_KILLED_BY_OLD_CONNECTION.md"]
    assert "**Must be.** A session ends with the connection that opened it, and not with an older one." in page
    assert "| `old_connection_closed` | an older connection of the member closed" in page
    assert "## Breaks the rule\n\n```text\nKafka 4.1\nShareFetch epoch 0 → 0\n" in page
    assert "[KAFKA-19950](https://issues.apache.org/jira/browse/KAFKA-19950)" in page
    for rule in EVERY_RULE:
        assert f"[{rule.code}]({rule.code}.md)" in pages["rules/index.md"]


def test_a_rule_s_page_leads_to_real_traffic() -> None:
    named = {path for paths in documentation.shown_by().values() for path in paths}
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert (
        "\nkshark check captures/adv-epochs.pcap --select TWO_COUNTERS -V "
        in dict(documentation.pages())["rules/TWO_COUNTERS.md"]
    )


def test_a_ticket_elsewhere_is_a_link_too() -> None:
    tickets = {ticket for rule in EVERY_RULE for ticket in rule.tickets}
    pages = "".join(text for _, text in documentation.pages())
    assert [ticket for ticket in tickets if f"[{ticket}](https://" not in pages] == []


@pytest.mark.parametrize(
    ("page", "link", "led"),
    [
        ("tour.md", "capturing.md#in-kubernetes", "capturing.md#in-kubernetes"),
        ("spark/README.md", "../tables.md", "../tables.md"),
        ("live.md", "../captures/README.md", f"{documentation.REPOSITORY}captures/README.md"),
        ("live.md", "../CHANGELOG.md", "changes.md"),
        ("spark/README.md", "../../tests/analysis/rules/CATALOGUE.md", "../rules/index.md"),
        ("changes.md", "docs/request-log.md", "request-log.md"),
        (
            "changes.md",
            "kshark/link/README.md#what-is-read",
            f"{documentation.REPOSITORY}kshark/link/README.md#what-is-read",
        ),
        ("live.md", "https://kafka.apache.org", "https://kafka.apache.org"),
        ("live.md", "#here", "#here"),
    ],
)
def test_links_of_pages(page: str, link: str, led: str) -> None:
    assert (
        documentation.with_links(f"see [it]({link}), not `[it]({link})`", page)
        == f"see [it]({led}), not `[it]({link})`"
    )


def test_codes_of_rules_lead_to_their_pages() -> None:
    linked = "[`POISON_RECORD`](rules/POISON_RECORD.md)"
    text = "see `POISON_RECORD` and `NO_RULE`"
    assert documentation.with_rules(text, "tour.md") == f"see {linked} and `NO_RULE`"
    assert (
        documentation.with_rules("`POISON_RECORD`", "spark/README.md") == "[`POISON_RECORD`](../rules/POISON_RECORD.md)"
    )
    for kept in ("```sh\nkshark explain `POISON_RECORD`\n```", "[`POISON_RECORD`](x.md)", linked):
        assert documentation.with_rules(kept, "tour.md") == kept


def test_long_sentences_of_output_are_wrapped_and_tables_are_not() -> None:
    sentence, row = "a sentence " * 20, "a  table " * 20
    assert (
        documentation.wrapped(f"```console\n$ x\n{sentence}\n```")
        == f"``` {{ .console .wrapped }}\n$ x\n{sentence}\n```"
    )
    assert documentation.wrapped(f"```console\n$ x\n{row}\n```") == f"```console\n$ x\n{row}\n```"


def test_all_oddities_of_bytes_are_listed() -> None:
    page = dict(documentation.pages())["rules/bytes.md"]
    assert [code for code in CATALOGUE if f"| `{code}` |" not in page] == []


def test_every_error_of_kafka_has_a_section() -> None:
    page = dict(documentation.pages())["errors.md"]
    headings = re.findall(r"^## (-?\d+) (\w+)$", page, re.M)
    assert headings == [(str(int(error)), error.name) for error in ErrorCode if error]
    _, _, section = page.partition("## 123 INVALID_SHARE_SESSION_EPOCH")
    assert "[EPOCH_REPLAY](rules/EPOCH_REPLAY.md)" in section.partition("\n## ")[0]


def test_every_kip_has_a_section_to_which_rules_lead() -> None:
    pages = dict(documentation.pages())
    assert re.findall(r"^## KIP-(\d+)$", pages["kips.md"], re.M) == [str(number) for number in sorted(KIPS)]
    section = pages["kips.md"].partition("## KIP-1222\n")[2].partition("\n## ")[0]
    assert "- **APIs and versions:** ShareFetch 2, ShareAcknowledge 2" in section
    assert "[RENEW_REFUSED](rules/RENEW_REFUSED.md)" in section
    assert "| Source | [KIP-1222](../kips.md#kip-1222)" in pages["rules/RENEW_WITHOUT_FLAG.md"]


def test_codes_that_pages_name_exist() -> None:
    """Words like POISON_RECORD; errors, APIs and settings of others have other forms or are listed by Kafka."""
    known = {*CODES, *(error.name for error in ErrorCode)}
    for name in ("tour.md", "on-call.md", "verdicts.md", "conformance.md", "ci.md"):
        prose = re.sub(r"```.*?```", "", (ROOT / "docs" / name).read_text(), flags=re.S)
        named = {*re.findall(r"\b[A-Z]{3,}(?:_[A-Z0-9]+)+\b", prose)}
        assert named - known == set(), name
