"""The man page: it has every command and option, and man shows it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from kshark.cli.described import commands
from tests.patience import PATIENCE_S
from tools.man import PAGE, page


def test_the_page_is_that_of_the_commands() -> None:
    assert PAGE.read_text() == page(), "the commands have changed: make man"


def test_it_has_every_option_and_example() -> None:
    text = PAGE.read_text().replace("\\-", "-")
    for command in commands():
        assert f".SS kshark {command.name} " in text
        assert all(f"\\fB{name}\\fR" in text for option in command.options for name in option.names)
        assert all(example.replace("\\", "\\e") in text for example in command.examples)


@pytest.mark.skipif(shutil.which("groff") is None, reason="it needs groff")
def test_man_shows_it_without_a_warning() -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stderr == ""
    assert "analyze Kafka traffic" in done.stdout
    assert "kshark check trace.pcap --select EPOCH_SKIP_AHEAD,SESSION_UNKNOWN" in done.stdout
