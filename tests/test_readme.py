"""The README tells the truth: its commands on bundled captures print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import runner
from tests.shared import CAPTURES, ROOT

TEXT = (ROOT / "README.md").read_text()
#: A console block with one command on a bundled file, and what it printed; not a list of commands.
SHOWN = re.findall(r"```console\n\$ (kshark [^\n]*)\n((?!\$).+?)```", TEXT, re.S)


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_the_readme_shows(
    command: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "captures").symlink_to(CAPTURES)  # what a command writes is no part of the checkout
    monkeypatch.chdir(tmp_path)
    done = runner(capsys)(*shlex.split(command)[1:])
    printed = done.out.rstrip("\n").split("\n")
    parts = [part.strip("\n").split("\n") for part in output.removesuffix("...\n").split("\n...\n")]
    assert printed[: len(parts[0])] == parts[0]
    if len(parts) > 1:
        assert printed[-len(parts[1]) :] == parts[1]
    elif not output.endswith("\n...\n"):
        assert printed == parts[0]


def test_the_readme_shows_some_output() -> None:
    assert len(SHOWN) >= 4


def test_the_two_commands_are_there() -> None:
    targets = re.findall(r"^\$ make (\S+)$", TEXT, re.M)
    makefile = (ROOT / "Makefile").read_text()
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in makefile for target in targets)


def test_the_job_that_is_printed_is_the_file() -> None:
    job = (ROOT / "spark_analysis" / "jobs" / "epochs.py").read_text()
    (first,) = re.findall(r"```python\n(.*?)```", TEXT.partition("## Parquet and Spark")[2].partition("\n## ")[0], re.S)
    assert first == job
