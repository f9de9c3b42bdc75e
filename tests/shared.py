"""The folder of facts and captures that some tests compare with; whoever lacks it sees those tests skipped, with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "captures"


#: Where that folder would be.
SHARED = Path(os.environ.get("KSHARK_SHARED") or ROOT.parent / "shared")


def shared(*parts: str) -> Path:
    """A path below the folder named by KSHARK_SHARED, else `shared` beside the checkout; skips the test where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(parts)} of the shared folder is not here (set KSHARK_SHARED)", allow_module_level=True)
    return path
