"""The table of who confirmed what is complete, and true."""

from __future__ import annotations

import shutil

import pytest

from tests.coverage import (
    ORACLES,
    TABLE,
    Body,
    by_definitions,
    by_java,
    by_kio,
    by_vectors,
    every_body,
    read_table,
    table,
)


def said_by(oracle: str) -> set[Body]:
    return {body for body, oracles in read_table().items() if oracle in oracles}


def test_every_version_of_every_api_is_in_the_table_with_kafkas_own_classes_as_oracle() -> None:
    found = read_table()
    assert sorted(found) == sorted(every_body())
    assert len(found) == 2 * 368
    assert [body for body, oracles in found.items() if "java" not in oracles or len(oracles) < 2] == []
    assert "\n368 of 368 pairs" in TABLE.read_text()


@pytest.mark.slow
def test_kafkas_classes_say_what_the_table_says() -> None:
    assert by_java() == said_by("java")


def test_the_definitions_say_what_the_table_says() -> None:
    assert by_definitions() == said_by("definitions")


@pytest.mark.slow
def test_kio_says_what_the_table_says() -> None:
    assert by_kio() == said_by("kio")


def test_the_vectors_say_what_the_table_says() -> None:
    assert by_vectors() == said_by("vectors")


@pytest.mark.slow
@pytest.mark.tshark
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_the_table_is_what_all_oracles_say_today() -> None:
    assert table({oracle: ask() for oracle, ask in ORACLES.items()}) == TABLE.read_text()
