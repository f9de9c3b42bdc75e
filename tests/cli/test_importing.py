"""Everything is imported before rights are given up: what is imported inside functions is listed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from kshark.capture.live import User
from kshark.cli.importing import INSIDE, can_read
from tests.shared import ROOT

#: Imported only before rights are given up, or by other commands.
BEFORE = {"scapy.arch.common", "scapy.error", "pwd", "vl_convert", "signal", "threading", "importlib"}
#: Other spellings of the standard library for other versions of Python.
OTHER_PYTHON = {"backports", "compression"}


def test_what_is_imported_inside_functions_is_imported_before_rights_are_given_up() -> None:
    inside = {name for path in sorted((ROOT / "kshark").rglob("*.py")) for name in imports_inside(path)}
    foreign = {name for name in inside if not name.startswith("kshark")}

    assert foreign - BEFORE - OTHER_PYTHON <= {*INSIDE}
    assert {name for name in INSIDE if name.split(".")[0] in sys.stdlib_module_names} <= inside


def imports_inside(path: Path) -> set[str]:
    """Names of the modules that the functions of a file import."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    nodes = [node for function in functions for node in ast.walk(function)]
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return named | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_a_user_reads_files_below_folders_that_may_be_entered(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    (folder / "module.py").touch(0o644)
    owner = folder.stat()

    assert not can_read(User("other", owner.st_uid + 1, owner.st_gid + 1), folder / "module.py")
    assert can_read(User("owner", owner.st_uid, owner.st_gid), folder / "module.py") == all(
        parent.stat().st_mode & 1 or parent.stat().st_uid == owner.st_uid for parent in folder.parents
    )
