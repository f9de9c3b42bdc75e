"""Spark's UI names each job by the work and its step."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kshark_spark.cli
from kshark_spark.steps import step, working
from tests.shared import CAPTURES

pytestmark = pytest.mark.spark


def described(spark: Any) -> dict[int, str | None]:
    """Descriptions of all jobs that Spark remembers, by number."""
    listed = spark._jsc.sc().statusStore().jobsList(None)
    jobs = [listed.apply(at) for at in range(listed.size())]
    return {job.jobId(): job.description().get() if job.description().isDefined() else None for job in jobs}


def test_all_jobs_of_a_command_name_the_work_and_the_step(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    captures = [str(CAPTURES / f"{name}.pcap") for name in ("adv-epochs", "share-java-explicit")]
    tables, texts = str(tmp_path / "tables"), dict[int, str | None]()
    last = max(described(spark), default=-1)
    for words in (
        ["check", *captures, "--each"],
        ["export", *captures, "--each", "-o", tables],
        ["report", *captures, "--each", "-o", str(tmp_path / "report")],
        ["check", tables],
        ["report", tables, "-o", str(tmp_path / "of-tables")],
    ):
        assert kshark_spark.cli.main([*words, "--master", "local[2]"]) in (0, 1)
        texts |= described(spark)
    own = {number: text or "" for number, text in texts.items() if number > last}
    works = r"(Check|Export|Report on)( the tables of)? 2 captures: [a-z]"
    assert own
    assert [text for text in own.values() if not re.match(works, text)] == []
    assert {text.partition(":")[0] for text in own.values()} == {
        "Check 2 captures",
        "Export 2 captures",
        "Report on 2 captures",
        "Check the tables of 2 captures",
        "Report on the tables of 2 captures",
    }


def test_a_description_ends_with_its_step(spark: Any) -> None:
    spark.sparkContext.setJobDescription("mine")
    with working("Check 1 capture"), step(spark, "find suspicious members"):
        assert spark.sparkContext.getLocalProperty("spark.job.description").endswith(": find suspicious members")
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    spark.sparkContext.setJobDescription(None)


def test_without_a_context_a_tag_of_the_operation_names_the_step() -> None:
    """As with Spark Connect, whose tags have no commas."""
    tags: list[str] = []
    remote: Any = SimpleNamespace(addTag=tags.append, removeTag=tags.remove)
    with working("Check 12,000 captures"), step(remote, "find late members"):
        assert tags == ["Check 12000 captures: find late members"]
    assert tags == []
