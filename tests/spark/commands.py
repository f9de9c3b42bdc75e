"""`kshark-spark` as a process of its own, with Pythons that lack something, and with processes that are killed while
they read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from kshark_spark.java import MISSING, find_java
from tests.patience import PATIENCE_S
from tests.shared import ROOT, pythonpath

needs_java = pytest.mark.skipif(find_java() is None, reason=MISSING)
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="no /proc here: nobody tells which process has a file open"
)

#: `kshark-spark` of a Python that need not have kshark: nothing tells other processes where it is.
KSHARK_SPARK = (
    f"import sys; sys.path[:0] = {pythonpath().split(os.pathsep)}; from kshark_spark.cli import main; sys.exit(main())"
)


def kshark_spark(
    *words: str, python: Path | str = sys.executable, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in the project's folder; only its own process finds kshark there."""
    command = [str(python), "-c", KSHARK_SPARK, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=outside(**environment), cwd=ROOT)


def outside(**environment: str) -> dict[str, str]:
    """The environment, without what tells processes where kshark is."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment


def is_editable() -> bool:
    """True if kshark is installed from this folder, as `make setup` does it: then nothing else need say where it is."""
    urls = [found.read_text("direct_url.json") or "" for found in distributions(name="kshark")]
    return any('"editable": true' in text and str(ROOT) in text for text in urls)


def java_home() -> str:
    """What Spark's own programs need to be told."""
    java = find_java()
    assert java is not None
    return str(java.home)


def python_without(folder: Path, *missing: str) -> Path:
    """A Python with all that is installed here, but for distributions and packages with one of these words in their
    name."""
    venv.create(folder, symlinks=True)
    target = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not any(word in entry.name for word in missing):
            (target / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


# -- a process that is killed


def killed_while_reading(
    path: Path,
    words: Sequence[str],
    victim: Callable[[int], int],
    server: int | None = None,
    python: Path | str = sys.executable,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Runs the command; as soon as a worker, its own or the server's, has `path` open, the process that `victim` names
    for it is killed."""
    command = [str(python), "-c", KSHARK_SPARK, *words]
    piped: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "start_new_session": True,
    }
    with subprocess.Popen(command, env=outside(**environment), cwd=ROOT, **piped) as process:
        os.kill(victim(_reader(path, process, server or process.pid)), signal.SIGKILL)
        stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def java_of(worker: int) -> int:
    """The Java that a worker works for: it started the process that forks workers."""
    return _parent(_parent(worker))


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _reader(path: Path, command: subprocess.Popen[str], leader: int) -> int:
    """The first process of the leader's session, but for itself, that has a file open."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and command.poll() is None:
        for process in _below(leader):
            if str(path) in _open_files(process):
                return process
        time.sleep(0.02)  # to look took a core from Spark
    raise AssertionError(f"no worker has opened {path}")


def _below(leader: int) -> list[int]:
    """The other processes of a session, which is named by its first."""
    numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [number for number in numbers if number != leader and _session(number) == leader]


def _session(process: int) -> int | None:
    try:
        return os.getsid(process)
    except OSError:  # it has ended
        return None


def _open_files(process: int) -> set[str]:
    folder = f"/proc/{process}/fd"
    try:
        return {os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}
    except OSError:  # it has ended
        return set()


@contextmanager
def running(command: Sequence[str], folder: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server in a session of its own that runs in `folder` and is stopped in the end."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=outside(**environment), cwd=folder, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
