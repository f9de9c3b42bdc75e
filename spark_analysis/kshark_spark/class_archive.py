"""An archive of Spark's Java classes (class data sharing) that halves the start-up time of Spark.

`kshark-spark prepare` writes the archive for this user, this Java and this version of Spark; sessions on this machine
use it. A JVM that does not match the archive ignores it silently. Source: JEP 350; the java command of Java 17:
-XX:SharedArchiveFile, -XX:ArchiveClassesAtExit.
"""

from __future__ import annotations

import os
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final

from kshark_spark.java import find_java

#: The JVM writes its warnings to stdout, which is for data.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"


def archive() -> Path:
    """Return the path of the archive, which may not exist."""
    java = find_java()
    home = "" if java is None else str(java.home.resolve())
    release = Path(home, "release")
    identity = f"{home}\n{release.read_text() if release.is_file() else ''}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "kshark" / f"spark-{version('pyspark')}-{sha256(identity.encode()).hexdigest()[:12]}.jsa"


def java_options() -> str:
    """Return the JVM options of a session on this machine: use the archive, if it exists."""
    path = archive()
    return f"-XX:SharedArchiveFile={path} -Xshare:auto {_QUIET}" if path.is_file() and " " not in str(path) else ""


def recording(path: Path) -> str:
    """Return the JVM options to write the archive at exit."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
