"""Where Spark may run besides this process: behind spark-submit, in executors of their own, behind Spark Connect."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import kshark.cli
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT, pythonpath
from tests.spark.commands import (
    java_home,
    java_of,
    killed_while_reading,
    kshark_spark,
    needs_java,
    needs_proc,
    outside,
    python_without,
    running,
)

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytestmark = [pytest.mark.spark, needs_java]

EPOCHS = str(CAPTURES / "adv-epochs.pcap")


@pytest.fixture
def of_one_process(capsys: pytest.CaptureFixture[str]) -> str:
    assert kshark.cli.main(["check", EPOCHS]) == 1
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a machine that has everything but kshark."""
    python = python_without(tmp_path_factory.mktemp("elsewhere") / "python", "kshark")
    done = subprocess.run(
        [python, "-c", "import pyspark, pyarrow, kshark"],
        capture_output=True,
        text=True,
        env=outside(),
        cwd="/",
        check=False,
    )
    assert "No module named 'kshark'" in done.stderr
    return python


@pytest.mark.slow
def test_what_spark_submit_says_counts(tmp_path: Path, of_one_process: str) -> None:
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(tmp_path),
        "spark.eventLog.compress": "false",
        "spark.sql.shuffle.partitions": "3",
    }
    confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    programs = Path(sys.executable).parent
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "JAVA_HOME": java_home(), "PYTHONPATH": pythonpath()}
    command = [
        str(programs / "spark-submit"),
        "--master",
        "local[1]",
        *confs,
        "spark_analysis/kshark_spark/__main__.py",
        "check",
        EPOCHS,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=outside(**environment), cwd=ROOT, check=False)
    assert (done.returncode, done.stdout) == (1, of_one_process)
    told = used(tmp_path)
    assert told["spark.master"] == "local[1]"
    assert settings.items() <= told.items()


def used(folder: Path) -> dict[str, str]:
    """The settings that Spark says in its event log."""
    (log,) = folder.glob("eventlog_v2_*/events_1_*")
    events = map(json.loads, log.read_text().splitlines())
    found = next(event for event in events if event["Event"] == "SparkListenerEnvironmentUpdate")
    properties: dict[str, str] = found["Spark Properties"]
    return properties


@pytest.mark.slow
@needs_proc
def test_executors_that_have_no_kshark_are_sent_it_and_what_a_killed_one_did_is_done_again(
    tmp_path: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = CAPTURES / "produce-mix.pcap"
    words = ["check", str(capture), "--master", "local-cluster[1,1,1024]"]
    done = killed_while_reading(capture, words, java_of, python=elsewhere, SPARK_HOME=str(spark_home(tmp_path)))
    assert (done.returncode, kshark.cli.main(["check", str(capture)])) == (0, 0)
    assert (done.stdout, done.stderr) == capsys.readouterr()
    assert {path.name for path in tmp_path.glob("work/app-*/*")} >= {"0", "1"}, "one executor was killed, another came"


def spark_home(folder: Path) -> Path:
    """Spark as it is installed, in a folder of its own: executors write into it."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    for entry in Path(spec.origin).parent.iterdir():
        if entry.name != "work":
            (folder / entry.name).symlink_to(entry)
    return folder


class Server(NamedTuple):
    url: str
    process: int


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory, elsewhere: Path) -> Iterator[Server]:
    """A Spark Connect server on a machine without kshark."""
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    confs = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    words = ["--master", "local[1]", *(word for name, value in confs.items() for word in ("--conf", f"{name}={value}"))]
    home = spark_home(tmp_path_factory.mktemp("spark"))
    environment = {"PYSPARK_PYTHON": str(elsewhere), "SPARK_HOME": str(home), "JAVA_HOME": java_home()}
    command = [
        str(home / "bin" / "spark-submit"),
        *words,
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    ]
    with running(command, home, **environment) as process:
        until = time.monotonic() + PATIENCE_S
        while not listens(port):
            assert process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < until, "the server does not listen"
            time.sleep(0.2)
        yield Server(f"sc://127.0.0.1:{port}", process.pid)


def listens(port: int) -> bool:
    with socket.socket() as knocking:
        return knocking.connect_ex(("127.0.0.1", port)) == 0


def test_a_spark_connect_server_that_has_no_kshark_is_sent_it(connect: Server, of_one_process: str) -> None:
    done = kshark_spark("check", EPOCHS, "--master", connect.url)
    assert (done.returncode, done.stderr, done.stdout) == (1, "", of_one_process)


def test_a_server_s_own_settings_stay_its_own(connect: Server) -> None:
    done = kshark_spark("check", EPOCHS, "--master", connect.url, "--conf", "spark.executor.memory=2g")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "kshark-spark: spark.executor.memory cannot be changed through Spark Connect; set it where the server is "
        "started\n"
    )


@needs_proc
def test_a_server_that_is_killed_is_not_waited_for_long(connect: Server) -> None:
    capture = CAPTURES / "produce-mix.pcap"
    words = ["check", str(capture), "--master", connect.url]
    begun = time.monotonic()
    done = killed_while_reading(capture, words, lambda worker: connect.process, connect.process)
    assert time.monotonic() - begun < PATIENCE_S / 2, "Spark itself tries again for ten minutes"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kshark-spark: the Spark Connect server no longer answers\n"
