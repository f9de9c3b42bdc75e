"""Spark's Java classes, read and checked once and kept: the JVM maps them (class data sharing), and Spark starts in
half the time.

`kshark-spark prepare` makes the archive, for this user, this Java and this version of Spark; sessions on this machine
use it. A JVM that it does not fit goes without, and says nothing. (JEP 350; the java command of Java 17:
-XX:SharedArchiveFile, -XX:ArchiveClassesAtExit.)"""

from __future__ import annotations

import os
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final

from kshark_spark.java import find_java

#: The JVM writes its warnings on stdout, and that is data.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"


def archive() -> Path:
    """Where the archive is, or would be."""
    java = find_java()
    home = "" if java is None else str(java.home.resolve())
    release = Path(home, "release")
    told = f"{home}\n{release.read_text() if release.is_file() else ''}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "kshark" / f"spark-{version('pyspark')}-{sha256(told.encode()).hexdigest()[:12]}.jsa"


def java_options() -> str:
    """What the JVM of a session on this machine is told: to use the archive, if there is one."""
    path = archive()
    return f"-XX:SharedArchiveFile={path} -Xshare:auto {_QUIET}" if path.is_file() and " " not in str(path) else ""


def recording(path: Path) -> str:
    """What a JVM is told that shall write the archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
