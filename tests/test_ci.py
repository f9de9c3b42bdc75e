"""The files that GitHub reads: they can be parsed, and what they name exists."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.shared import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PREFIX = "Programming Language :: Python :: 3."


def read(path: str) -> Any:
    yaml = pytest.importorskip("yaml", reason="it needs PyYAML")
    return yaml.safe_load((ROOT / path).read_text())


def test_ci_tests_every_python_that_the_package_names() -> None:
    named = [
        it.removeprefix("Programming Language :: Python :: ") for it in PROJECT["classifiers"] if it.startswith(PREFIX)
    ]
    assert named[0] == PROJECT["requires-python"].removeprefix(">=")
    jobs = read(".github/workflows/ci.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == named
    assert jobs["installed"]["strategy"]["matrix"]["python"] == named


def test_the_steps_of_ci_are_steps_and_name_files_that_exist() -> None:
    for job in read(".github/workflows/ci.yml")["jobs"].values():
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "uses" not in step or re.fullmatch(r"[\w./-]+@v\d+", step["uses"])
            for file in re.findall(r"GITHUB_WORKSPACE/([^\"\s]+)", step.get("run", "")):
                assert (ROOT / file).exists()


def test_the_tests_that_run_beside_an_installed_kshark_exist() -> None:
    script = (ROOT / ".ci/installed").read_text()
    named = re.findall(r"\btests/[\w/.]+", script)
    assert len(named) >= 5
    assert all((ROOT / path).exists() for path in named)


@pytest.mark.parametrize("form", ["bug", "wrong-finding"])
def test_the_forms_of_issues_have_what_github_asks_for(form: str) -> None:
    made = read(f".github/ISSUE_TEMPLATE/{form}.yml")
    assert {"name", "description", "body"} <= made.keys()
    ids = [field["id"] for field in made["body"]]
    assert len({*ids}) == len(ids)
    assert {field["type"] for field in made["body"]} <= {"input", "textarea", "dropdown", "checkboxes", "markdown"}
    assert all(field["attributes"]["label"] for field in made["body"])


def test_pre_commit_runs_what_lint_runs() -> None:
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert [hook["entry"].split()[:2] for hook in repository["hooks"]] == [
        [".venv/bin/ruff", "check"],
        [".venv/bin/ruff", "format"],
        [".venv/bin/python", "-m"],
    ]


def test_the_papers_of_a_package_are_there_and_in_the_sdist() -> None:
    for name in (
        "LICENSE",
        "NOTICE",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
        "RELEASING.md",
    ):
        assert (ROOT / name).stat().st_size > 500
    assert PROJECT["license-files"] == ["LICENSE", "NOTICE"]
    addresses = {url.split("/")[2:5] == ["github.com", "kshark", "kshark"] for url in PROJECT["urls"].values()}
    assert addresses == {True}
