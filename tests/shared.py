"""The folder of facts and captures that some tests compare with; where it is absent, those tests are skipped for one
reason."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "captures"
#: The folders of the product.
PRODUCT = ("kshark", "dissectors", "spark_analysis")


def pythonpath(folder: Path = ROOT) -> str:
    """Return the PYTHONPATH with which Python finds kshark's packages in a checkout, or in a copy of PRODUCT."""
    return os.pathsep.join(str(folder / inner) for inner in ("", "dissectors", "spark_analysis"))


#: Where that folder would be.
SHARED = Path(os.environ.get("KSHARK_SHARED") or ROOT.parent / "shared")
#: One reason for all tests, so that reports count them in one line.
NEEDS_SHARED = "they need the shared captures (set KSHARK_SHARED)"

#: How files begin that are captures: pcap in both byte orders and with nanoseconds, pcapng, gzip, zstd.
_MAGICS = {
    *(bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "0a0d0d0a", "28b52ffd")),
    bytes.fromhex("1f8b0800"),
    bytes.fromhex("1f8b0808"),
}


def is_capture(path: Path) -> bool:
    """True if the file begins like a capture; some only look like one by their name (snoop, text in front)."""
    with path.open("rb") as file:
        return file.read(4) in _MAGICS


#: The captures of that folder.
SHARED_CAPTURES = sorted(path for path in SHARED.glob("captures/*/*.pcap*") if is_capture(path))
#: Damaged files in which tshark stops, and prints less than kshark reads.
TSHARK_STOPS = ("odd-crlf.pcap", "odd-text-inside.pcap")


def every(captures: Iterable[Any]) -> list[Any]:
    """Return the captures as parameters of a test; where there are none, one that is skipped."""
    return [*captures] or [pytest.param(None, marks=pytest.mark.skip(NEEDS_SHARED), id="none")]


def sample_of(captures: Collection[Any], many: int, seed: int) -> list[Any]:
    """The captures, or other cases, as parameters of a test: so many, always the same for a seed; the others are
    slow."""
    quick = set(Random(seed).sample([*captures], many))
    return [one if one in quick else pytest.param(one, marks=pytest.mark.slow) for one in captures]


def shared(*parts: str) -> Path:
    """A path below the folder named by KSHARK_SHARED, else `shared` beside the checkout; skips the test where it is
    absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(NEEDS_SHARED, allow_module_level=True)
    return path
