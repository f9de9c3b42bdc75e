"""Java is found where it is, and its absence is one sentence with the next step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kshark.errors import UsageError
from kshark_spark import java
from kshark_spark.session import open_session


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
    """A machine without any Java; PATH is its folder `bin`."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
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
    a_java(bare_machine, 'openjdk version "21.0.8"')
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare_machine / "own", 'openjdk version "17.0.1"')))
    assert java.find_java() == java.Java(bare_machine / "own", 17)


def test_an_old_java_is_passed_over(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare_machine / "old", 'java version "11.0.2"')))
    a_java(bare_machine, 'openjdk version "21.0.8"')
    assert java.find_java() == java.Java(bare_machine, 21)


@pytest.mark.usefixtures("bare_machine")
def test_without_java_spark_says_what_is_missing() -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(UsageError, match=r"Java 17 or newer.*neither JAVA_HOME nor PATH has one; install one"):
        open_session("local[1]")
