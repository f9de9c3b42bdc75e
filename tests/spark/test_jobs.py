"""The jobs of spark_analysis/jobs on the tables of all bundled captures: their rows are DuckDB's, and agree with the
engine's own tables and commands."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import kshark.cli
from kshark_spark.java import find_java
from tests.cli.command import runner
from tests.output.querying import in_duckdb, needs_duckdb, rows
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT, SHARED, every, sample_of, shared
from tools import dbt_models

jinja2 = pytest.importorskip("jinja2", reason="jinja2 is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")
pytestmark = [pytest.mark.spark, needs_duckdb]

JOBS = ROOT / "spark_analysis" / "jobs"
SQL = ROOT / "spark_analysis" / "sql"
DBT = ROOT / "spark_analysis" / "dbt"
SHARED_FOLDERS = sorted(path for path in SHARED.glob("captures/*") if path.is_dir())
SESSION_NOT_FOUND, INVALID_SESSION_EPOCH = 122, 123


def job(name: str) -> SimpleNamespace:
    """The functions of a script, which is no module of a package."""
    return SimpleNamespace(**runpy.run_path(str(JOBS / f"{name}.py")))


epochs, sessions, redelivery, latency, capture_quality = map(
    job, ("epochs", "sessions", "redelivery", "latency", "capture_quality")
)
SCRIPTS = {"epochs", "sessions", "redelivery", "latency", "capture_quality"}
#: The result of a job by its name in SQL: how it is made from tables.
RESULTS: dict[str, Callable[[Tables], Any]] = {
    "epochs": lambda tables: epochs.epochs(*tables.read("share_requests", "steps")).cache(),
    "epoch_runs": lambda tables: epochs.runs(tables.frame("epochs")),
    "share_sessions": lambda tables: sessions.sessions(
        *tables.read("sessions", "steps", "acquired", "acknowledgements")
    ),
    "redelivery": lambda tables: redelivery.redelivery(
        *tables.read("acquired", "acknowledgements", "steps", "sessions")
    ),
    "latency": lambda tables: latency.latency(*tables.read("exchanges")),
    "capture_quality": lambda tables: capture_quality.capture_quality(
        *tables.read("flows", "weirds", "exchanges", "findings", "faults")
    ),
}


class Tables:
    """An export, the results of the jobs on it, and those of DuckDB, each made once."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self._frames: dict[str, Any] = {}
        self._results: dict[str, pa.Table] = {}
        self._duckdb: dict[str, pa.Table] | None = None

    def read(self, *names: str) -> list[Any]:
        """The DataFrames of tables."""
        return [self.spark.read.parquet(str(self.folder / name)) for name in names]

    def frame(self, result: str) -> Any:
        """The DataFrame of a job."""
        if result not in self._frames:
            self._frames[result] = RESULTS[result](self)
        return self._frames[result]

    def result(self, name: str) -> pa.Table:
        if name not in self._results:
            self._results[name] = self.frame(name).toArrow()
        return self._results[name]

    def rows(self, result: str) -> list[dict[str, Any]]:
        return self.result(result).to_pylist()

    def table(self, name: str) -> list[dict[str, Any]]:
        """A table of the export."""
        return pq.read_table(self.folder / name).to_pylist()

    def in_duckdb(self, name: str) -> pa.Table:
        """The result of a script of SQL, or of a dbt model (`dbt_NAME`)."""
        if self._duckdb is None:
            views = [view for path in sorted(SQL.glob("*.sql")) for view in views_of(path.read_text())]
            names = [*RESULTS, *(f"dbt_{result}" for result in RESULTS)]
            found = in_duckdb(self.folder, [*views, *dbt_views()], [f"FROM {name}" for name in names])
            self._duckdb = dict(zip(names, found, strict=True))
        return self._duckdb[name]


def views_of(script: str) -> list[str]:
    return [statement for statement in script.split(";\n") if "CREATE OR REPLACE TEMP VIEW" in statement]


def dbt_views() -> Iterator[str]:
    """The dbt models as views, as dbt would render them."""
    (source,) = yaml.safe_load((DBT / "models" / "sources.yml").read_text())["sources"]
    where = jinja2.Template(source["config"]["meta"]["external_location"]).render(env_var=lambda name, default: ".")
    names = {table["name"] for table in source["tables"]}

    def source_of(database: str, table: str) -> str:
        assert (database, table in names) == ("kshark", True)
        return where.format(name=table)

    for view in RESULTS:
        model = (DBT / "models" / f"{view}.sql").read_text()
        query = jinja2.Template(model).render(source=source_of, ref=lambda other: f"dbt_{other}")
        yield f"CREATE OR REPLACE TEMP VIEW dbt_{view} AS {query}"


def export(folder: Path, *captures: Path) -> Path:
    assert kshark.cli.main(["export", *map(str, captures), "--each", "-q", "-o", str(folder)]) in (0, 2)
    return folder


#: So few rows are handled sooner than Spark plans, writes and compiles the code for many. A slow test does without.
FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module")
def quick_spark(spark: Any) -> Iterator[Any]:
    earlier = {name: spark.conf.get(name) for name in FEW_ROWS}
    for name, value in FEW_ROWS.items():
        spark.conf.set(name, value)
    yield spark
    spark.catalog.clearCache()
    for name, value in earlier.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def bundled(quick_spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(quick_spark, export(tmp_path_factory.mktemp("bundled") / "tables", CAPTURES))


@pytest.fixture(scope="module")
def unshared(quick_spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """An export without share groups: most of its tables have no rows."""
    return Tables(quick_spark, export(tmp_path_factory.mktemp("unshared") / "tables", CAPTURES / "produce-mix.pcap"))


# -- Spark, DuckDB and dbt


@pytest.mark.parametrize("result", sample_of(RESULTS, 3, seed=1))
def test_spark_and_duckdb_give_the_same_rows(bundled: Tables, result: str) -> None:
    found, expected = bundled.result(result), bundled.in_duckdb(result)
    assert found.num_rows > 0
    assert sorted(found.column_names) == sorted(expected.column_names)
    assert rows(found) == rows(expected.select(found.column_names))


@pytest.mark.parametrize("result", RESULTS)
def test_dbt_models_give_the_same_rows(bundled: Tables, result: str) -> None:
    assert rows(bundled.in_duckdb(f"dbt_{result}")) == rows(bundled.in_duckdb(result))


def test_dbt_models_are_those_that_the_sql_makes() -> None:
    """Otherwise: python -m tools.dbt_models"""
    written = {path.stem: path.read_text() for path in (DBT / "models").glob("*.sql")}
    assert written == dbt_models.all_models()
    assert written.keys() == RESULTS.keys()


def test_the_tests_of_the_dbt_models_hold(bundled: Tables) -> None:
    """dbt would run them: not_null, unique, accepted_values."""
    described = yaml.safe_load((DBT / "models" / "schema.yml").read_text())["models"]
    assert {model["name"] for model in described} == RESULTS.keys()
    for model in described:
        for column in model["columns"]:
            cells = bundled.in_duckdb(model["name"])[column["name"]].to_pylist()
            for test in column.get("data_tests", ()):
                match test:
                    case "not_null":
                        assert None not in cells, (model["name"], column)
                    case "unique":
                        assert len({*cells}) == len(cells), (model["name"], column)
                    case {"accepted_values": {"arguments": {"values": values}}}:
                        assert {*cells} <= {*values}, (model["name"], column)
                    case _:
                        pytest.fail(f"unknown test {test}")


@pytest.mark.parametrize("result", RESULTS)
def test_no_python_is_in_the_plan(bundled: Tables, result: str, capsys: pytest.CaptureFixture[str]) -> None:
    bundled.frame(result).explain()
    plan = capsys.readouterr().out
    assert "Physical Plan" in plan
    assert re.findall(r"\w*(?:Python|Pandas|InArrow)\w*", plan) == []


@pytest.mark.parametrize(
    "job",
    [name if name == "epochs" else pytest.param(name, marks=pytest.mark.slow) for name in sorted(SCRIPTS)],
)
def test_a_job_prints_a_table_without_rows(
    unshared: Tables, job: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a script, on tables of which some have no rows. Those that do not ask for share groups have some."""
    path = JOBS / f"{job}.py"
    monkeypatch.setattr(sys, "argv", [str(path), str(unshared.folder)])
    runpy.run_path(str(path), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].lstrip("| ").startswith("capture")
    assert (len(lines) > 5) == (job in ("latency", "capture_quality"))


def test_jobs_are_short_and_import_no_kshark() -> None:
    """An engineer reads one in five minutes, and copies it to a cluster as it is."""
    assert {path.stem for path in JOBS.glob("*.py")} == SCRIPTS
    for path in JOBS.glob("*.py"):
        assert 40 <= len(path.read_text().splitlines()) <= 100
        modules = re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.M)
        assert {*modules} <= {"argparse", "pyspark"}, path


@pytest.mark.slow
def test_a_job_writes_parquet(unshared: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["epochs.py", str(unshared.folder), "-o", str(tmp_path)])
    runpy.run_path(str(JOBS / "epochs.py"), run_name="__main__")
    assert {path.name for path in tmp_path.iterdir()} == {"epochs", "epoch_runs"}


# -- epochs


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["capture"], row["flow_id"], row["exchange"], row["correlation_id"]


def compared(tables: Tables) -> Counter[str]:
    """Compare each request's due epoch with what the engine knows: one epoch, one of several, or nothing."""
    due = {key(row): row["epoch_due"] for row in tables.rows("epochs")}
    found: Counter[str] = Counter()
    for step in tables.table("steps"):
        expected = step["expected"]
        if expected is None:
            found["unknown to the engine"] += 1
        elif due[key(step)] in expected:
            found["equal" if len(expected) == 1 else "one of several"] += 1
        else:
            found["different"] += 1
    return found


def test_the_due_epoch_is_the_one_that_the_broker_expected(bundled: Tables) -> None:
    found = compared(bundled)
    assert found["different"] == 0
    assert found["equal"] > 1600


@pytest.mark.parametrize("code", [SESSION_NOT_FOUND, INVALID_SESSION_EPOCH])
def test_every_refusal_is_in_a_run(bundled: Tables, code: int) -> None:
    """As many as `kshark sessions` counts."""
    runs: Counter[str] = Counter()
    for run in bundled.rows("epoch_runs"):
        runs[run["capture"]] += run["refusals"] if run["error_code"] == code else 0
    listed: Counter[str] = Counter()
    for session in bundled.table("sessions"):
        listed[session["capture"]] += sum(
            refused["requests"] for refused in session["rejected"] if refused["error_code"] == code
        )
    assert +runs == +listed
    assert listed.total() > 15


def test_a_refusal_has_the_cause_of_its_finding(bundled: Tables) -> None:
    cause = {key(row): row["cause"] for row in bundled.rows("epochs") if row["error_code"] == INVALID_SESSION_EPOCH}
    found = {
        key(finding): finding["cause"]
        for finding in bundled.table("findings")
        if finding["cause"] is not None and key(finding) in cause
    }
    assert found.items() <= cause.items()
    assert len(found) >= 15


def test_a_run_says_how_the_session_recovered(bundled: Tables) -> None:
    shown = [
        (run["first_packet"], run["error_code"], run["refusals"], run["epoch_used"], run["epoch_due"], run["recovery"])
        for run in bundled.rows("epoch_runs")
        if run["capture"] == "adv-epochs.pcap"
    ]
    assert sorted(shown)[:6] == [
        (154, 122, 5, 1, None, "next error 123"),
        (164, 123, 1, 0, 0, "new session"),
        (174, 123, 1, 3, 1, "due epoch used"),
        (183, 123, 1, 1, 2, "due epoch used"),
        (191, 123, 4, 1, 4, "due epoch used"),
        (205, 123, 1, 4, 5, "due epoch used"),
    ]


def test_the_count_of_epochs_wraps_ends_and_waits(bundled: Tables) -> None:
    """What no bundled capture has together: the last epoch, the final one, an overtaken fetch."""
    requests, steps = bundled.read("share_requests", "steps")
    shown = [
        "0, 'ShareFetch', 0, 10, 'a'",
        "1, 'ShareFetch', 123, 500, 'a'",  # waits, while the next request comes on another connection
        "2, 'ShareAcknowledge', 0, 10, 'b'",
        "2, 'ShareAcknowledge', 123, 10, 'b'",
        "2147483647, 'ShareFetch', 0, 10, 'b'",
        "1, 'ShareFetch', null, null, 'b'",
        "1, 'ShareFetch', -1, 10, 'b'",  # an unknown topic: counted
        "-1, 'ShareAcknowledge', 0, 10, 'b'",
        "1, 'ShareFetch', 122, 10, 'b'",
    ]
    rows = ", ".join(f"({n}, {row})" for n, row in enumerate(shown))
    names = "packet, epoch, api, error_code, latency_ns, flow_id"
    made = bundled.spark.sql(
        f"SELECT *, 'c' AS capture, 1 AS session_key, packet * 100 AS ts_ns, false AS repeats, packet AS exchange, "
        f"packet AS correlation_id FROM VALUES {rows} AS shown({names})"
    )
    found = epochs.epochs(requests.limit(0).unionByName(made, allowMissingColumns=True), steps.limit(0))
    assert [row.epoch_due for row in found.orderBy("packet").collect()] == [None, 1, 2, 3, 3, 1, 1, 2, 0]


# -- sessions, redelivery, latency, capture quality


def test_sessions_have_all_their_requests(bundled: Tables) -> None:
    listed = {(row["capture"], row["group_id"], row["member_id"], row["broker"], row["session"]): row for row in
              bundled.table("sessions")}  # fmt: skip
    found = bundled.rows("share_sessions")
    assert len(found) == len(listed)
    for row in found:
        same = listed[row["capture"], row["group_id"], row["member_id"], row["broker"], row["session"]]
        refused = {refusal["error_code"]: refusal["requests"] for refusal in same["rejected"]}
        assert (row["requests"], row["accepted"], row["ended"]) == (same["requests"], same["accepted"], same["ended"])
        assert row["fetches"] + row["acknowledge_requests"] == row["requests"]
        assert row["epoch_refusals"] == refused.get(INVALID_SESSION_EPOCH, 0)
        assert row["not_found_refusals"] == refused.get(SESSION_NOT_FOUND, 0)


@pytest.mark.parametrize("capture", ["share-java-explicit-4.1.2.pcap", "share-restart.pcap", "share-java-renew.pcap"])
def test_sessions_have_all_their_records(bundled: Tables, capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As many as the metrics of `kshark stats --share` count."""
    (shown,) = runner(capsys)("stats", "--share", CAPTURES / capture, "-T", "json").json
    metrics: Counter[str] = Counter()
    for group in shown["groups"]:
        metrics.update({name: count or 0 for name, count in (group["metrics"] | group["members_metrics"]).items()})
    totals: Counter[str] = Counter()
    for row in bundled.rows("share_sessions"):
        if row["capture"] == capture:
            totals.update({name: count for name, count in row.items() if name.startswith("records_")})
    types = {"accept": "accepted", "release": "released", "reject": "rejected", "renew": "renewed"}
    assert totals["records_acquired"] == metrics["records-fetched-total"] > 0
    assert totals["records_redelivered"] == metrics["records-redelivered"] > 0
    for type_, name in types.items():
        assert totals[f"records_{name}"] == metrics[f"record-acknowledgement-count{{ack-type={type_}}}"]


@pytest.mark.slow
def test_damaged_offsets_are_no_records(bundled: Tables) -> None:
    """A range of all offsets, two that end before they begin, and one of three records, which came again."""
    ranges = ["0, 9223372036854775807", "50, 49", "9223372036854775807, -9223372036854775808", "7, 9", "7, 9"]
    rows = ", ".join(f"({n}, {offsets})" for n, offsets in enumerate(ranges, 1))
    made = bundled.spark.sql(
        "SELECT *, 'c' AS capture, 'c:1' AS flow_id, 1 AS exchange, 1 AS correlation_id, 'g' AS group_id, "
        "'t' AS topic_id, 0 AS partition, 'm' AS member_id, 9 AS session_key, 1 AS session, smallint(0) AS error_code, "
        "array(1) AS types, n AS delivery_count, 10 * n AS packet "
        f"FROM VALUES {rows} AS shown(n, first_offset, last_offset)"
    )
    acquired, acknowledgements, steps, listed = (
        table.limit(0).unionByName(made.where(which).select(*(set(made.columns) & set(table.columns))), True)
        for table, which in zip(
            bundled.read("acquired", "acknowledgements", "steps", "sessions"), ("true", "n < 5", "n = 1", "n = 1"),
            strict=True,
        )
    )  # fmt: skip
    (row,) = sessions.sessions(listed, steps, acquired, acknowledgements).collect()
    assert (row.records_acquired, row.records_redelivered, row.records_accepted) == (6, 6, 3)
    causes = redelivery.redelivery(acquired, acknowledgements, steps, listed).collect()
    assert {row.cause: row.redeliveries for row in causes} == {"before the capture": 3, "acknowledged": 3}


#: What `kshark deliveries` says of a record last, before it is acquired again; several for a cause of the job: the
#: engine sees more (offsets before the start offset, leaders), and then does not know what became of a record.
BEFORE = {
    "released": {"released", "acquired", "leader_changed"},
    "session ended": {"session_released"},
    "lock expired": {"lock_timeout", "acquired", "leader_changed"},
    "offsets reset": {"accepted", "rejected", "gap", "lock_timeout"},
    "unknown": {"acquired", "lock_timeout"},
}


@pytest.mark.parametrize(
    "capture",
    ["adv-acks.pcap", "adv-epochs.pcap", "adv-races-4.1.2.pcap", "share-java-explicit.pcap", "share-java-renew.pcap",
     "share-leaders.pcap", "share-librdkafka.pcap", "share-restart.pcap"],
)  # fmt: skip
def test_a_redelivery_has_the_cause_that_the_engine_sees(
    bundled: Tables, capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    last: dict[tuple[Any, ...], str] = {}
    before: Counter[str] = Counter()
    for change in runner(capsys)("deliveries", CAPTURES / capture, "-T", "json").json:
        for first, end in change["offsets"]:
            for offset in range(first, end + 1):
                record = (change["group_id"], change["topic_id"], change["partition"], offset)
                if change["event"] == "acquired" and record in last:
                    before[last[record]] += 1
                if change["event"] != "renewed":
                    last[record] = change["event"]
    causes: Counter[str] = Counter()
    for row in bundled.rows("redelivery"):
        if row["capture"] == capture:
            causes[row["cause"]] += row["redeliveries"]
    assert causes.total() == before.total() > 0
    assert causes["session ended"] == before["session_released"]
    for cause, redeliveries in causes.items():
        assert redeliveries <= sum(before[event] for event in BEFORE[cause]), cause
    for event in ("released", "lock_timeout"):
        assert before[event] <= sum(count for cause, count in causes.items() if event in BEFORE[cause]), event


@pytest.mark.parametrize(
    "capture", ["adv-epochs.pcap", "produce-mix.pcap", "share-restart.pcap", "zk-old-clients.pcap"]
)
def test_latencies_are_those_of_the_statistics(
    bundled: Tables, capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = runner(capsys)("stats", CAPTURES / capture, "-T", "json").json
    expected: dict[str, list[Any]] = {}
    for api in shown["apis"]:
        if api["latency_ms"] is not None:
            one = expected.setdefault(api["api"], [0, 0.0, 0.0])
            one[0] += api["responses"]
            one[1] = max(one[1], (api["work_ms"] or {"max": 0})["max"])
            one[2] = max(one[2], (api["wait_ms"] or {"max": 0})["max"])
    found: dict[str, list[Any]] = {}
    for row in bundled.rows("latency"):
        if row["capture"] == capture:
            one = found.setdefault(row["api"], [0, 0.0, 0.0])
            one[0] += row["answers"]
            one[1] = max(one[1], row["work_max_ms"] or 0)
            one[2] = max(one[2], row["wait_max_ms"] or 0)
    assert found.keys() == expected.keys()
    for name, row in found.items():
        assert row == pytest.approx(expected[name]), name


def test_the_quality_of_a_capture_is_what_the_commands_count(
    bundled: Tables, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {row["capture"]: row for row in bundled.rows("capture_quality")}
    verdicts = Counter((finding["capture"], finding["verdict"]) for finding in bundled.table("findings"))
    for capture, row in found.items():
        counted = {"violation": row["violations"], "unknown": row["unproved"], "note": row["notes"]}
        assert counted == {verdict: verdicts[capture, verdict] for verdict in counted}
    for capture in ("adv-frames.pcap", "tcp-var-missed.pcap", "tcp-var-oneside.pcap"):
        row = found[capture]
        (shown,) = runner(capsys)("stats", CAPTURES / capture, "-T", "json").json
        outcomes = {name: row[name] for name in ("answered", "unanswered")} | {"orphan": row["orphans"], "one_way": 0}
        assert outcomes | {"one_way": shown["exchanges"]["one_way"]} == shown["exchanges"]
        assert row["connections"] == sum(flows["connections"] for flows in shown["flows"])
        assert row["bytes"] == sum(flows["bytes"] for flows in shown["flows"])
        assert row["gaps"] == sum(flows["gaps"] for flows in shown["flows"])
    judged = {capture: (found[capture]["judged"], found[capture]["because"]) for capture in found}
    assert judged["share-restart.pcap"] == ("all", "")
    assert judged["tcp-var-missed.pcap"] == ("parts", "13 gaps, 2 begun before")
    assert judged["tcp-var-oneside.pcap"][0] == "nothing"


def test_a_capture_that_cannot_be_read_has_a_row(bundled: Tables) -> None:
    flows, weirds, exchanges, findings, faults = bundled.read("flows", "weirds", "exchanges", "findings", "faults")
    cut = faults.unionByName(
        bundled.spark.sql("SELECT 'cut.pcap' AS capture, 'damaged' AS code, 'read' AS stage"), allowMissingColumns=True
    )
    none = (table.limit(0) for table in (flows, weirds, exchanges, findings))
    (row,) = capture_quality.capture_quality(*none, cut).collect()
    assert (row.capture, row.judged, row.because) == ("cut.pcap", "nothing", "not read: damaged, no Kafka connection")


# -- thoroughly


@pytest.mark.slow
def test_spark_submit_runs_a_job(bundled: Tables) -> None:
    java = find_java()
    assert java is not None
    command = [Path(sys.executable).with_name("spark-submit"), "--properties-file", JOBS / "local.conf"]
    done = subprocess.run(
        [*map(str, command), str(JOBS / "epochs.py"), str(bundled.folder)],
        env={"JAVA_HOME": str(java.home), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 3,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("|adv-epochs.pcap") == 11


@pytest.mark.slow
@pytest.mark.parametrize("folder", every(path.name for path in SHARED_FOLDERS))
def test_shared_captures(spark: Any, tmp_path: Path, folder: str) -> None:
    """Spark's rows are DuckDB's; the due epochs are the engine's, but for requests that crossed each other."""
    tables = Tables(spark, export(tmp_path / "tables", shared("captures", folder)))
    for result in RESULTS:
        found, expected = tables.result(result), tables.in_duckdb(result)
        assert rows(found) == rows(expected.select(found.column_names)), result
    compare = compared(tables)
    print(folder, dict(compare))
    assert compare["different"] <= (20 if folder == "walks" else 0)
    refused = [row for row in tables.rows("epochs") if row["error_code"] == INVALID_SESSION_EPOCH]
    runs = [row["refusals"] for row in tables.rows("epoch_runs") if row["error_code"] == INVALID_SESSION_EPOCH]
    assert sum(runs) == len(refused)
