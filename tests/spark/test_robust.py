"""What goes wrong when Spark runs: every row of "When it does not work" in spark_analysis/README.md, done to it, with
what is said."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import kshark.cli
from tests.shared import CAPTURES, ROOT
from tests.spark.commands import (
    java_of,
    killed_while_reading,
    kshark_spark,
    needs_java,
    needs_proc,
    outside,
    python_without,
)

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytestmark = [pytest.mark.spark, needs_java]

EPOCHS = str(CAPTURES / "adv-epochs.pcap")
HERE = "--master", "local[1]"


def says(done: subprocess.CompletedProcess[str], sentence: str) -> bool:
    """It ends with 2, and says one sentence, nothing else."""
    told = done.stderr.removesuffix("\n")
    return (
        (done.returncode, done.stdout) == (2, "") and told.startswith(f"kshark-spark: {sentence}") and "\n" not in told
    )


def test_every_sentence_of_the_table_is_tested() -> None:
    table = (ROOT / "spark_analysis/README.md").read_text().partition("## When it does not work")[2]
    told = re.findall(r"^\| [^|]+ \| `([^`]+)` \|", table, re.MULTILINE)
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert len(told) > 15
    assert [sentence for sentence in told if sentence not in tests.replace("\\", "")] == []


def test_no_pyspark(tmp_path: Path) -> None:
    python = python_without(tmp_path, "pyspark")
    assert says(kshark_spark("check", EPOCHS, python=python), "pyspark is not installed; pip install 'kshark[spark]'")


def test_no_grpc(tmp_path: Path) -> None:
    python = python_without(tmp_path, "grpc")
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = kshark_spark("check", EPOCHS, "--master", f"sc://127.0.0.1:{server.getsockname()[1]}", python=python)
    assert says(done, "Spark needs more packages ("), done.stderr
    assert done.stderr.endswith("; pip install 'kshark[connect]'\n")


@pytest.mark.slow
def test_a_worker_s_python_without_pyarrow(tmp_path: Path) -> None:
    python = python_without(tmp_path, "pyarrow")
    done = kshark_spark("check", EPOCHS, *HERE, "--conf", f"spark.pyspark.python={python}")
    assert says(done, f"a worker's Python lacks pyarrow; install kshark there: {python} -m pip install"), done.stderr


@pytest.mark.slow
def test_a_worker_s_python_that_is_not_there(tmp_path: Path) -> None:
    done = kshark_spark("check", EPOCHS, *HERE, "--conf", f"spark.pyspark.python={tmp_path}/python")
    assert says(done, f"a worker cannot start {tmp_path}/python; name a Python that exists there"), done.stderr


def test_no_folder_for_the_event_log(tmp_path: Path) -> None:
    done = kshark_spark(
        "check",
        EPOCHS,
        *HERE,
        "--conf",
        "spark.eventLog.enabled=true",
        "--conf",
        f"spark.eventLog.dir={tmp_path}/log",
        TMPDIR=str(tmp_path),
    )
    assert says(
        done, f"no Spark session on local[1]: {tmp_path}/log, the folder of Spark's event log, does not exist; make it"
    ), done.stderr


def test_no_folder_for_temporary_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = kshark_spark(
        "check", EPOCHS, *HERE, SPARK_LOCAL_DIRS=str(tmp_path / "file" / "folder"), TMPDIR=str(tmp_path)
    )
    assert says(
        done, "no Spark session on local[1]: Spark cannot create a folder for its temporary files; name a writable one"
    ), done.stderr


@pytest.mark.slow
def test_no_space_for_temporary_files(tmp_path: Path) -> None:
    tables, disk = tmp_path / "tables", tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=16k none {disk}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    assert kshark.cli.main(["export", str(CAPTURES / "share-loss.pcap"), "-q", "-o", str(tables)]) == 0
    run = f"{mount} && exec {sys.executable} -m kshark_spark check {tables} --master 'local[1]'"
    environment = outside(SPARK_LOCAL_DIRS=str(disk))
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", run], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert says(done, "no space is left on a worker's disk; name a larger one"), done.stderr


@needs_proc
def test_a_worker_is_killed() -> None:
    capture = CAPTURES / "produce-mix.pcap"
    done = killed_while_reading(capture, ["check", str(capture), *HERE], lambda worker: worker)
    assert says(done, f"{capture}: the process that read it was killed (out of memory, or by a crash)"), done.stderr


@pytest.mark.slow
@needs_proc
def test_spark_itself_is_killed() -> None:
    capture = CAPTURES / "produce-mix.pcap"
    done = killed_while_reading(capture, ["check", str(capture), *HERE], java_of)
    assert says(done, "Spark's own process ended (killed, or out of memory)"), done.stderr
