"""The Spark session: on this machine by default, without console output, in UTC."""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshark.errors import UsageError
from kshark_spark import FILTERS, register
from kshark_spark.failures import cause, first_line
from kshark_spark.java import MISSING, find_java
from kshark_spark.master import LOCAL, check, is_connect, is_here
from kshark_spark.packages import SPARK, lacking
from kshark_spark.settings import all_settings, given, submitted
from kshark_spark.shipping import packed

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

_PYTHON: Final = "spark.pyspark.python"
#: A call to a Connect server that does not answer is retried for eight seconds; Spark's own policy retries for ten
#: minutes.
_RETRIES: Final = 5
_BACKOFF_MS: Final = 4_000
_NO_PYSPARK: Final = "pyspark is not installed; pip install 'kshark[spark]'"


def need_pyspark() -> None:
    """Raise kshark.UsageError, with the next step, if pyspark or a package that it needs is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise UsageError(_NO_PYSPARK)
    wrong = lacking(SPARK)
    if wrong is not None:
        raise UsageError(wrong)


def open_session(
    master: str | None = None, settings: Mapping[str, str] | None = None, *, source: bool = True
) -> SparkSession:
    """Open a session on `master`, else as set by spark-submit or spark-defaults.conf, else on this machine.

    `settings` have priority over theirs. `source`: register `format("kshark")`, which takes a second.
    Raises kshark.UsageError, with the next step, if pyspark or Java is missing, or if nothing answers at the master.
    """
    need_pyspark()
    outside = {} if master is not None and is_connect(master) else given()
    where = master or outside.get("spark.master", LOCAL)
    check(where)
    opened = _connected(where, settings or {}) if is_connect(where) else _started(where, outside, settings or {})
    if source:
        register(opened)
    return opened


def _started(where: str, outside: Mapping[str, str], settings: Mapping[str, str]) -> SparkSession:
    """Open a session whose driver is this process."""
    if not submitted():
        _prepare_java()
    chosen = all_settings(where, outside, settings)
    python = chosen.get(_PYTHON, outside.get(_PYTHON))
    if where.startswith("local"):
        # workers would start the first python3 of PATH, which may lack pyarrow
        python = python or sys.executable
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python  # PySpark reads the setting only if spark-submit started it
    from pyspark.sql import SparkSession

    session = _opened(SparkSession.builder.appName("kshark").master(where), where, chosen)
    if not is_here(where):
        session.addArtifacts(str(packed()), pyfile=True)
    return session


def cores_of(spark: SparkSession, asked: int | None = None) -> int:
    """Return the number of tasks that can run in parallel; `asked`: as the user says.

    With dynamic allocation (the default of EMR and Dataproc) executors are added while tasks wait: their greatest
    number counts, if it is set. With Spark Connect, it is the number of partitions of a range.
    """
    if asked is not None:
        return asked
    context = getattr(spark, "_sc", None)
    if context is not None:
        return max(int(context.defaultParallelism), _allocable(context.getConf()))
    from pyspark.sql import functions as F

    return spark.range(1 << 16).select(F.spark_partition_id()).distinct().count()


def _allocable(conf: SparkConf) -> int:
    """Return the cores that dynamic allocation may add up to; 0 if it has no limit, or is off."""
    if conf.get("spark.dynamicAllocation.enabled", "false") != "true":
        return 0
    return int(conf.get("spark.dynamicAllocation.maxExecutors", "0")) * int(conf.get("spark.executor.cores", "1"))


def _prepare_java() -> None:
    java = find_java()
    if java is None:
        raise UsageError(MISSING)
    os.environ["JAVA_HOME"] = str(java.home)


def _connected(url: str, settings: Mapping[str, str]) -> SparkSession:
    """Open a session on a Spark Connect server; only SQL settings can be changed there."""
    from pyspark.sql import SparkSession

    settings = {"spark.sql.session.timeZone": "UTC", FILTERS: "true", **settings}
    fixed = [name for name in settings if not name.startswith("spark.sql.")]
    if fixed:
        raise UsageError(f"{fixed[0]} cannot be changed through Spark Connect; set it where the server is started")
    session = _opened(SparkSession.builder.remote(url), url, settings)
    from pyspark.sql.connect.client.retries import DefaultPolicy

    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")  # the error that follows reports it
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_BACKOFF_MS)])
    session.addArtifacts(str(packed()), pyfile=True)
    return session


def _opened(builder: Any, where: str, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    with chatter() as log:
        try:
            if is_connect(where):
                import_module("grpc")  # without it pyspark ends the process with exit code 0, and says nothing
            session: SparkSession = builder.getOrCreate()
        except ImportError as error:
            extra = "connect" if is_connect(where) else "spark"
            raise UsageError(
                f"Spark needs more packages ({first_line(error)}); pip install 'kshark[{extra}]'"
            ) from None
        except Exception as error:
            raise UsageError(
                f"no Spark session on {where}: {cause(error) or first_line(error)} (its log: {log})"
            ) from None
    atexit.register(log.unlink, missing_ok=True)
    return session


@contextmanager
def chatter() -> Iterator[Path]:
    """Redirect the stderr of a JVM that is started in this context, and the logs of libraries, to a file.

    Stderr is for kshark's messages.
    """
    handle, name = tempfile.mkstemp(prefix="kshark-spark-", suffix=".log")
    logging.basicConfig(filename=name)  # py4j logs a traceback if a JVM is killed
    own = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield Path(name)
    finally:
        os.dup2(own, 2)
        os.close(own)
        os.close(handle)
