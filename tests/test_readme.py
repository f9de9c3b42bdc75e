"""The README tells the truth: its commands on bundled captures print what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import CAPTURES, ROOT

TEXT = (ROOT / "README.md").read_text()
#: A console block with one command on a bundled file, and what it printed.
SHOWN = re.findall(r"```console\n\$ (kshark [^\n]*)\n(.+?)```", TEXT, re.S)


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_the_readme_shows(command: str, output: str, tmp_path: Path) -> None:
    if output.startswith("$"):
        pytest.skip("a list of commands without output")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    (tmp_path / "captures").symlink_to(CAPTURES)  # what a command writes is no part of the checkout
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60, check=False)
    printed = done.stdout.rstrip("\n").split("\n")
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
