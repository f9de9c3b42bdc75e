"""The examples: what they call exists, with the options that they use."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kshark.cli import main
from kshark.cli.check import arguments, verify
from kshark.cli.parser import Parser
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT

WORKFLOW = ROOT / "examples" / "conformance.yml"
#: What the workflow requires of each kind of client, and bundled captures with a client of that kind.
REQUIRED = re.findall(r"REQUIRED: (\S+)$", WORKFLOW.read_text(), re.M)
KINDS = [
    ("share-java-explicit.pcap", "sa"),
    ("small-zstd.pcap", "cons-848"),
    ("security-sasl.pcap", "sc256"),
    ("produce-mix.pcap", "m-gzip-all"),
]


def workflow() -> dict[Any, Any]:
    yaml = pytest.importorskip("yaml", reason="it needs PyYAML")
    read = yaml.safe_load(WORKFLOW.read_text())
    assert isinstance(read, dict)
    return read


def commands(path: Path = WORKFLOW) -> list[list[str]]:
    """Return the words of each `kshark check` in the file, with continued lines joined."""
    text = path.read_text().replace("\\\n", " ")
    return [shlex.split(line.partition(" > ")[0].partition(" || ")[0]) for line in re.findall(r"kshark check .*", text)]


def test_the_workflow_is_one() -> None:
    read = workflow()
    assert {"name", "jobs", "permissions"} <= read.keys()
    assert read[True] == ["push", "pull_request"]  # `on`, in YAML 1.1
    for job in read["jobs"].values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "uses" not in step or re.fullmatch(r"[\w./-]+@v\d+", step["uses"])


def test_its_commands_exist() -> None:
    found = [[REQUIRED[0] if word == "$REQUIRED" else word for word in words] for words in commands()]
    assert [words[words.index("-T") + 1] for words in found if "-T" in words] == ["junit", "github", "sarif"]
    for words in found:
        parser = Parser("check", "text", ())
        arguments(parser)
        verify(parser.parse(words[2:]))


@pytest.mark.parametrize(("kind", "required"), [*zip(KINDS, REQUIRED, strict=True)])
def test_what_it_requires_is_tested_by_a_client_of_that_kind(kind: tuple[str, str], required: str) -> None:
    capture, client = kind
    words = [
        "check",
        str(CAPTURES / capture),
        "-q",
        "--by",
        "client",
        "-Y",
        f'kafka.client_id == "{client}"',
        "--complete",
    ]
    mocked = ["--ignore", "TRAILING_BYTES,UNDECODABLE_BODY"] if capture == "small-zstd.pcap" else []
    assert main([*words, *mocked, "--require", required]) == 0
    assert main([*words, *mocked, "--require", "BATCH_CRC" if client == "sa" else "NO_RECOVERY"]) == 1


def test_it_uploads_what_it_wrote() -> None:
    text = WORKFLOW.read_text()
    for file in ("kshark.xml", "kshark.sarif", "conformance.pcap"):
        assert text.count(file) >= 2


def test_the_programs_run() -> None:
    capture = str(CAPTURES / "aimed-4.1.2.pcap")
    assert printed("broken_rules", capture)[:2] == [
        "A3 (raw-share-client 1.0)",
        "  DUPLICATE_PARTITION_ENTRY in [300, 302]: ShareFetch #3 lists partition 0 twice (packets 300, 302)",
    ]
    slow = printed("slow_requests", capture)
    assert slow[0].split() == ["1205.198", "ms", "32", "ShareFetch"]
    assert len(slow) > 10
    found = [json.loads(line) for line in printed("incident", capture)]
    assert {line["what"] for line in found} == {"event", "lost session", "group"}


def printed(example: str, *words: str) -> list[str]:
    """The lines that an example prints."""
    command = [sys.executable, str(ROOT / "examples" / f"{example}.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()
