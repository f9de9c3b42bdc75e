"""Spark's settings: ours are defaults; what spark-submit, spark-defaults.conf or `--conf` say goes before them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kshark.errors import UsageError
from kshark_spark.class_archive import java_options
from kshark_spark.master import is_here

_OURS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # what ran is kept for pages that nobody sees; its plans fill a session that goes on for long
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.log.level": "FATAL",
    "spark.sql.session.timeZone": "UTC",
    # what goes to Python at a time
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
    # a task keeps its rows on disk in batches of four megabytes; Java's serializer holds so many of them
    "spark.serializer.objectStreamReset": "1",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
#: On one machine the JVM's quick compiler alone and one thread for garbage take a third off a short job.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: On one machine nothing listens outside it, and Python workers are forked from a process that has all they need.
_OURS_HERE: Final = {
    "spark.python.daemon.module": "kshark_spark.daemon",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # what is shuffled, to tasks of 16 MB each: sums over more groups than fit into a task's memory are three times the
    # work
    "spark.sql.shuffle.partitions": str(16 * (os.cpu_count() or 2)),
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
}


def pairs(words: Iterable[str]) -> dict[str, str]:
    """`--conf NAME=VALUE`, as spark-submit takes it. Raises UsageError for what is no pair."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(f'--conf takes spark.NAME=VALUE, not "{word}"')
        found[name] = value
    return found


def submitted() -> bool:
    """Whether spark-submit started this program: its JVM runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def given() -> dict[str, str]:
    """What was set outside kshark: by spark-submit, else by spark-defaults.conf."""
    if submitted():
        from pyspark import SparkConf, SparkContext

        # The JVM of spark-submit has the settings; before it is asked there are none.
        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return _defaults_file()


def all_settings(master: str, outside: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session: ours, less what was set outside, and what is asked for."""
    here = (
        {**_OURS_HERE, "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {java_options()}"} if is_here(master) else {}
    )
    ours = {**_OURS, **here}
    return {name: value for name, value in ours.items() if name not in outside} | dict(asked)


def _defaults_file() -> dict[str, str]:
    """The pairs of spark-defaults.conf, where one is; names and values are set apart by blanks or `=`."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    path = Path(folder or "") / "spark-defaults.conf"
    if folder is None or not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    split = (re.split(r"\s*=\s*|\s+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in split if len(pair) == 2}
