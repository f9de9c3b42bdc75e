"""The command in this process: what it prints and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kshark.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    @property
    def findings(self) -> list[Any]:
        """The findings of `kshark check -T json`, without the headlines and the summary."""
        return [line for line in self.json if "witness" in line]


Run = Callable[..., Done]


def runner(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> Done:
        try:
            code = main([str(word) for word in words])
        except SystemExit as leaving:  # argparse's --help
            code = int(leaving.code or 0)
        told = capsys.readouterr()
        return Done(code, told.out, told.err)

    return run
