"""Incidents, what they explain, and headlines: Spark says what one process says, from captures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kshark.cli
from kshark.incidents import ROWS
from tests.incidents.trouble import filed, trouble
from tests.shared import CAPTURES
from tests.spark.test_captures import OPTIONS
from tests.spark.test_check import both, said

#: Real captures with incidents: throttled clients, a deleted topic.
REAL = ("adv-races-4.1.2", "adv-sessions-4.2.1")


def captures(folder: Path) -> list[str]:
    return [*(str(CAPTURES / f"{name}.pcap") for name in REAL), filed(trouble(), folder / "trouble.pcap")]


def test_these_captures_have_incidents_that_explain_findings(tmp_path: Path) -> None:
    from kshark_spark.captures import whole

    numbers = {row.number for row in ROWS}
    found = [whole([capture], OPTIONS).findings for capture in captures(tmp_path)]
    assert all(any(finding.rule in numbers for finding in own) for own in found)
    codes = {finding.code for finding in found[-1]}
    assert codes >= {"TOPIC_DELETED_IN_USE", "THROTTLED", "SESSION_TABLE_FULL", "REQUEST_OVERDUE"}
    explained = {finding.event_code for own in found for finding in own if isinstance(finding.event_code, str)}
    assert explained >= {"SESSION_TABLE_FULL", "TOPIC_DELETED_IN_USE"}


@pytest.mark.slow
@pytest.mark.spark
def test_the_command_prints_the_same(spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With headlines: of captures together, and of the tables of each."""
    own = captures(tmp_path)
    both(capsys, [*own, "--each"])
    for number, capture in enumerate(own):
        tables = str(tmp_path / f"tables-{number}")
        assert said(capsys, kshark.cli.main, "export", capture, "-o", tables)[0] == 0
        words = ["-q", "-T", "json"] if number else ["-T", "json"]  # with -q the screen leaves members out
        both(capsys, [capture, *words], [tables, *words])
