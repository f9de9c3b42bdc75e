"""What the stage reads of a time line reaches it in another process too."""

from __future__ import annotations

import ast
from pathlib import Path

import kshark.incidents
from kshark.anomaly import CATALOGUE
from kshark.incidents import ROWS
from kshark.incidents.reads import WEIRDS

#: Codes of messages, which have them in another process too.
OF_MESSAGES = {"VERSION_UNKNOWN"}


def test_every_weird_that_the_stage_names_reaches_it() -> None:
    """A code that only a comparison names would be missing in Spark."""
    folder = Path(kshark.incidents.__file__).parent
    trees = [ast.parse(path.read_text()) for path in folder.rglob("*.py")]
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    of_findings = {code for row in ROWS for code in (*row.explains, *row.excuses)}
    assert (texts & CATALOGUE.keys()) - of_findings - OF_MESSAGES <= WEIRDS
