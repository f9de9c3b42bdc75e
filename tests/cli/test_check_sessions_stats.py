"""`kshark check`, `kshark sessions`, `kshark stats` and `kshark export` on the same incident."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kshark as face
from kshark import limits
from tests.cli.command import Run
from tests.cli.incident import incident, written
from tests.shared import CAPTURES


def test_check_says_who_broke_the_rule_and_answers_1(kshark: Run, trace: Path) -> None:
    done = kshark("check", trace)
    assert done.code == 1
    assert done.lines[0].startswith("Client c1 (apache-kafka-java 4.3.1) sent a share session epoch that is too high: ")
    assert ", group billing, " in done.lines[0]
    assert done.lines[0].endswith(". EPOCH_SKIP_AHEAD")
    assert done.lines[1].startswith("  → Count a request when its answer arrives")
    assert done.lines[-2].startswith("1 violation: EPOCH_SKIP_AHEAD · ")
    assert "judged 7 of 9 requests with 10.0.0.9:9092 · " in done.lines[-1]
    assert done.lines[-1].endswith(" · the one error is explained")
    assert done.err == ""


def test_the_findings_stand_below_the_headlines_where_they_are_wanted(kshark: Run) -> None:
    epochs = CAPTURES / "adv-epochs.pcap"
    done = kshark("check", epochs)
    assert len(done.lines) < 24
    assert "kshark explain " not in done.out
    every = kshark("check", epochs, "-V")
    assert sum("kshark explain " in line for line in every.lines) == 49
    assert every.out.startswith(done.out)
    some = kshark("check", epochs, "--details", "TWO_COUNTERS")
    assert {line.split()[1] for line in some.lines if line.startswith("03:") and "  TWO_" in line} == {"TWO_COUNTERS"}


def test_a_capture_in_which_nothing_hurts_has_no_headline(kshark: Run) -> None:
    done = kshark("check", CAPTURES / "share-dead-letters-4.4.0.pcap")
    assert done.lines[0].startswith("0 violations · ")


def test_an_event_comes_first_with_the_findings_that_it_explains(kshark: Run) -> None:
    done = kshark("check", CAPTURES / "share-restart.pcap")
    assert done.lines[0].startswith("Broker 127.0.0.1:20092 was down for ")
    assert done.lines[0].endswith(" BROKER_DOWN")
    assert done.lines[1].startswith("  Explains ")


def test_checks_json_ends_with_the_summary(kshark: Run, trace: Path) -> None:
    *findings, headline, summary = kshark("check", trace, "-T", "json").json
    assert headline["headline"]["code"] == "EPOCH_SKIP_AHEAD"
    assert [finding["code"] for finding in findings] == [finding.code for finding in face.check(trace)]
    (broken,) = [finding for finding in findings if finding["verdict"] == "violation"]
    assert (broken["code"], broken["cause"], broken["group_id"], broken["topic_id"]) == (
        "EPOCH_SKIP_AHEAD",
        "skip_ahead",
        "billing",
        None,
    )
    assert list(summary) == ["summary"]
    assert summary["summary"]["violations"] == 1
    assert summary["summary"]["sessions"] == 2
    assert sum(summary["summary"]["by_code"].values()) == len(findings)
    packets = [finding["packet"] for finding in findings]
    assert packets == sorted(packets)


def test_a_clean_capture_answers_0_and_says_what_was_looked_at(kshark: Run, tmp_path: Path) -> None:
    clean = written(tmp_path, incident()[:20])
    done = kshark("check", clean)
    assert done.code == 0
    assert done.lines[0].startswith("0 violations")


def test_findings_can_be_selected_and_ignored(kshark: Run, trace: Path) -> None:
    assert kshark("check", trace, "--select", "EPOCH_SKIP_AHEAD", "-T", "json").json[0]["code"] == "EPOCH_SKIP_AHEAD"
    ignoring = kshark("check", trace, "--ignore", "epoch_skip_ahead,SESSION_NOT_CLOSED")
    assert ignoring.code == 0
    assert "EPOCH_SKIP_AHEAD" not in ignoring.out
    assert kshark("check", trace, "--select", "SESSION_UNKNOWN").lines[0] == "0 violations"


def test_quiet_leaves_the_verdict(kshark: Run, trace: Path) -> None:
    done = kshark("check", trace, "-q")
    assert done.code == 1
    assert done.lines[0].startswith("1 violation: EPOCH_SKIP_AHEAD")
    assert len(done.lines) <= 3


def test_the_summary_says_what_was_checked_and_what_nothing_explains(kshark: Run, trace: Path) -> None:
    summary = kshark("check", trace, "-T", "json", "-q").json[0]["summary"]
    assert {18, 20, 40} <= set(summary["rules"])
    assert summary["unexplained"] == []
    assert (summary["covered"]["brokers"], summary["covered"]["tls_connections"], summary["covered"]["duplicates"]) == (
        ["10.0.0.9:9092"],
        0,
        0,
    )
    assert summary["covered"]["since_ns"] < summary["covered"]["until_ns"]
    assert kshark("check", trace, "-T", "json", "-q", "--select", "EPOCH_STALE,NO_RECOVERY").json[0]["summary"][
        "rules"
    ] == [19, 38]


def test_refusals_that_are_nobodys_fault_are_named(kshark: Run) -> None:
    acks = CAPTURES / "adv-acks.pcap"
    *_, judged, expected = kshark("check", acks, "-q").lines
    assert "explained" not in judged, "expected errors have no finding"
    assert "FindCoordinator COORDINATOR_NOT_AVAILABLE ×4 (not_available, 3 clients)" in expected
    (alone,) = kshark("check", acks, "-T", "json", "-q").json
    assert {"api": "FindCoordinator", "error_code": 15, "count": 4} in [
        {name: row[name] for name in ("api", "error_code", "count")} for row in alone["summary"]["ordinary"]
    ]


def test_an_unknown_may_fail(kshark: Run) -> None:
    codes = ["NO_RECOVERY", "EPOCH_STALE"]
    captured = CAPTURES / "adv-epochs.pcap"
    assert [kshark("check", captured, "-q", "--select", code, "--fail-on", "unknown").code for code in codes] == [1, 0]


def test_what_cannot_fail_is_bad_usage(kshark: Run, trace: Path) -> None:
    done = kshark("check", trace, "--fail-on", "unknwon")
    assert (done.code, done.err) == (
        2,
        'kshark: --fail-on: no "unknwon"; did you mean "unknown"? (accepted: violation, unknown, nothing-checked)\n',
    )
    assert (
        kshark("check", trace, "--fail-on", "").err
        == "kshark: --fail-on accepts one or more of violation, unknown, nothing-checked\n"
    )


def test_each_capture_gets_its_own_verdict(kshark: Run, tmp_path: Path) -> None:
    written(tmp_path, incident()[:20], "a.pcap")
    written(tmp_path, name="b.pcap")
    summaries = [line["summary"] for line in kshark("check", tmp_path, "--each", "-T", "json", "-q").json]
    assert [(summary["file"], summary["violations"]) for summary in summaries] == [
        (f"{tmp_path}/a.pcap", 0),
        (f"{tmp_path}/b.pcap", 1),
    ]
    assert kshark("check", tmp_path, "--each").code == 1


def test_sessions_are_listed_with_how_they_ended(kshark: Run, trace: Path) -> None:
    done = kshark("sessions", trace)
    assert done.code == 0
    assert done.lines[0].split()[:4] == ["group", "member", "broker", "#"]
    assert len(done.lines) == 4
    assert "123 ×1" in next(line for line in done.lines if line.startswith("billing"))
    assert "final_epoch" in next(line for line in done.lines if line.startswith("audit"))
    assert done.lines[-1].startswith("2 sessions: ")


def test_sessions_that_are_too_many_to_list_are_counted(kshark: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LISTED_SESSIONS", 5)
    done = kshark("sessions", CAPTURES / "share-restart.pcap")
    assert done.err.startswith("kshark: 3 more share sessions are neither listed nor counted below; ")
    assert done.lines[-1].startswith("5 sessions: ")


def test_sessions_as_json(kshark: Run, trace: Path) -> None:
    by_group = {session["group_id"]: session for session in kshark("sessions", trace, "-T", "json").json}
    billing = by_group["billing"]
    assert (billing["session"], billing["first_epoch"], billing["last_epoch"], billing["requests"]) == (1, 0, 3, 3)
    assert (billing["accepted"], billing["rejected"]) == (2, {"123": 1})
    assert "steps" not in billing
    assert by_group["audit"]["closed"]["how"] == "final_epoch"


def test_a_sessions_steps(kshark: Run, trace: Path) -> None:
    steps = kshark("sessions", trace, "-T", "json", "-V").json[0]["steps"]
    assert [(step["api"], step["epoch"], step["expected"], step["error_code"]) for step in steps] == [
        ("ShareFetch", 0, None, 0),
        ("ShareFetch", 1, 1, 0),
        ("ShareFetch", 3, 2, 123),
    ]
    text = kshark("sessions", trace, "-V")
    assert any(line.split()[-2:] == ["123", "INVALID_SHARE_SESSION_EPOCH"] for line in text.lines)


def test_stats_as_json(kshark: Run, trace: Path) -> None:
    (found,) = kshark("stats", trace, "-T", "json").json
    apis = {api["api"]: api for api in found["apis"]}
    assert {name: api["requests"] for name, api in apis.items()} == {
        "ApiVersions": 2,
        "ShareGroupHeartbeat": 2,
        "ShareFetch": 4,
        "ShareAcknowledge": 1,
    }
    assert apis["ShareFetch"]["errors"] == [{"error_code": 123, "error": "INVALID_SHARE_SESSION_EPOCH", "count": 1}]
    assert apis["ShareFetch"]["latency_ms"] == {"p50": 1.0, "p95": 1.0, "p99": 1.0, "max": 1.0}
    assert found["exchanges"] == {"answered": 9, "unanswered": 0, "one_way": 0, "orphan": 0}
    (client,) = found["clients"]
    assert (client["client_id"], client["software"], client["software_version"]) == ("c1", "apache-kafka-java", "4.3.1")
    assert (client["address"], client["connections"], client["requests"]) == ("10.0.0.1", 2, 9)
    groups = {group["group_id"]: group for group in found["share_groups"]}
    assert groups["billing"] == {
        "group_id": "billing",
        "members": 1,
        "sessions": 1,
        "fetches": 3,
        "acknowledges": 0,
        "acquired": 11,
        "redelivered": 1,
        "greatest_delivery_count": 2,
        "acknowledged": {"gap": 0, "accept": 9, "release": 1, "reject": 0, "renew": 0},
        "errors": [{"error_code": 123, "error": "INVALID_SHARE_SESSION_EPOCH", "count": 1}],
    }


def test_stats_for_a_person(kshark: Run, trace: Path) -> None:
    done = kshark("stats", trace)
    for part in (
        "connections",
        "APIs  latency in ms",
        "errors  every error code",
        "clients",
        "share groups",
        "apache-kafka-java 4.3.1",
    ):
        assert part in done.out
    assert not any(line.endswith(" ") for line in done.lines)


@pytest.mark.parametrize("command", ["check", "read", "sessions", "stats"])
def test_two_captures_of_the_same_traffic_are_told_and_count_once(
    command: str, kshark: Run, trace: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "the-other-end.pcap"
    copy.write_bytes(trace.read_bytes())
    alone, both = kshark(command, trace), kshark(command, trace, copy)
    assert both.code == alone.code
    assert "DUPLICATE_PACKETS" in both.err
    assert " at the same time" in both.err
    assert len(both.lines) == len(alone.lines)


def test_export_writes_the_tables(kshark: Run, trace: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    done = kshark("export", trace, "-o", tmp_path / "tables")
    assert (done.code, done.out) == (0, "")
    manifest = json.loads((tmp_path / "tables" / "manifest.json").read_text())
    rows = {name: table["rows"] for name, table in manifest["tables"].items()}
    assert (rows["exchanges"], rows["share_requests"], rows["flows"]) == (9, 5, 2)
    assert rows["findings"] == len(list(face.check(trace)))
    assert f"rows in {tmp_path}/tables" in done.err
    assert "exchanges 9" in done.err


def test_export_needs_a_folder_of_its_own(kshark: Run, trace: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "precious.txt").write_text("mine")
    done = kshark("export", trace, "-o", tmp_path)
    assert done.code == 2
    assert "precious.txt" in done.err
    assert (tmp_path / "precious.txt").read_text() == "mine"


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_export_goes_on_where_it_stopped(kshark: Run, trace: Path, tmp_path: Path, jobs: int) -> None:
    """Many small captures share a file of each table."""
    pytest.importorskip("pyarrow")
    copies = [tmp_path / f"{number}.pcap" for number in range(5)]
    for number, copy in enumerate(copies):
        copy.write_bytes(trace.read_bytes() + bytes(number))

    def export(files: list[Path]) -> str:
        done = kshark("export", *files, "--each", "-o", tmp_path / "tables", "--resume", "--jobs", jobs)
        assert done.code == 0
        return done.err

    assert "exchanges 27" in export(copies[:3])
    assert "exchanges 18" in (said := export(copies))
    assert "3 captures already in it" in said
    assert "nothing new in" in (said := export(copies))
    assert "5 captures already in it" in said
    manifest = json.loads((tmp_path / "tables" / "manifest.json").read_text())
    assert [capture["name"] for capture in manifest["captures"]] == [copy.name for copy in copies]
    assert manifest["tables"]["exchanges"]["rows"] == 45
    assert max(len(table["files"]) for table in manifest["tables"].values()) <= 2 * jobs


def test_partitions_have_the_id_of_the_cluster(kshark: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    done = kshark(
        "export", CAPTURES / "share-restart.pcap", "-o", tmp_path / "tables", "--partition-by", "cluster,date"
    )
    assert done.code == 0
    rows = parquet.read_table(tmp_path / "tables" / "share_requests").to_pylist()
    assert {(str(row["date"]), row["cluster"]) for row in rows} == {("2026-11-21", "c2hhcmVDYXB0dXJlc0tpdA")}
    assert kshark("export", CAPTURES / "share-restart.pcap", "-o", tmp_path, "--partition-by", "hour").err == (
        'kshark: "hour" is not a partition key; write --partition-by date,cluster, or one of them\n'
    )
