"""The environment that `make setup` makes, as users have it: only the installation says where kshark is. And Pythons
that lack a package."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import kshark
from kshark_spark import packages
from tests.shared import CAPTURES, ROOT
from tests.spark.commands import is_editable, needs_java, outside, python_without

pytest.importorskip("pyspark", reason="pyspark is not installed")

#: A user's session, with the line that README asks for.
SESSION = """
from pyspark.sql import SparkSession
import kshark_spark
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("FATAL")
kshark_spark.register(spark)
kshark_spark.register(spark)
read = spark.read.format("kshark").option("table", "findings")
print(read.schema("code string").load(CAPTURE).where("code = 'EPOCH_STALE'").count())
"""


@pytest.mark.slow  # the notebook's test is the quick one: it runs without PYTHONPATH, too
@pytest.mark.spark
@needs_java
def test_a_user_s_session_finds_the_source_without_pythonpath(tmp_path: Path) -> None:
    if not is_editable():
        pytest.skip("kshark is not installed from this folder (make setup)")
    stale = sum(finding.code == "EPOCH_STALE" for finding in kshark.check(CAPTURES / "adv-epochs.pcap"))
    assert stale
    script = tmp_path / "job.py"
    script.write_text(f"CAPTURE = {str(CAPTURES / 'adv-epochs.pcap')!r}\n{SESSION}")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=outside(), cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"{stale}\n"), done.stderr


# -- packages


def test_a_driver_s_python_that_lacks_packages_is_one_sentence(tmp_path: Path) -> None:
    """As spark-submit starts it, with the file, and as the command does."""
    python = python_without(tmp_path, "msgspec", "re2", "kshark")
    for words in (["spark_analysis/kshark_spark/__main__.py"], ["-c", f"import sys; sys.path[:0] = {FOLDERS}; {RUN}"]):
        done = subprocess.run(
            [str(python), *words, "check", "a.pcap"],
            capture_output=True,
            text=True,
            env=outside(),
            cwd=ROOT,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")
        sentence = done.stderr.replace("lacks kshark, msgspec", "lacks msgspec")  # the file alone does not find kshark
        assert sentence.startswith(
            f"kshark-spark: {python} lacks msgspec, google-re2; install kshark there: {python} -m pip install "
            "'kshark[spark]', or name a Python"
        )
        assert sentence.count("\n") == 1


FOLDERS = [str(ROOT), str(ROOT / "dissectors"), str(ROOT / "spark_analysis")]
RUN = "from kshark_spark.__main__ import main; sys.exit(main())"


def test_nothing_is_lacking_here_and_every_name_is_that_of_a_dependency() -> None:
    assert packages.lacking((*packages.BASE, *packages.SPARK)) is None
    wanted = (ROOT / "pyproject.toml").read_text()
    for name in (*packages.BASE, *packages.SPARK):
        assert importlib.util.find_spec(name) is not None
        assert f'"{packages._PIP_NAMES.get(name, name)}' in wanted
