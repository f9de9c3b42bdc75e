"""What tests read from files that kshark wrote."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import kshark
from kshark.model import Finding, Message
from tests.patience import PATIENCE_S

#: What makes a message the same in a copy, where packets and connections have other numbers.
Key = tuple[str, str, int, str, Any, int]


def key(message: Message) -> Key:
    return (
        message.client,
        message.broker,
        message.time_ns,
        message.kind,
        message.correlation_id,
        message.size,
    )


def messages(path: Path) -> list[Key]:
    return [key(message) for message in kshark.read(path)]


def result_of(finding: Finding) -> tuple[Any, ...]:
    """What makes a finding the same."""
    return (
        finding.code,
        finding.verdict,
        finding.blame,
        finding.cause,
        finding.group_id,
        finding.member_id,
        finding.client,
        finding.broker,
        finding.time_ns,
    )


def comments(path: Path) -> dict[int, str]:
    """The comments of packets, as tshark reads them."""
    program = shutil.which("tshark")
    if program is None:
        pytest.skip("tshark is not installed")
    done = subprocess.run(
        [program, "-r", str(path), "-Y", "frame.comment", "-T", "fields", "-e", "frame.number", "-e", "frame.comment"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    rows = (line.partition("\t") for line in done.stdout.splitlines())
    return {int(number): text for number, _, text in rows}
