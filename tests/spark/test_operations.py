"""The files in docs/spark can be read, and their commands, names and SQL are those of kshark."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import kshark.cli
from kshark.errors import UnreadableInput, UsageError
from kshark_spark.cli import COMMANDS, parser_of
from kshark_spark.job_metrics import FAMILIES, JobMetrics, prometheus, reported
from tests.shared import CAPTURES, ROOT

DOCS = ROOT / "docs/spark"
PAGE = (DOCS / "README.md").read_text()


def commands() -> list[list[str]]:
    """Every kshark-spark command in the files, as words; Jinja's expressions are a word."""
    job = json.loads((DOCS / "databricks_job.json").read_text())
    steps = json.loads((DOCS / "emr_steps.json").read_text())
    found = [task["spark_python_task"]["parameters"] for task in job["tasks"]]
    found += [step["Args"][step["Args"].index("s3://bucket/kshark/run.py") + 1 :] for step in steps]
    dag = ast.parse((DOCS / "airflow_dag.py").read_text())
    texts = [node.value for node in ast.walk(dag) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    found += [
        shlex.split(re.sub(r"\{\{.*?\}\}", "HOUR", text).partition(" || ")[0])[1:]
        for text in texts
        if text.startswith("kshark-spark ")
    ]
    found += [shlex.split(line.partition(" kshark ")[2]) for line in re.findall(r"^docker run .*$", PAGE, re.M)]
    return found


def test_commands_are_those_of_kshark_spark() -> None:
    found = commands()
    assert {words[0] for words in found} == {"check", "export", "report"}
    for command, *words in found:
        assert command in COMMANDS
        args = parser_of(command).parse(words)
        assert args.paths
        assert command == "check" or args.folder


def test_the_job_of_databricks_and_the_step_of_emr_are_whole() -> None:
    job = json.loads((DOCS / "databricks_job.json").read_text())
    clusters = {cluster["job_cluster_key"]: cluster["new_cluster"] for cluster in job["job_clusters"]}
    for task in job["tasks"]:
        version = clusters[task["job_cluster_key"]]["spark_version"]
        assert int(version.partition(".")[0]) >= 18
        assert Path(task["spark_python_task"]["python_file"]).name == "run.py"
    (step,) = json.loads((DOCS / "emr_steps.json").read_text())
    assert step.keys() == {"Name", "ActionOnFailure", "Type", "Jar", "Args"}
    ast.parse((DOCS / "run.py").read_text())


def test_the_image_has_java_and_its_instructions_are_docker_s() -> None:
    text = (DOCS / "Dockerfile").read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "COPY", "USER", "VOLUME", "ENTRYPOINT", "CMD", "ENV", "WORKDIR"}
    instructions = [re.fullmatch(r"([A-Z]+) (\S.*)", line) for line in lines]
    assert all(match and match[1] in known for match in instructions)
    assert lines[0].startswith("FROM python:3.")
    assert "openjdk-21-jre-headless" in text
    for match in instructions:
        if match and match[1] in ("ENTRYPOINT", "CMD", "VOLUME"):
            assert json.loads(match[2])


def test_the_page_names_each_file_and_each_metric() -> None:
    assert {path.name for path in DOCS.iterdir()} - {"README.md"} == {*re.findall(r"^\| \[([\w.-]+)\]", PAGE, re.M)}
    served = {family.name for family in FAMILIES}
    assert {*re.findall(r"\bkshark_job_[a-z_]*[a-z]", PAGE)} == served
    yaml = pytest.importorskip("yaml", reason="it needs a parser of YAML (pip install pyyaml)")
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    (group,) = yaml.safe_load(block)["groups"]
    assert all(rule["alert"] and "kshark_job_" in rule["expr"] for rule in group["rules"])
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    assert json.loads(example).keys() == JobMetrics("check").values(0, 1).keys()


def test_the_dashboard_s_queries_run_over_the_tables(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    words = ["export", str(CAPTURES / "adv-epochs.pcap"), str(CAPTURES / "share-loss.pcap")]
    assert kshark.cli.main([*words, "--each", "-q", "-o", str(tmp_path)]) == 0
    base = duckdb.connect()
    for view in re.findall(r"^CREATE VIEW .*$", PAGE, re.M):
        base.execute(view.replace("/tables", str(tmp_path)))
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text())
    rows: dict[str, list[Any]] = {}
    for panel in dashboard["panels"]:
        (target,) = panel["targets"]
        sql = target["rawSql"].replace("${__from}", "0").replace("${__to}", "4000000000000")
        assert "$" not in sql
        rows[panel["title"]] = base.execute(sql).fetchall()
    assert rows["Violations"] == [(31,)]
    assert rows["Captures by trouble"][0][:2] == ("adv-epochs.pcap", 31)
    assert rows["Captures that could not be read"] == [(0,)]
    assert all(rows.values())
    at = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len({*at}) == len(at)


# -- --metrics


def counted() -> JobMetrics:
    metrics = JobMetrics("check")
    metrics.name([[str(CAPTURES / "adv-epochs.pcap")]])
    metrics.judged({"violation": 2, "note": 1}, 7, 100)
    metrics.judged({"violation": 1}, 3, 50)
    metrics.captures["failed"] += 1
    return metrics


def test_metrics_are_written_when_a_job_ends(tmp_path: Path) -> None:
    with reported(counted(), str(tmp_path / "m.json")) as codes:
        codes.append(1)
    metrics = json.loads((tmp_path / "m.json").read_text())
    assert metrics["captures"] == {"read": 2, "failed": 1, "skipped": 0}
    assert metrics["findings"] == {"violation": 3, "unknown": 0, "note": 1}
    assert (metrics["exit_code"], metrics["exchanges"], metrics["packets"], metrics["rows"]) == (1, 10, 150, None)
    assert metrics["bytes"] == (CAPTURES / "adv-epochs.pcap").stat().st_size
    assert [*tmp_path.iterdir()] == [tmp_path / "m.json"]


def test_metrics_are_written_when_a_job_fails(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput), reported(JobMetrics("check"), str(tmp_path / "m.json")):
        raise UnreadableInput("a.pcap: no capture")
    metrics = json.loads((tmp_path / "m.json").read_text())
    assert (metrics["exit_code"], metrics["captures"]["failed"]) == (2, 1)


def test_a_file_that_cannot_be_written_is_said_before_the_job_starts(tmp_path: Path) -> None:
    wrong = reported(JobMetrics("check"), str(tmp_path / "nowhere/m.json"))
    with pytest.raises(UsageError, match=r"--metrics .*nowhere/m.json: no such folder, or it cannot be written"):
        wrong.__enter__()


def test_prometheus_reads_them() -> None:
    parser = pytest.importorskip(
        "prometheus_client.parser", reason="it needs prometheus_client's parser (pip install prometheus-client)"
    )
    values = {**counted().values(1, 2.5), "rows": {"findings": 4}}
    families = {family.name: family for family in parser.text_string_to_metric_families(prometheus(values).decode())}
    assert families.keys() == {family.name for family in FAMILIES}
    samples = {sample.labels["verdict"]: sample.value for sample in families["kshark_job_findings"].samples}
    assert samples == {"violation": 3, "unknown": 0, "note": 1}
    assert [sample.value for sample in families["kshark_job_exit_code"].samples] == [1]
    export = {**values, "findings": None}
    assert b"kshark_job_findings" not in prometheus(export)
