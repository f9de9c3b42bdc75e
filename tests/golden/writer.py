"""Golden files: messages, findings and sessions of a capture as JSON lines, compressed."""

from __future__ import annotations

import contextlib
import gzip
import io
from itertools import islice
from pathlib import Path

from kshark.cli import main
from tests.shared import CAPTURES

GOLDEN = Path(__file__).parent
#: What is kept of each capture: a name and the command that prints it.
TOLD = {
    "read": ("read", "-T", "json", "--no-records"),
    "check": ("check", "-T", "json"),
    "sessions": ("sessions", "-V", "-T", "json"),
}
CAPTURES_TOLD = sorted(CAPTURES.glob("*.pcap*"))


def output_of(arguments: tuple[str, ...], capture: Path) -> str:
    """What the command prints, without its notes."""
    out = io.BytesIO()
    text = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
        main([*arguments, str(capture)])
    return out.getvalue().decode()


def file_of(capture: Path, name: str) -> Path:
    return GOLDEN / f"{capture.name}.{name}.jsonl.gz"


def write(capture: Path) -> None:
    for name, arguments in TOLD.items():
        file_of(capture, name).write_bytes(gzip.compress(output_of(arguments, capture).encode(), 9, mtime=0))


def differences(capture: Path) -> list[str]:
    """The first lines that are not as they were."""
    told: list[str] = []
    for name, arguments in TOLD.items():
        before = gzip.decompress(file_of(capture, name).read_bytes()).decode().splitlines()
        now = output_of(arguments, capture).splitlines()
        if len(before) != len(now):
            told.append(f"{name}: {len(before)} lines before, {len(now)} now")
        other = ((number, a, b) for number, (a, b) in enumerate(zip(before, now, strict=False), 1) if a != b)
        told += [f"{name}, line {number}:\n  before {a}\n  now    {b}" for number, a, b in islice(other, 3)]
    return told
