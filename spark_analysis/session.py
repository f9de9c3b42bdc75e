"""The Spark session: quiet, in UTC, on this machine unless told otherwise."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshark.errors import UsageError
from spark_analysis.java import MISSING, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Packages sent to workers on other machines; their Python needs numpy, msgspec, cramjam, crc32c and pyarrow.
PACKAGES: Final = ("kshark", "dissectors", "spark_analysis")

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
#: On one machine nothing listens outside it; the JVM's quick compiler alone and one thread for garbage take a third off a short job.
_LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


def open_session(master: str, **settings: str) -> SparkSession:
    """A session on `master`. Raises kshark.UsageError, with the next step, where pyspark or Java is missing."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("pyspark is not installed; pip install 'kshark[spark]'") from None
    java = find_java()
    if java is None:
        raise UsageError(MISSING)
    os.environ["JAVA_HOME"] = str(java.home)
    local = master.startswith("local")
    if local:
        # workers would start the first python3 of PATH, which need not have pyarrow
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("kshark").master(master)
    for name, value in {**_SETTINGS, **(_LOCAL_SETTINGS if local else {}), **settings}.items():
        builder = builder.config(name, value)
    with _chatter() as log:
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise UsageError(f"no Spark session on {master}: {_first_line(error)} (its log: {log})") from None
    atexit.register(log.unlink, missing_ok=True)
    if not local:
        session.addArtifacts(str(packed()), pyfile=True)
    return session


@contextmanager
def _chatter() -> Iterator[Path]:
    """What a JVM that is started within says on stderr, then and later, goes to a file: stderr is kshark's."""
    handle, name = tempfile.mkstemp(prefix="kshark-spark-", suffix=".log")
    own = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield Path(name)
    finally:
        os.dup2(own, 2)
        os.close(own)
        os.close(handle)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:200] or type(error).__name__


def packed() -> Path:
    """kshark and its dissectors as a zip file, for workers on other machines."""
    import kshark

    root = Path(kshark.__file__).resolve().parent.parent
    folder = Path(tempfile.mkdtemp(prefix="kshark-"))
    target = folder / "kshark.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for path in sorted((root / package).rglob("*.py")):
                archive.write(path, path.relative_to(root))
    return target
