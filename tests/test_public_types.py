"""The types of `import kshark`, as mypy shows them to somebody who uses the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.shared import ROOT, pythonpath

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: What a user of pyarrow writes, which has no types.
SETTINGS = "[mypy]\nstrict = True\nfollow_imports = silent\n[mypy-pyarrow.*]\nignore_missing_imports = True\n"
PROGRAM = """\
import kshark

options: kshark.Options = {"tls_keys": "keys.log", "ports": [9095]}
for finding in kshark.check("a.pcap", select="EPOCH_REPLAY", **options):
    reveal_type(finding.code)
    reveal_type(finding.verdict)
    reveal_type(finding.witness)
    reveal_type(finding.to_dict())
    finding.wieght
for message in kshark.read("a.pcap", records=False):
    reveal_type(message.latency_ns)
for session in kshark.sessions("a.pcap", steps=True):
    reveal_type(session.first_epoch)
for delivery in kshark.deliveries("a.pcap", partition=0):
    reveal_type(delivery.start_offset)
for group in kshark.groups("a.pcap"):
    reveal_type(group.members[0].client_id)
for entry in kshark.events("a.pcap", kinds=["leader"]):
    reveal_type(entry.text)
reveal_type(kshark.decode(78, 1, "request", b""))
reveal_type(kshark.__version__)
kshark.check("a.pcap", tsl_keys="keys.log")
kshark.events("a.pcap", kinds=["leaders"])
wrong: kshark.Options = {"port": [9095]}
"""
ANSWERS = [
    (5, "str"),
    (6, "Literal['violation']"),
    (7, "list[kshark.model.Witness]"),
    (8, "dict[str, Any]"),
    (9, '"ListedFinding" has no attribute "wieght"; maybe "weight"?'),
    (11, "msgspec.UnsetType"),
    (13, "int"),
    (15, "int"),
    (17, "str"),
    (19, "str"),
    (20, "dict[str, Any]"),
    (21, "str"),
    (22, 'Unexpected keyword argument "tsl_keys" for "check"'),
    (23, "List item 0 has incompatible type"),
    (24, 'Extra key "port" for TypedDict "Options"'),
]


def mypy(*files: Path, settings: Path) -> list[str]:
    """The lines of mypy, in strict mode, with kshark as an installed package."""
    pytest.importorskip("mypy", reason="it needs mypy")
    settings.write_text(SETTINGS)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(settings),
        "--cache-dir",
        str(ROOT / ".mypy_cache/public"),
    ]
    done = subprocess.run(
        [*command, "--no-pretty", "--hide-error-context", *map(str, files)],
        cwd=settings.parent,
        env={**os.environ, "MYPYPATH": pythonpath()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_examples_are_typed(tmp_path: Path) -> None:
    assert mypy(*EXAMPLES, settings=tmp_path / "mypy.ini") == [
        f"Success: no issues found in {len(EXAMPLES)} source files"
    ]


def test_types_are_shown_and_mistakes_found(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    *told, _ = mypy(program, settings=tmp_path / "mypy.ini")
    by_line = {int(line.split(":")[1]): re.sub(r"builtins\.|typing\.", "", line) for line in reversed(told)}
    assert [*by_line] == [line for line, _ in reversed(ANSWERS)]
    for line, answer in ANSWERS:
        assert answer in by_line[line]
