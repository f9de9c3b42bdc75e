"""Spark's settings: kshark's are defaults; those of spark-submit, spark-defaults.conf and `--conf` have priority."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kshark.errors import UsageError
from kshark_spark import FILTERS
from kshark_spark.class_archive import java_options
from kshark_spark.master import is_here

_OURS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    "spark.sql.session.timeZone": "UTC",
    FILTERS: "true",
    # size of a batch for Python
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
    # a task keeps its rows on disk in batches of 4 MB; Java's serializer keeps this many of them in memory
    "spark.serializer.objectStreamReset": "1",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
#: The plans of finished jobs are kept for a disabled UI, too; they fill the memory of a long session.
_OURS_WITHOUT_UI: Final = {
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
}
#: On one machine, only the JVM's quick compiler and one garbage collector thread make a short job a third faster.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: On one machine, Spark listens only locally, and Python workers are forked from a process with all imports.
_OURS_HERE: Final = {
    "spark.python.daemon.module": "kshark_spark.daemon",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # shuffle to tasks of 16 MB: aggregations with more groups than fit into a task's memory take three times as long
    "spark.sql.shuffle.partitions": str(16 * (os.cpu_count() or 2)),
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
}


def pairs(words: Iterable[str]) -> dict[str, str]:
    """Parse `--conf NAME=VALUE` as spark-submit does. Raises UsageError for other texts."""
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(f'--conf accepts spark.NAME=VALUE, not "{word}"')
        settings[name] = value
    return settings


def submitted() -> bool:
    """True if spark-submit started this program, so that its JVM already runs."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def given() -> dict[str, str]:
    """Return the settings from outside kshark: of spark-submit, else of spark-defaults.conf."""
    if submitted():
        from pyspark import SparkConf, SparkContext

        # the JVM of spark-submit has the settings; they are empty before this call
        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return _defaults_file()


def all_settings(master: str, outside: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session: kshark's unless set outside, and the requested ones."""
    here = (
        {**_OURS_HERE, "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {java_options()}"} if is_here(master) else {}
    )
    has_ui = asked.get("spark.ui.enabled", outside.get("spark.ui.enabled")) == "true"
    ours = {**_OURS, **({} if has_ui else _OURS_WITHOUT_UI), **here}
    return {name: value for name, value in ours.items() if name not in outside} | dict(asked)


def _defaults_file() -> dict[str, str]:
    """Return the pairs of spark-defaults.conf, if it exists; blanks or `=` separate names and values."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    path = Path(folder or "") / "spark-defaults.conf"
    if folder is None or not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    split = (re.split(r"\s*=\s*|\s+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in split if len(pair) == 2}
