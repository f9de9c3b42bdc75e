"""Why Spark stopped, in one sentence with the next step: its own messages are pages long and begin with somebody else's
name."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

#: How long a JVM that hung up may take to end.
_JVM_END_S: Final = 5.0
#: What Spark's message holds, and what that means. The first that is found counts; `{0}` is what the pattern caught.
_CAUSES: Final = (
    (
        r"(?s)File (?:file:)?(\S+) does not exist.*EventLogFileWriter",
        "{0}, the folder of Spark's event log, does not exist; make it, or name another: --conf spark.eventLog.dir=DIR",
    ),
    (
        r"JVM ended with 53\b",  # ExecutorExitCode.DISK_STORE_FAILED_TO_CREATE_DIR
        "no folder for its temporary files can be made; name one that can be written: --conf spark.local.dir=DIR, "
        "or SPARK_LOCAL_DIRS, which goes before it",
    ),
    (
        r"No module named '(pyarrow|numpy|pandas|msgspec|cramjam|crc32c|re2|kshark)",
        "a worker's Python has no {0}; install kshark there, or name a Python that has it: --conf "
        "spark.pyspark.python=PATH",
    ),
    (
        r"(?i)Python in worker has different version[^\d]*([\d.]+)",
        "a worker runs another Python ({0}) than this one; name the same: --conf spark.pyspark.python=PATH",
    ),
    (
        r"No space left on device",
        "no space is left on a worker's disk; name a roomier one: --conf spark.local.dir=DIR, or SPARK_LOCAL_DIRS "
        "where workers start",
    ),
    (
        r"(?i)Cannot run program \"([^\"]+)\"",
        "a worker could not start {0}; name a Python that it has: --conf spark.pyspark.python=PATH",
    ),
    (
        r"(?i)OutOfMemoryError|JVM ended with 52\b|exit code:? 137|exitCode 137|signal 9|SIGKILL|Container killed by "
        r"YARN|memory limits",
        "a worker ran out of memory; give each more (--conf spark.executor.memory=4g, on one machine "
        "spark.driver.memory) or fewer cores",
    ),
    (
        r"spark\.driver\.maxResultSize",
        "Spark's driver is told more than it may take at a time; let it: --conf spark.driver.maxResultSize=4g",
    ),
    (
        r"(?i)Python worker exited unexpectedly|ExecutorLostFailure|executor \S+ (?:lost|exited)|Worker lost",
        "a worker was killed and its work could not be done again (out of memory, or its machine went away); "
        "give workers more memory or use fewer cores: --conf spark.executor.memory=4g, --master local[2]",
    ),
    (
        r"(?i)All masters are unresponsive|Failed to connect to (?:master )?([^\s:]+:\d+)",
        "the Spark master went away; is it still running?",
    ),
    (
        r"(?i)UNAUTHENTICATED|StatusCode\.UNAVAILABLE|failed to connect to all addresses",
        "the Spark Connect server does not answer any more",
    ),
)
#: What is said when a JVM has hung up, which says least: how it ended goes before it.
_HUNG_UP: Final = (
    r"(?i)Answer from Java side is empty|Error while sending or receiving|^Connection\w*Error|Py4JNetworkError"
)
_ENDED: Final = "Spark's own process ended (killed, or out of memory); give it more: --conf spark.driver.memory=4g"


def sentence(error: BaseException) -> str:
    """What happened and what to do: the known cause, else Spark's own words."""
    return cause(error) or f"Spark stopped: {first_line(error)}"


def cause(error: BaseException) -> str | None:
    """The known cause: by what was said, else by how a JVM that was started here ended; on its way it says this and
    that."""
    said = f"{type(error).__name__}: {error}"
    found = _known(said)
    if found is None:
        end = _jvm_end()
        found = _known(end) or (_ENDED if end or re.search(_HUNG_UP, said) else None)
    return found


def _known(text: str) -> str | None:
    """What a message of Spark's means and what to do; None where nobody knows."""
    for pattern, meaning in _CAUSES:
        found = re.search(pattern, text)
        if found is not None:
            return meaning.format(*(part or "" for part in found.groups()))
    return None


def _jvm_end() -> str:
    """How the JVM that was started here ended, if it has: some causes are told by its exit code alone."""
    context = sys.modules.get("pyspark.core.context")
    process = context and getattr(context.SparkContext._gateway, "proc", None)
    try:
        return f"JVM ended with {process.wait(_JVM_END_S)}" if process else ""
    except subprocess.TimeoutExpired:
        return ""


def first_line(error: BaseException) -> str:
    """The line that says what happened first: where Java threw something it is the last cause, Py4J's own words stand
    before it."""
    text = str(error).strip()
    java = re.findall(r"^(?:Caused by)?: (?:[\w.$]+: )?(.+)", text, re.MULTILINE)
    return (java[-1] if java else text.split("\n", 1)[0])[:300] or type(error).__name__
