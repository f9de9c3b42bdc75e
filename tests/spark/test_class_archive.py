"""The archive of Spark's classes: used where it is, never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshark_spark.class_archive import archive, java_options
from kshark_spark.settings import all_settings
from tests.shared import CAPTURES
from tests.spark.commands import kshark_spark, needs_java

pytest.importorskip("pyspark", reason="pyspark is not installed")


def _prepared(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    path = archive()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not what a JVM wrote")
    return path


def test_sessions_on_this_machine_use_the_archive_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert java_options() == ""
    path = _prepared(tmp_path / "cache", monkeypatch)
    assert (
        f"-XX:SharedArchiveFile={path} -Xshare:auto"
        in all_settings("local[2]", {}, {})["spark.driver.extraJavaOptions"]
    )
    assert "spark.driver.extraJavaOptions" not in all_settings("spark://h:7077", {}, {})
    own = {"spark.driver.extraJavaOptions": "-Xmx2g"}
    assert all_settings("local[2]", {}, own) | own == all_settings("local[2]", {}, own)


def test_a_path_that_java_would_take_for_two_options_is_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _prepared(tmp_path / "my cache", monkeypatch)
    assert java_options() == ""


@pytest.mark.slow
@pytest.mark.spark
@needs_java
def test_an_archive_that_does_not_fit_is_passed_over_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _prepared(tmp_path, monkeypatch)
    done = kshark_spark("check", str(CAPTURES / "adv-epochs.pcap"), "-q", "--master", "local[1]")
    assert (done.returncode, done.stderr) == (1, "")
    assert "31 violations" in done.stdout
    assert path.read_bytes() == b"not what a JVM wrote"


@pytest.mark.slow
@needs_java
def test_what_prepare_makes_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = kshark_spark("prepare")
    assert (made.returncode, made.stdout) == (0, "")
    assert made.stderr.startswith(f"kshark-spark: {archive()} (")
    strict = java_options().replace("-Xshare:auto", "-Xshare:on")  # a JVM that does not start without it
    done = kshark_spark(
        "check", str(CAPTURES / "adv-epochs.pcap"), "-q", "--conf", f"spark.driver.extraJavaOptions={strict}"
    )
    assert (done.returncode, done.stderr) == (1, "")


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    done = kshark_spark("prepare")
    assert done.returncode == 2
    assert done.stderr.startswith("kshark-spark: cannot write the archive of Spark's classes: ")
    assert "set XDG_CACHE_HOME to use another folder" in done.stderr
