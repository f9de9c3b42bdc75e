"""The Tab key in bash and zsh."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kshark_spark.cli
from kshark.cli import COMMANDS, main
from kshark.cli.described import VALUES, commands
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script for each shell, and a capture."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh"):
        for name, run in (("_kshark", main), ("_kshark_spark", kshark_spark.cli.main)):
            with pytest.MonkeyPatch.context() as patched, (folder / f"{name}.{shell}").open("w") as file:
                patched.setattr("sys.stdout", file)
                assert run(["completion", shell]) == 0
    (folder / "trace one.pcap").touch()
    (folder / "tables").mkdir()
    return folder


def in_bash(scripts: Path, *words: str, program: str = "kshark") -> list[str]:
    """What bash offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in (program, *words))
    line = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words)}"
    name = "_" + program.replace("-", "_")
    code = f"source {name}.bash; {line}; {name}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "-c", code], cwd=scripts, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["che"], ["check"]),
        (["tra"], ["trace one.pcap"]),
        (["check", "--sel"], ["--select"]),
        (["check", "--select", "EPOCH_REP"], ["EPOCH_REPLAY"]),
        (["check", "--select", "=", "EPOCH_REP"], ["EPOCH_REPLAY"]),
        (["check", "--select", "TWO_COUNTERS,EPOCH_REP"], ["TWO_COUNTERS,EPOCH_REPLAY"]),
        (["check", "-T", ""], ["text", "json", "junit", "sarif", "github"]),
        (["check", "--fail-on", "unknown,noth"], ["unknown,nothing-checked"]),
        (["check", "trace one.pcap", "--by", "s"], ["software"]),
        (["check", "tr"], ["trace one.pcap"]),
        (["trace one.pcap", "tr"], ["trace one.pcap"]),
        (["events", "--kind", "lea"], ["leader"]),
        (["stats", "--by", "client,broker,par"], ["client,broker,partition"]),
        (["read", "-e", "kafka.share_session_e"], ["kafka.share_session_epoch"]),
        (["read", "-c", ""], [""]),
        (["export", "-o", "ta"], ["tables"]),
        (["explain", "INVALID_SHARE_SESSION_E"], ["INVALID_SHARE_SESSION_EPOCH"]),
        (["explain", "KIP-122"], ["KIP-1222", "KIP-1226", "KIP-1228"]),
        (["decode", "ShareF"], ["ShareFetch"]),
        (["decode", "ShareFetch", "1", "req"], ["request"]),
        (["completion", ""], ["bash", "zsh"]),
    ],
)
def test_bash_offers(scripts: Path, words: list[str], offered: list[str]) -> None:
    assert in_bash(scripts, *words) == offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ch"], ["check"]),
        (["tra"], [""]),  # without a command it takes no capture
        (["check", "tr"], ["trace one.pcap"]),
        (["check", "trace one.pcap", "ta"], ["tables"]),
        (["check", "--select", "EPOCH_REP"], ["EPOCH_REPLAY"]),
        (["export", "--format", "i"], ["iceberg"]),
    ],
)
def test_bash_offers_for_spark(scripts: Path, words: list[str], offered: list[str]) -> None:
    assert in_bash(scripts, *words, program="kshark-spark") == offered


def test_bash_offers_every_command_and_every_option_of_each(scripts: Path) -> None:
    assert {*COMMANDS} <= {*in_bash(scripts, "")}
    for command in commands():
        assert in_bash(scripts, command.name, "-") == [name for option in command.options for name in option.names]


def test_values_of_options_are_those_that_the_command_takes() -> None:
    """A word that is offered and then refused would be worse than none."""
    words = {kind: [*values()] for kind, values in VALUES.items()}
    for given in (
        ["check", "x", "--select", ",".join(words["codes"])],
        ["check", "x", "--fail-on", ",".join(words["reasons"])],
        ["events", "x", "--kind", ",".join(words["kinds"])],
    ):
        assert main(given) in (2, 3)  # x is no file
    assert main(["explain", *words["names"]]) == 0
    assert main(["explain", *words["apis"]]) == 0


@contextmanager
def shell(folder: Path) -> Iterator[Any]:
    """Interactive zsh on a terminal of its own; yields a function that types and returns what the screen got."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "PS1": "> ", "COLUMNS": "150"})

    def typed(text: str, until: str) -> str:
        os.write(terminal, text.encode())
        got, end = "", time.monotonic() + PATIENCE_S
        while not re.search(until, got) and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                got += os.read(terminal, 65536).decode(errors="replace").replace("\a", "")
        return got

    try:
        yield typed
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="it needs zsh")
def test_zsh_completes(scripts: Path) -> None:
    with shell(scripts) as typed:
        typed("autoload -Uz compinit && compinit -u -D && source ./_kshark.zsh && source ./_kshark_spark.zsh\n", "> ")
        typed("print rea''dy\n", "ready")
        for begun, completed in (
            ("kshark che\t", "check "),
            ("kshark check --sel\t", "--select="),
            ("kshark check --select EPOCH_REP\t", "EPOCH_REPLAY"),
            ("kshark check --select TWO_COUNTERS,EPOCH_REP\t", "EPOCH_REPLAY"),
            ("kshark check -T gi\t", "github"),
            ("kshark check tr\t", r"trace\\ one.pcap"),
            ("kshark events --kind lea\t", "leader"),
            ("kshark decode ShareF\t", "ShareFetch"),
            ("kshark decode ShareFetch 1 req\t", "request"),
            ("kshark explain INVALID_SHARE_SESSION_E\t", "INVALID_SHARE_SESSION_EPOCH"),
            ("kshark-spark rep\t", "report "),
            ("kshark-spark check tr\t", r"trace\\ one.pcap"),
            ("kshark-spark export -o ta\t", "tables"),
        ):
            assert re.search(completed, typed(begun, completed)), begun
            typed("\x15print cle''ared\n", "\ncleared")


@pytest.mark.parametrize("program", [main, kshark_spark.cli.main])
def test_without_a_word_the_script_is_for_the_users_own_shell(
    program: Callable[[list[str]], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for shell in ("bash", "zsh"):
        monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
        assert program(["completion"]) == 0
        own = capsys.readouterr().out
        assert program(["completion", shell]) == 0
        assert own == capsys.readouterr().out


@pytest.mark.parametrize(("shell", "why"), [("/usr/bin/fish", "$SHELL is fish"), (None, "$SHELL is not set")])
def test_another_shell_is_said_to_be_one(
    shell: str | None, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SHELL", raising=False)
    if shell is not None:
        monkeypatch.setenv("SHELL", shell)
    assert main(["completion"]) == 2
    assert capsys.readouterr().err == f"kshark: {why}; name the shell that reads the script: bash or zsh\n"
