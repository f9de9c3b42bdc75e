"""Golden output: the findings of every bundled capture, and messages and sessions of a few, as a person last read them.

`python -m tests.golden` writes it anew; the witnesses beside the captures (tests/conformance) say whether it is true.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.writer import CAPTURES_TOLD, differences


@pytest.mark.sweep(quick=6)
@pytest.mark.parametrize("capture", CAPTURES_TOLD, ids=lambda path: path.name)
def test_each_capture_reads_as_it_did(capture: Path) -> None:
    assert differences(capture) == []
