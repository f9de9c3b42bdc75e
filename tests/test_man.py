"""The man pages: they have every command and option, and man shows them."""

from __future__ import annotations

import shutil
import subprocess
import tomllib

import pytest

from tests.patience import PATIENCE_S
from tests.shared import ROOT
from tools.man import Program, file_of, page, programs

each_program = pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)


@each_program
def test_the_page_is_that_of_the_commands(program: Program) -> None:
    assert file_of(program).read_text() == page(program), "the commands have changed: make man"


@each_program
def test_it_has_every_option_and_example(program: Program) -> None:
    text = file_of(program).read_text().replace("\\-", "-")
    for command in program.commands:
        assert f".SS {program.name} {command.name} " in text
        assert all(f"\\fB{name}\\fR" in text for option in command.options for name in option.names)
        assert command.examples
        assert all(example.replace("\\", "\\e") in text for example in command.examples)


@each_program
@pytest.mark.skipif(shutil.which("groff") is None, reason="it needs groff")
def test_man_shows_it_without_a_warning(program: Program) -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", str(file_of(program))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stderr == ""
    assert program.short in " ".join(done.stdout.split())
    assert f"{program.name} check " in done.stdout


def test_the_wheel_has_every_page() -> None:
    files = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]["share/man/man1"]
    assert files == [str(file_of(program).relative_to(ROOT)) for program in programs()]
