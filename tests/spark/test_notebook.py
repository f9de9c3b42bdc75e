"""The notebook runs from its first cell to its plot, and what it shows is what is stored in it."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.shared import ROOT, pythonpath
from tests.spark.commands import is_editable, needs_java, outside

NOTEBOOK = ROOT / "spark_analysis/notebook.ipynb"
needs_charts = pytest.mark.skipif(
    importlib.util.find_spec("altair") is None, reason="altair is not installed: pip install 'kshark[notebook]'"
)


def shown(path: Path) -> list[Any]:
    """What each code cell prints and shows; of a picture its width and height."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    return [[*map(one, cell["outputs"])] for cell in cells]


def one(output: dict[str, Any]) -> Any:
    if "image/png" not in output.get("data", {}):
        return output
    image = base64.b64decode(output["data"]["image/png"])
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(image) > 10_000, "an empty plot"
    return struct.unpack(">II", image[16:24])


@pytest.mark.slow
@pytest.mark.spark
@needs_java
@needs_charts
def test_the_notebook_shows_what_is_stored_in_it(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    target = tmp_path / NOTEBOOK.name
    command = [sys.executable, "-m", "tests.spark.notebook", str(NOTEBOOK), str(target)]
    # as users have it, if kshark is installed from this folder
    environment = outside() if is_editable() else {**os.environ, "PYTHONPATH": pythonpath()}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    stored = shown(NOTEBOOK)
    assert shown(target) == stored
    assert sum(isinstance(output, tuple) for cell in stored for output in cell) == 1
