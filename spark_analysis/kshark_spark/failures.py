"""Explain in one sentence why Spark stopped, with the next step. Spark's own messages are pages long and start with
framework classes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

from kshark_spark.packages import INSTALL

#: Time limit for a JVM to end after it closed the connection.
_JVM_END_S: Final = 5.0
#: Patterns of Spark's messages with their explanations. The first match counts; `{0}` is its first group.
_CAUSES: Final = (
    (
        r"(?s)File (?:file:)?(\S+) does not exist.*EventLogFileWriter",
        "{0}, the folder of Spark's event log, does not exist; make it, or name another: --conf spark.eventLog.dir=DIR",
    ),
    (
        r"JVM ended with 53\b",  # ExecutorExitCode.DISK_STORE_FAILED_TO_CREATE_DIR
        "Spark cannot create a folder for its temporary files; name a writable one: --conf spark.local.dir=DIR, "
        "or SPARK_LOCAL_DIRS, which has priority",
    ),
    (
        r"No module named '(pyarrow|numpy|pandas|msgspec|cramjam|crc32c|re2|rich|kshark)",
        f"a worker's Python lacks {{0}}; install kshark there: {{python}} {INSTALL}, or name a Python that has it: "
        "--conf spark.pyspark.python=PATH",
    ),
    (
        r"(?i)Python in worker has different version[^\d]*([\d.]+)",
        "a worker runs another Python version ({0}); name the same Python: --conf spark.pyspark.python=PATH",
    ),
    (
        r"No space left on device",
        "no space is left on a worker's disk; name a larger one: --conf spark.local.dir=DIR, or SPARK_LOCAL_DIRS "
        "where workers start",
    ),
    (
        r"(?i)Cannot run program \"([^\"]+)\"",
        "a worker cannot start {0}; name a Python that exists there: --conf spark.pyspark.python=PATH",
    ),
    (
        r"(?i)OutOfMemoryError|JVM ended with 52\b|exit code:? 137|exitCode 137|signal 9|SIGKILL|Container killed by "
        r"YARN|memory limits",
        "a worker ran out of memory; give each worker more (--conf spark.executor.memory=4g, on one machine "
        "spark.driver.memory) or fewer cores",
    ),
    (
        r"spark\.driver\.maxResultSize",
        "the results for Spark's driver exceed its limit; raise it: --conf spark.driver.maxResultSize=4g",
    ),
    (
        r"(?i)Python worker exited unexpectedly|ExecutorLostFailure|executor \S+ (?:lost|exited)|Worker lost",
        "a worker was killed and its work could not be repeated (out of memory, or its machine was lost); "
        "give workers more memory or use fewer cores: --conf spark.executor.memory=4g, --master local[2]",
    ),
    (
        r"(?i)All masters are unresponsive|Failed to connect to (?:master )?([^\s:]+:\d+)",
        "the connection to the Spark master is lost; is it still running?",
    ),
    (
        r"(?i)UNAUTHENTICATED|StatusCode\.UNAVAILABLE|failed to connect to all addresses",
        "the Spark Connect server no longer answers",
    ),
)
#: Messages after a JVM closed the connection. They explain least, so its exit code has priority.
_HUNG_UP: Final = (
    r"(?i)Answer from Java side is empty|Error while sending or receiving|^Connection\w*Error|Py4JNetworkError"
)
_ENDED: Final = "Spark's own process ended (killed, or out of memory); give it more: --conf spark.driver.memory=4g"


#: A process of Spark that read captures was killed, not Spark itself.
_WORKER_LOST: Final = (
    r"(?i)Python worker exited unexpectedly|ExecutorLostFailure|executor \S+ (?:lost|exited)|Worker lost|"
    r"exit code:? 137|exitCode 137|Container killed by YARN|EOFException.*PythonRunner"
)


def is_worker_lost(error: BaseException) -> bool:
    """True if a process that read captures was killed, while Spark itself goes on."""
    return re.search(_WORKER_LOST, str(error)) is not None and not _jvm_end(0)


def sentence(error: BaseException) -> str:
    """Return what happened and what to do: the known cause, else Spark's own message."""
    return cause(error) or f"Spark stopped: {first_line(error)}"


def cause(error: BaseException) -> str | None:
    """Return the known cause, from the message or the exit code of a JVM that was started here; None if unknown."""
    message = f"{type(error).__name__}: {error}"
    explanation = _explained(message)
    if explanation is None:
        end = _jvm_end()
        explanation = _explained(end) or (_ENDED if end or re.search(_HUNG_UP, message) else None)
    return explanation


def _explained(text: str) -> str | None:
    """Return the meaning of a Spark message and what to do; None if unknown."""
    for pattern, meaning in _CAUSES:
        match = re.search(pattern, text)
        if match is not None:
            return meaning.format(*(part or "" for part in match.groups()), python=_python_of_workers())
    return None


def _python_of_workers() -> str:
    """Return the command that starts the workers' Python, if this process is the driver."""
    context = sys.modules.get("pyspark.core.context")
    active = context and context.SparkContext._active_spark_context
    return getattr(active, "pythonExec", None) or "python3"


def _jvm_end(patience_s: float = _JVM_END_S) -> str:
    """Return how the JVM that was started here ended, or an empty text. Some causes show only in its exit code."""
    context = sys.modules.get("pyspark.core.context")
    process = context and getattr(context.SparkContext._gateway, "proc", None)
    try:
        return f"JVM ended with {process.wait(patience_s)}" if process else ""
    except subprocess.TimeoutExpired:
        return ""


def first_line(error: BaseException) -> str:
    """Return the line with the original error: the last cause of a Java exception, else the first line."""
    text = str(error).strip()
    java = re.findall(r"^(?:Caused by)?: (?:[\w.$]+: )?(.+)", text, re.MULTILINE)
    return (java[-1] if java else text.split("\n", 1)[0])[:300] or type(error).__name__
