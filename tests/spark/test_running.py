"""Where Spark runs and with which settings; what is told when it cannot."""

from __future__ import annotations

import io
import logging
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import kshark_spark.cli
from kshark.errors import UsageError
from kshark_spark.failures import first_line, sentence
from kshark_spark.master import check, is_connect, is_here
from kshark_spark.progress import progress_line, shown
from kshark_spark.session import chatter
from kshark_spark.settings import all_settings, given, pairs
from kshark_spark.shipping import packed
from tests.shared import ROOT

#: The packages that are installed, and where they lie in a checkout.
OURS = {
    "kshark": "kshark",
    "kshark_dissectors": "dissectors/kshark_dissectors",
    "kshark_spark": "spark_analysis/kshark_spark",
}

# -- masters


@pytest.mark.parametrize(
    "master",
    ["local", "local[2]", "local[*]", "local[4, 3]", "local-cluster[2,1,1024]", "yarn", "k8s://https://h:6443"],
)
def test_masters_that_need_no_knock(master: str) -> None:
    check(master)
    assert is_here(master) == (master in ("local", "local[2]", "local[*]", "local[4, 3]"))


@pytest.mark.parametrize("master", ["locl[2]", "spark:/host:7077", "spark://host", "mesos://h:5050", "local[two]", ""])
def test_a_misspelt_master_is_told_what_masters_look_like(master: str) -> None:
    with pytest.raises(UsageError, match=r"is not a Spark master; write one of local\[N\]"):
        check(master)


def test_nobody_waits_for_a_master_that_is_not_there() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        for url in (f"spark://127.0.0.1:{port}", f"sc://127.0.0.1:{port}/;token=x"):
            with pytest.raises(UsageError, match=f"nothing answers at {url}; is Spark running there"):
                check(url)
        listening.listen()
        check(f"spark://127.0.0.1:{port}")
        check(f"spark://no-such-host.invalid:7077,127.0.0.1:{port}")
    assert is_connect("sc://h:15002")
    assert not is_here("local-cluster[2,1,1024]")


# -- settings


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path / "spark-defaults.conf"


def test_what_is_asked_goes_before_the_defaults_file_and_that_before_ours(outside: Path) -> None:
    outside.write_text(
        "# ours\n\nspark.master  spark://h:7077\nspark.log.level=WARN\nspark.executor.memory\t2g\nalone\n"
    )
    known = given()
    assert known == {"spark.master": "spark://h:7077", "spark.log.level": "WARN", "spark.executor.memory": "2g"}
    settings = all_settings("spark://h:7077", known, {"spark.executor.memory": "4g"})
    assert settings["spark.executor.memory"] == "4g"
    assert "spark.log.level" not in settings
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert "spark.driver.host" not in settings


def test_only_on_this_machine_nothing_listens_outside_it(outside: Path) -> None:
    assert given() == {}
    assert all_settings("local[2]", {}, {})["spark.driver.host"] == "127.0.0.1"


def test_conf_is_pairs() -> None:
    assert pairs(["spark.a=1", "spark.b=x=y"]) == {"spark.a": "1", "spark.b": "x=y"}
    for wrong in ("spark.a", "a=1"):
        with pytest.raises(UsageError, match=f'--conf accepts spark.NAME=VALUE, not "{wrong}"'):
            pairs([wrong])


# -- failures


@pytest.mark.parametrize(
    ("said", "told_so"),
    [
        (
            "PythonException: ... ModuleNotFoundError: No module named 'pyarrow'",
            "a worker's Python lacks pyarrow; install kshark there",
        ),
        (
            "/usr/bin/python3: Error while finding module specification for 'kshark_spark.daemon' "
            "(ModuleNotFoundError: No module named 'kshark_spark')",
            "a worker's Python lacks kshark; install kshark there",
        ),
        ("java.io.IOException: No space left on device", "no space is left on a worker's disk"),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", "a worker was killed"),
        ("SparkException: Python worker exited unexpectedly (crashed)", "a worker was killed"),
        ("Container killed by YARN for exceeding memory limits", "a worker ran out of memory"),
        ('Cannot run program "python3.13": error=2', "a worker cannot start python3.13"),
        (
            "Python in worker has different version: 3.10 than that in driver: 3.11",
            "a worker runs another Python version (3.10)",
        ),
        ("Answer from Java side is empty", "Spark's own process ended"),
        ("java.lang.OutOfMemoryError: Java heap space", "a worker ran out of memory"),
        (
            "results of 356 tasks (1024.4 MiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)",
            "the results for Spark's driver exceed its limit",
        ),
        ("All masters are unresponsive! Giving up.", "the connection to the Spark master is lost"),
        ("something new\nat org.apache.spark", "Spark stopped: something new"),
    ],
)
def test_spark_s_own_words_become_a_sentence_with_the_next_step(said: str, told_so: str) -> None:
    assert sentence(RuntimeError(said)).startswith(told_so)


@pytest.mark.parametrize(
    ("code", "told_so"),
    [
        (52, "a worker ran out of memory; give each worker more"),
        (53, "Spark cannot create a folder for its temporary files"),
        (1, "Spark's own process ended"),
    ],
)
@pytest.mark.parametrize(
    "said", ['Cannot invoke "DAGScheduler.cleanupQueryJobs(long)"', "Answer from Java side is empty"]
)
def test_a_java_that_ends_is_told_by_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, said: str, code: int, told_so: str
) -> None:
    context = pytest.importorskip("pyspark").SparkContext
    with subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(0.1); raise SystemExit({code})"]) as process:
        monkeypatch.setattr(context, "_gateway", SimpleNamespace(proc=process))
        assert sentence(RuntimeError(said)).startswith(told_so)


def test_what_java_throws_is_told_not_what_py4j_says_before_it() -> None:
    said = (
        "An error occurred while calling o1.start.\n: java.net.BindException: Address in use: 'sparkDriver'\n\tat "
        "sun.nio.ch.Net.bind"
    )
    assert first_line(RuntimeError(said)) == "Address in use: 'sparkDriver'"
    cause = (
        "\nCaused by: org.apache.spark.SparkException: Job aborted\n\tat x\nCaused by: java.io.IOException: Too many "
        "open files\n\tat y"
    )
    assert first_line(RuntimeError(said + cause)) == "Too many open files"


def test_what_libraries_log_goes_where_java_s_words_go(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As py4j does on the root logger when its connection is reset, which makes one that writes to stderr where there
    is none."""
    monkeypatch.setattr(logging.root, "handlers", [])
    with chatter() as log:
        pass
    logging.error("Exception while sending command.")
    logging.root.handlers[0].close()
    assert "Exception while sending command." in log.read_text()
    assert capfd.readouterr() == ("", "")
    log.unlink()


def test_without_pyspark_it_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert kshark_spark.cli.main(["check", "a.pcap"]) == 2
    assert capsys.readouterr().err == "kshark-spark: pyspark is not installed; pip install 'kshark[spark]'\n"


# -- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stage(number: int, done: int, running: int, tasks: int) -> SimpleNamespace:
    return SimpleNamespace(stageId=number, numCompletedTasks=done, numActiveTasks=running, numTasks=tasks)


class Tracker:
    def __init__(self, *stages: SimpleNamespace) -> None:
        self.stages = {each.stageId: each for each in stages}

    def getActiveStageIds(self) -> list[int]:
        return [*self.stages, 99]

    def getStageInfo(self, number: int) -> SimpleNamespace | None:
        return self.stages.get(number)


def test_progress_is_tasks_of_the_stages_at_work() -> None:
    assert progress_line(Tracker(stage(2, 3, 2, 10), stage(4, 0, 1, 5))) == "stage 5: 3 of 15 tasks done, 3 running"
    assert progress_line(Tracker()) == ""


def test_progress_is_for_terminals() -> None:
    spark = SimpleNamespace(_sc=SimpleNamespace(statusTracker=Tracker))
    nobody = io.StringIO()
    with shown(spark, nobody):  # type: ignore[arg-type]
        pass
    assert nobody.getvalue() == ""
    screen = Terminal()
    with shown(spark, screen):  # type: ignore[arg-type]
        pass
    assert screen.getvalue() == "\r\x1b[K"


def test_what_goes_to_other_machines_is_all_of_kshark() -> None:
    import zipfile

    names = set(zipfile.ZipFile(packed()).namelist())
    assert {"kshark/pipeline.py", "kshark_dissectors/index.py", "kshark_spark/screen/keys.py"} <= names
    assert {name.partition("/")[0] for name in names} == {*OURS, "pyspark_kshark.py"}


def test_the_wheel_installs_no_name_that_others_may_have() -> None:
    setuptools = pytest.importorskip("setuptools", reason="setuptools is not installed")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["py-modules"] == ["pyspark_kshark"]
    finding = settings["packages"]["find"]
    found = {
        name
        for folder in finding["where"]
        for name in setuptools.find_packages(ROOT / folder, include=finding["include"])
    }
    packages = {
        ".".join(path.parent.relative_to(folder.parent).parts)
        for folder in map(ROOT.joinpath, OURS.values())
        for path in folder.rglob("__init__.py")
    }
    assert found == packages
    assert {package.partition(".")[0] for package in packages} == OURS.keys()
