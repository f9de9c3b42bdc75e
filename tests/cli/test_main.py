"""The command itself: help, bad usage in one sentence, a closed pipe, nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kshark.cli import COMMANDS
from tests.cli.command import Run


def test_help_lists_every_command(kshark: Run) -> None:
    for asked in ("--help", "-h", "help"):
        done = kshark(asked)
        assert done.code == 0
        assert all(f"  {name} " in done.out for name in COMMANDS)


def test_without_a_command_the_help_goes_to_stderr(kshark: Run) -> None:
    done = kshark()
    assert (done.code, done.out) == (2, "")
    assert "usage: kshark COMMAND" in done.err


def test_the_version_is_told(kshark: Run) -> None:
    assert kshark("--version").out.startswith("kshark ")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_with_examples(kshark: Run, command: str) -> None:
    done = kshark(command, "--help")
    assert done.code == 0
    assert f"usage: kshark {command}" in done.out
    assert f"  kshark {command} " in done.out.partition("examples:")[2]
    assert max(map(len, done.lines)) <= 120


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["reed"], 'no command "reed"; did you mean "read"? (kshark --help lists them)'),
        (["-r", "x"], "the command comes first, then its options, as in: kshark read -r ... (kshark --help lists them)"),
        (["read", "x", "--no-playload"], 'no option "--no-playload"; did you mean "--no-payload"? (kshark read --help shows them all)'),
        (
            ["read", "x", "-T", "yaml"],
            "argument -T: invalid choice: 'yaml' (choose from 'text', 'json', 'fields') (kshark read --help shows them all)",
        ),
        (["read", "x", "-c", "0"], 'argument -c: "0" is no number from 1 (kshark read --help shows them all)'),
        (["read", "x", "-e", "kafka.api"], "-e needs -T fields"),
        (["read", "x", "-T", "fields"], "-T fields needs -e FIELD; kshark explain fields lists them"),
        (["read", "x", "-d", "udp.port==1,kafka"], '"udp.port==1,kafka" is no rule for -d; write -d tcp.port==9092,kafka'),
        (["read", "x", "--since", "soon"], '"soon" is no time; write +10s, 14:03:07, 2026-11-21T14:03:07Z or seconds since 1970'),
        (["read"], "no capture is named; give a file, a folder, or - for standard input"),
        (
            ["check", "x", "--select", "EPOCH_SKP_AHEAD"],
            'no code "EPOCH_SKP_AHEAD"; did you mean "EPOCH_SKIP_AHEAD"? (kshark explain lists them)',
        ),
        (["export", "x"], "no folder given for the tables; name one with -o DIR"),
        (["live"], "no interface given; name one with -i (ip link lists them, any stands for all)"),
        (["decode", "ShareFetsh", "1", "request"], 'no API "ShareFetsh"; did you mean "ShareFetch"? (names and keys are Kafka\'s)'),
        (["decode", "ShareFetch", "9", "request"], "ShareFetch has versions 0-2, not 9 (kshark explain ShareFetch shows them)"),
        (["explain", "ShareFetsh"], 'nothing is called "ShareFetsh"; did you mean "ShareFetch"?'),
        (["explain", "999"], "Kafka has no error 999 (errors are numbered from -1 to 136)"),
    ],
)
def test_bad_usage_is_one_sentence_with_the_next_step(kshark: Run, words: list[str], sentence: str) -> None:
    done = kshark(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"kshark: {sentence}")
    assert done.err.count("\n") == 1


def test_a_file_that_is_not_there_is_one_sentence(kshark: Run) -> None:
    done = kshark("read", "/nowhere/a.pcap")
    assert (done.code, done.out) == (2, "")
    assert "/nowhere/a.pcap" in done.err
    assert done.err.count("\n") == 1


def test_a_closed_pipe_ends_quietly() -> None:
    command = (
        f"{sys.executable} -m kshark explain Fetch ShareFetch Produce Metadata Fetch Fetch Fetch Fetch | head -1; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[0].startswith("Fetch  API 1")
    assert done.stdout.splitlines()[1] in ("141", "0")
    assert done.stderr == ""


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "kshark", "explain", "0"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0 NONE  no error\n\nAPI 0 is Produce: kshark explain Produce\n"
