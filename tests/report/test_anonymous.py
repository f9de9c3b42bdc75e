"""`kshark report --anonymize`: nothing that is written has a name of the capture, and the report says the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Run, runner
from tests.cli.incident import written
from tests.shared import CAPTURES

pq = pytest.importorskip("pyarrow.parquet")
#: Keys of report.json whose values are names.
NAMES = frozenset({"client_id", "group_id", "member_id", "topic_id", "topic", "capture", "file"})
CASES = ["adv-epochs.pcap", "share-java-explicit.pcap", "share-restart.pcap", "adv-sessions-4.2.1.pcap"]


@pytest.fixture
def kshark(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def names_in(value: Any, key: str = "") -> set[str]:
    """The names in a report that cannot be taken for words: of three characters or more, or with a digit."""
    if isinstance(value, dict):
        return {name for part_key, part in value.items() for name in names_in(part, part_key)}
    if isinstance(value, list):
        return {name for part in value for name in names_in(part, key)}
    is_name = isinstance(value, str) and key in NAMES and re.fullmatch(r".{3,}|.\d|\d.", value)
    is_own = is_name and (value.startswith("__") or "A" * 20 in value or value == "other")  # also a word of the report
    return {value} if is_name and not is_own else set()


def outputs(folder: Path) -> dict[str, str]:
    page = (folder / "report.html").read_text()
    rows = json.dumps(pq.read_table(folder / "findings.parquet").to_pylist(), default=str)
    return {
        "json": (folder / "report.json").read_text(),
        "html": re.sub(r"<(style|script)\b.*?</\1>|(id|href)=\"[^\"]*\"", "", page, flags=re.DOTALL),
        "parquet": rows,
    }


@pytest.mark.parametrize("name", CASES)
def test_no_name_of_the_capture_stays_and_the_findings_are_the_same(kshark: Run, tmp_path: Path, name: str) -> None:
    kshark("report", CAPTURES / name, "-q", "-o", tmp_path / "named")
    kshark("report", CAPTURES / name, "-q", "-o", tmp_path / "anonymous", "--anonymize")
    named = json.loads((tmp_path / "named/report.json").read_text())
    anonymous = json.loads((tmp_path / "anonymous/report.json").read_text())
    names = names_in(named)
    assert names
    for kind, text in outputs(tmp_path / "anonymous").items():
        left = [it for it in names if re.search(rf"(?<![\w-]){re.escape(it)}(?![\w-])", text)]
        assert (kind, left) == (kind, [])
    assert anonymous["totals"] == named["totals"]
    assert [(it["code"], it["count"], it["cause"]) for it in anonymous["findings"]] == [
        (it["code"], it["count"], it["cause"]) for it in named["findings"]
    ]


def test_a_key_gives_the_same_pseudonyms_again(kshark: Run, tmp_path: Path) -> None:
    reports = []
    for folder, key in (("a", "k"), ("b", "k"), ("c", "other")):
        kshark("report", written(tmp_path), "-q", "-o", tmp_path / folder, "--anonymize-key", key)
        reports.append((tmp_path / folder / "report.json").read_text())
    assert reports[0] == reports[1]
    assert reports[0] != reports[2]


def test_addresses_become_others(kshark: Run, tmp_path: Path) -> None:
    kshark("report", written(tmp_path), "-q", "-o", tmp_path / "r", "--anonymize")
    named = outputs(tmp_path / "r")
    assert not any(re.search(r"(?<![\d.])10\.0\.0\.[19](?![\d.])", text) for text in named.values())


@pytest.mark.parametrize("member", [(), ("--member", "sa")])
def test_a_picture_has_pseudonyms_too(kshark: Run, tmp_path: Path, member: tuple[str, ...]) -> None:
    file, capture = tmp_path / "p.svg", CAPTURES / "share-java-explicit.pcap"
    kshark("report", capture, "--group", "sg-orders", *member, "--picture", file, "--anonymize")
    picture = file.read_text()
    assert "group-" in picture
    assert "sg-orders" not in picture
