"""Following kshark/cli/README.md literally ends with a working command."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import kshark
from tests.following import blocks, insert, project, python, run_tests
from tests.shared import CAPTURES


@pytest.mark.sweep
@pytest.mark.slow
def test_adding_a_command_as_the_page_says(tmp_path: Path) -> None:
    command, row = blocks("kshark/cli/README.md")
    copy = project(tmp_path)
    (copy / "kshark/cli/clients.py").write_text(command)
    insert(copy / "kshark/cli/__init__.py", r"(^COMMANDS: Final = \{\n.*?)(^\}\n)", row)

    capture = CAPTURES / "share-loss.pcap"
    printed = python(copy, "-m", "kshark", "clients", str(capture), "-T", "json")
    sent = Counter(message.client_id for message in kshark.read(str(capture)) if message.kind == "request")
    assert {row["client_id"]: row["requests"] for row in map(json.loads, printed.splitlines())} == sent
    assert "  clients " in python(copy, "-m", "kshark", "--help")
    run_tests(
        copy,
        "tests/cli/test_main.py::test_every_command_has_help_with_examples[clients]",
        "tests/test_house.py::test_imports_go_one_way",
    )
