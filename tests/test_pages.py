"""The README and the pages in docs/ are true: their kshark commands run and print what the page shows."""

from __future__ import annotations

import argparse
import doctest
import json
import re
import shlex
import shutil
import subprocess
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from kshark.analysis import OF_CLIENTS
from kshark.cli import COMMANDS
from kshark.cli.parser import Parser
from kshark.output.catalogue import CODES
from kshark_spark import cli as spark
from tests.pages import ELLIPSIS, STANDINS, Folder, Shown, documents, fits, pictures, shown
from tests.patience import PATIENCE_S
from tests.shared import ROOT

PAGES = documents()
#: Blocks of commands that a test cannot run: options are checked.
_SHELL_BLOCK = re.compile(r"^```(?:sh|console|yaml|dockerfile)\n(.*?)^```$", re.M | re.S)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if [*shown(page.read_text())]], ids=name_of)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    """To write today's output into the page: python -m tests.pages PAGE."""
    folder = Folder(tmp_path)
    wrong = [
        difference
        for command in shown(page.read_text())
        if command.is_run and (difference := difference_of(folder, command))
    ]
    assert wrong == []
    for name in pictures(page.read_text()):
        assert (tmp_path / name).read_bytes() == (page.parent / name).read_bytes(), name


def difference_of(folder: Folder, command: Shown) -> str:
    """Return what is wrong with a command; an empty string if it prints what the page shows."""
    output = folder.run(command)
    if output is None:  # a program that is not installed here
        return ""
    where = f"line {command.line}: {command.command}"
    if folder.code not in (0, 1, 3):
        return f"{where}: exit code {folder.code}: {folder.notes}"
    if command.output and not fits(output, command.output):
        return f"{where}: prints\n" + "\n".join(output)
    return ""


def test_there_are_commands_to_run() -> None:
    assert sum(len([*shown(page.read_text())]) for page in PAGES) > 70


@cache
def options_of(command: str) -> frozenset[str]:
    """Return the options of a command of kshark, or of all of kshark-spark."""
    if command == "kshark-spark":
        return frozenset().union(*(_options(spark.parser_of(name)) for name in spark.COMMANDS))
    parser = Parser(command, COMMANDS[command], ())
    import_module(f"kshark.cli.{command}").arguments(parser)
    return _options(parser)


def _options(parser: argparse.ArgumentParser) -> frozenset[str]:
    return frozenset(option for action in parser._actions for option in action.option_strings)


def typed(page: Path) -> list[list[str]]:
    """Return the words of every kshark command in the blocks and tables of a page, without arguments in quotes."""
    text = page.read_text()
    blocks = [re.sub(r"\\\n", " ", block) for block in _SHELL_BLOCK.findall(text)]
    found = []
    for block in [*blocks, *re.findall(r"`(kshark[^`\n]*)`", text)]:
        for name, rest in re.findall(r"\b(kshark(?:-spark)?) ((?:(?!\. )[^\n|>;)&])*)", block):
            words = re.sub(r"'[^']*'|\"[^\"]*\"|\s#.*", " ''", rest).split()
            command = name if name == "kshark-spark" else words[0] if words else ""
            if command in COMMANDS or name == "kshark-spark":  # else kshark FILE, or a name in a manifest
                found.append([command, *words])
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if typed(page)], ids=name_of)
def test_options_and_codes_in_the_page_exist(page: Path) -> None:
    wrong = []
    for command, *words in typed(page):
        for word, value in zip(words, [*words[1:], ""], strict=True):
            option = word.partition("=")[0]
            if re.match(r"--?[a-zA-Z]", word) and option not in options_of(command):
                wrong.append(f"{command} has no option {option}")
            if option in ("--select", "--ignore", "--details", "--require"):
                wrong += [f"no code {code}" for code in value.split(",") if code not in (*CODES, "CODE", "...", "all")]
    assert wrong == []


def test_an_untrue_page_is_found(tmp_path: Path) -> None:
    page = (
        "```console\n$ kshark explain 0   # no error\nNONE\n\n$ kshark chek trace.pcap\n```\n"
        "```console\n$ kshark explain 123 \\\n    -T json\n...\n```\n"
    )
    first, second, third = shown(page)
    assert (first.line, second.line, third.line) == (2, 5, 8)
    assert third.words == shlex.split("kshark explain 123 -T json")
    folder = Folder(tmp_path)
    assert "line 2: kshark explain 0   # no error: prints" in difference_of(folder, first)
    assert "exit code 2" in difference_of(folder, second)
    assert difference_of(folder, third) == ""


def test_lines_left_out() -> None:
    assert fits(["a", "b", "c"], ("a", ELLIPSIS))
    assert fits(["a", "b", "c"], ("a", ELLIPSIS, "c"))
    assert not fits(["a", "b", "c"], ("a", ELLIPSIS, "b"))
    assert not fits(["a"], ("a", ELLIPSIS, "a"))
    with pytest.raises(ValueError, match="one place"):
        fits([], (ELLIPSIS, ELLIPSIS))


def test_queries_of_the_page_about_tables_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb", reason="it needs DuckDB (pip install duckdb)")
    folder = Folder(tmp_path)
    folder.run(Shown(0, "kshark export captures/share-restart.pcap -o tables -q", ()))
    views = folder.run(Shown(0, "kshark explain tables --sql", ())) or []
    queries = re.findall(r"^```sql\n(.*?)^```$", (ROOT / "docs" / "tables.md").read_text(), re.M | re.S)
    assert len(queries) >= 4
    monkeypatch.chdir(tmp_path / "tables")
    database = duckdb.connect()
    database.execute("\n".join(views))
    assert [query for query in queries if not database.execute(query).fetchall()] == []


@pytest.mark.parametrize("name", ["share-restart", "adv-races-4.1.2", "small-zstd"])
def test_the_query_of_the_page_has_the_percentiles_of_stats(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="it needs DuckDB (pip install duckdb)")
    folder = Folder(tmp_path)
    folder.run(Shown(0, f"kshark export captures/{name}.pcap -o tables -q", ()))
    views = folder.run(Shown(0, "kshark explain tables --sql", ())) or []
    (stats,) = folder.run(Shown(0, f"kshark stats captures/{name}.pcap -T json", ())) or []
    queries = re.findall(r"^```sql\n(.*?)^```$", (ROOT / "docs" / "tables.md").read_text(), re.M | re.S)
    (query,) = (query for query in queries if "work_ns" in query)
    monkeypatch.chdir(tmp_path / "tables")
    database = duckdb.connect()
    database.execute("\n".join(views))
    found = {(api, version): (times, ms) for api, version, times, ms in database.execute(query).fetchall()}
    work = {(it["api"], it["version"]): it["work_ms"] for it in json.loads(stats)["apis"] if it["work_ms"]}
    assert len(work) > 10
    # stats keeps three significant digits, and the greatest duration as it is
    shown = {key: min(float(f"{ms:.3g}"), work[key]["max"]) for key, (_, ms) in found.items()}
    assert shown == pytest.approx({key: row["p99"] for key, row in work.items()}, rel=1e-9)


@pytest.mark.parametrize("page", [page for page in PAGES if "\n```pycon\n" in page.read_text()], ids=name_of)
def test_python_prints_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    session = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", page.read_text(), re.M | re.S))
    example = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    printed: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    assert "".join(printed) == ""


def test_capture_filters_in_the_pages_compile() -> None:
    """Those of tcpdump, dumpcap and `kshark live -f`, and those named in tables."""
    if shutil.which("tcpdump") is None:
        pytest.skip("it needs tcpdump")
    texts = [page.read_text() for page in PAGES]
    filters = {found for text in texts for found in re.findall(r"'((?:tcp|udp) port [^'\n]*)'", text)}
    filters |= {found for text in texts for found in re.findall(r"`((?:(?:tcp|udp) port|proto) [^`\n]*)`", text)}
    assert len(filters) >= 5
    for each in sorted(filters):
        command = ["tcpdump", "-d", "-y", "EN10MB", each]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, f"{each}: {done.stderr}"


def within(page: Path) -> list[str]:
    """Return the commands in sentences and tables of a page that name a capture of the reader's own."""
    return [
        command
        for command in re.findall(r"`(kshark [^`\n]*)`", page.read_text())
        if any(word in STANDINS for word in shlex.split(command)) and "..." not in command
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if within(page)], ids=name_of)
def test_commands_in_sentences_and_tables_run(page: Path, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    wrong = [difference_of(folder, Shown(0, command, ())) for command in within(page)]
    assert [text for text in wrong if text] == []


def test_the_page_about_conformance_counts_the_rules_of_each_kind_of_client() -> None:
    text = (ROOT / "docs" / "conformance.md").read_text()
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text.partition("## What a client can test")[2], re.M))
    codes = {kind: {*re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", row)} for kind, row in rows.items()}
    assert all(each <= OF_CLIENTS for each in codes.values())
    own = {kind: codes[f"consumer, {kind}"] | codes["each"] for kind in ("KIP-848", "classic")}
    producer = codes["producer"] | codes["each"]
    joined = {"EPOCH_NOT_ADOPTED", "HEARTBEAT_AFTER_LEAVE", "HEARTBEAT_LATE", "GROUP_TYPE_CONFLICT"}
    others = (own["KIP-848"] | own["classic"] | producer | codes["administrator"]) - codes["each"]
    share = OF_CLIENTS - (others - joined - {"NO_REJOIN_AFTER_FENCE"})
    assert text.startswith(
        f"""# Conformance

For authors of clients and brokers: which rules did my traffic test, which did it keep, which did it never touch? \
{len(OF_CLIENTS)} rules are about clients, most of them
about share consumers: a share consumer can test {len(share)}, a KIP-848 consumer {len(own["KIP-848"])}, \
a classic consumer {len(own["classic"])}, a producer {len(producer)}."""
    )


def test_every_page_is_in_the_menu_of_the_site() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    names = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert [name for name in names if f": {name}\n" not in menu] == []
