"""A rule without a trigger is asked at every step of its situation, on every engine."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kshark.analysis import RULES, Analyzer, Rule
from kshark.analysis.rules import RuleBook
from kshark.capture import open_captures
from kshark.model import Event
from kshark.pipeline import JUDGED, Engine
from tests.analysis.copied import KSHARK, SPARK, copied, run
from tests.analysis.copied import RULES as TOPICS
from tests.analysis.rules import others as others_module
from tests.analysis.rules import probes as probes_module
from tests.analysis.rules.probes import CAPTURES, PROBES
from tests.analysis.talks import led_elsewhere
from tests.conversation import Conversation
from tests.packets import pcap
from tests.shared import CAPTURES as FOLDER


def redirected() -> bytes:
    """A broker that names another leader in every answer, as a capture; no bundled capture has that twice in a row."""
    talk = Conversation()
    a = talk.member("a")
    for epoch in range(3):
        a.share_fetch(epoch, [0] if epoch == 0 else []).answered(**led_elsewhere())
        talk.pause(6)
    return pcap(talk.wire.packets)


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = tmp_path_factory.mktemp("captures") / "redirected.pcap"
    made.write_bytes(redirected())
    return [*(FOLDER / f"{name}.pcap" for name in CAPTURES), made]


@cache
def pages(capture: Path) -> tuple[list[Event], ...]:
    return (*Engine(JUDGED).pages(open_captures([capture])),)


def findings(probe: Rule, capture: Path, *, coverage: bool = False, exact: bool = False) -> list[tuple[int, int]]:
    """Where the probe reports a step of a capture."""
    analyzer = Analyzer(book=RuleBook((*RULES, probe)), coverage=coverage, exact=exact)
    found = [finding for page in pages(capture) for finding in analyzer.page(page)] + analyzer.close()
    return sorted((one.flow, one.packet) for one in found if one.code == probe.code)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.code)
def test_a_rule_without_a_trigger_sees_every_step(probe: Rule, captures: list[Path]) -> None:
    seen = 0
    for capture in captures:
        plain = findings(probe, capture)
        assert plain == findings(probe, capture, exact=True), capture
        assert plain == findings(probe, capture, coverage=True), capture
        seen += len(plain)
    assert seen > 0


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.code)
def test_spark_leaves_nobody_out_for_such_a_rule(probe: Rule) -> None:
    book = RuleBook((*RULES, probe))
    machine = probe.machine
    assert machine is not None
    assert book.concerns_plain(machine)
    assert not any(map(RuleBook(RULES).concerns_plain, book.machines))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("probes", "exported"),
    [(PROBES, False), (PROBES[:-1], True)],
    ids=["from captures", "from tables with a screen"],
)
def test_every_engine_reports_the_same_steps(
    probes: tuple[Rule, ...], exported: bool, captures: list[Path], tmp_path: Path
) -> None:
    """`check`, `check --coverage` and `kshark-spark check`, in a copy of the product with these rules."""
    folder = copied(tmp_path / "product")
    shutil.copy(probes_module.__file__, folder / TOPICS / "probes.py")
    with (folder / TOPICS / "probes.py").open("a") as file:
        file.write(f"\n\nROWS = PROBES[:{len(probes)}]\n")
    check = ("check", "--each", "-T", "json", "--select", ",".join(probe.code for probe in probes))
    paths = [str(path) for path in captures]
    here = rows(run(folder, *KSHARK, *check, *paths))
    assert {row.get("code") for row in here} == {None, *(probe.code for probe in probes)}
    assert rows(run(folder, *KSHARK, *check, "--coverage", *paths)) == here
    if exported:
        run(folder, *KSHARK, "export", "-q", "--each", "-o", "tables", *paths)
        paths = ["tables"]
    assert rows(run(folder, *SPARK, *check, *paths)) == here


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("added", "codes"),
    [("OF_GROUPS", {"STATE_BY_ANOTHER"}), ("(*OF_GROUPS, *OF_CONNECTIONS)", {"STATE_BY_ANOTHER", "ANSWERED"})],
    ids=["groups", "connections"],
)
def test_rules_of_other_machines_are_found_in_tables(added: str, codes: set[str], tmp_path: Path) -> None:
    """All that they read lies in one bucket, whatever the keys of all machines have in common."""
    folder = copied(tmp_path / "product")
    shutil.copy(others_module.__file__, folder / TOPICS / "others.py")
    with (folder / TOPICS / "others.py").open("a") as file:
        file.write(f"\n\nROWS = {added}  # type: ignore\n")
    check = ("check", "--each", "-T", "json")
    paths = [str(FOLDER / f"{name}.pcap") for name in ("share-restart", "adv-acks", "adv-members")]
    here = rows(run(folder, *KSHARK, *check, *paths))
    assert {row.get("code") for row in here} >= codes
    run(folder, *KSHARK, "export", "-q", "--each", "-o", "tables", *paths)
    assert rows(run(folder, *SPARK, *check, "tables")) == here


def rows(lines: str) -> list[dict[str, Any]]:
    """What is printed, without coverage and without the captures' folder."""
    found: list[dict[str, Any]] = [json.loads(line) for line in lines.splitlines()]
    for row in found:
        row.get("summary", {}).pop("coverage", None)
        for named in (row, row.get("summary", {})):
            if "file" in named:
                named["file"] = Path(named["file"]).name
    return found
