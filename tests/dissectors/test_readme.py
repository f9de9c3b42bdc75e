"""Whoever follows the README literally ends with a working dissector."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dissectors
from tests.dissectors.test_form import SHARED
from tests.shared import ROOT

FOLDER = Path(dissectors.__file__).parent
README = (FOLDER / "README.md").read_text()


def test_adding_an_api_as_the_readme_says(tmp_path: Path) -> None:
    dissector, index_line, trial = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    copy = shutil.copytree(FOLDER, tmp_path / "dissectors", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "pause_group.py").write_text(dissector)
    index = copy / "index.py"
    index.write_text(re.sub(r"\n}\n$", f"\n{index_line}}}\n", index.read_text()))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    told = subprocess.run(
        [sys.executable, "-c", trial], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")


def test_the_readme_names_every_file_that_is_no_api_and_every_word() -> None:
    assert [name for name in sorted(SHARED - {"__init__"}) if f"`{name}.py`" not in README] == []
    used = {
        word
        for path in FOLDER.glob("*.py")
        for line in re.findall(r"^from kshark.schema import (.*)$", path.read_text(), re.M)
        for word in line.split(", ")
    }
    assert [word for word in sorted(used - {"api", "layout"}) if not re.search(rf"`{word}[`(]", README)] == []
