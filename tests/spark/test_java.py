"""Java is found where it is, and its absence is one sentence with the next step."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshark.errors import UsageError
from spark_analysis import java
from spark_analysis.session import open_session


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    java.find_java.cache_clear()
    yield
    java.find_java.cache_clear()


def a_java(home: Path, says: str) -> Path:
    """A folder with a program that says what `java -version` says."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "_USUAL", (str(tmp_path / "jvm"),))
    monkeypatch.setattr(java, "wheel_home", lambda: tmp_path / "wheel")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ("Error: could not find java", None),
    ],
)
def test_versions_are_read_as_java_writes_them(text: str, version: int | None) -> None:
    assert java.parse_version(text) == version


def test_java_home_comes_first(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(bare_machine / "jvm" / "java-21", 'openjdk version "21.0.8"')
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare_machine / "own", 'openjdk version "17.0.1"')))
    assert java.find_java() == java.Java(bare_machine / "own", 17)


def test_an_old_java_is_passed_over(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare_machine / "old", 'java version "11.0.2"')))
    a_java(bare_machine / "jvm" / "java-21", 'openjdk version "21.0.8"')
    found = java.find_java()
    assert found is not None
    assert found.version == 21


def test_without_java_spark_says_what_is_missing(bare_machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(UsageError, match=r"Java 17 or newer.*apt-get install"):
        open_session("local[1]")
    assert java.main([]) == 1
    assert "works without it" in capsys.readouterr().err


def test_the_set_up_goes_on_without_java(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(java, "install", lambda: None)
    assert java.main(["--install"]) == 0
    assert "Everything but kshark-spark works" in capsys.readouterr().err


def test_the_wheels_java_is_started_without_the_module_it_lacks(bare_machine: Path) -> None:
    carried = bare_machine / "carried"
    a_java(carried, "$*")
    (carried / "bin" / "java").write_text('#!/bin/sh\nprintf "%s|" "$@" >&2\necho \'version "21"\' >&2\n')
    java._wrap(carried, bare_machine / "wheel")
    words = [str(bare_machine / "wheel" / "bin" / "java"), "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b"]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said.stderr.startswith("-Xmx1g|-cp|a b|")
