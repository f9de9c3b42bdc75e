"""The README is short, and names the two commands to begin with; tests/test_pages.py runs what it shows."""

from __future__ import annotations

import re

from tests.shared import ROOT

TEXT = (ROOT / "README.md").read_text()


def test_the_two_commands_are_there() -> None:
    targets = re.findall(r"^\$ make (\S+)$", TEXT, re.M)
    makefile = (ROOT / "Makefile").read_text()
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in makefile for target in targets)


def test_one_reads_it_in_three_minutes() -> None:
    assert TEXT.count("\n") <= 150
    assert "\n$ kshark check captures/" in TEXT


def test_its_links_work_on_an_index_of_packages() -> None:
    assert [target for target in re.findall(r"\]\(([^)]+)\)", TEXT) if not target.startswith("https://")] == []


def test_the_job_that_is_printed_is_the_file() -> None:
    job = (ROOT / "spark_analysis" / "jobs" / "epochs.py").read_text()
    assert job in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "spark.md").read_text(), re.S)
