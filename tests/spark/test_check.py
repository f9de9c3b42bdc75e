"""The same findings from Spark: from tables, from captures, from several of them; and how the work is laid out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import kshark.cli
import kshark_spark.cli
import kshark_spark.suspects
from kshark.output.manifest import read_manifest
from kshark_spark.frames import table
from tests.analysis.talks import handed
from tests.conversation import TOPIC, Conversation
from tests.output.exporting import exported, made_earlier
from tests.packets import ACK, pcap
from tests.shared import CAPTURES, sample_of

pytestmark = pytest.mark.spark

CHECKED = (
    "adv-epochs",
    "adv-sessions-4.2.1",
    "adv-races-4.1.2",
    "adv-members",
    "share-java-explicit",
    "share-restart",
    "share-loss",
    "security-sasl",
)

EARLIER = (CAPTURES / "adv-epochs.pcap", CAPTURES / "share-loss.pcap")


def odd_files(folder: Path) -> Path:
    """A sound capture beside files that are none, or only a part of one."""
    folder.mkdir()
    sound = (CAPTURES / "adv-epochs.pcap").read_bytes()
    (folder / "sound.pcap").write_bytes(sound)
    (folder / "empty.pcap").touch()
    (folder / "random.pcap").write_bytes(Random(1).randbytes(3000))
    (folder / "short.pcap").write_bytes(sound[:20])
    (folder / "cut.pcap.gz").write_bytes(gzip.compress((CAPTURES / "aimed.pcap").read_bytes())[:40_000])
    return folder


def told_late(*, also_early: bool) -> Conversation:
    talk = Conversation()
    holed, other = talk.connection(host="10.0.0.2"), talk.connection(host="10.0.0.3")
    member = talk.member("a", connection=talk.connection())
    asked = holed.ask(3, "Metadata", 12, {"topics": None})
    holed.tcp.seq[1] += 10
    asked.answered(None, topics=[{"name": "late", "topic_id": TOPIC}])
    talk.pause(1)
    member.share_fetch(0, [0]).answered(responses=handed((0, 1, 5)))
    if also_early:
        other.ask(3, "Metadata", 12, {"topics": None}).answered(None, topics=[{"name": "early", "topic_id": TOPIC}])
    else:
        other.api_versions("4.2")
    for _ in range(2):  # what it acknowledges is not waited for
        holed.tcp._send(0, ACK)
        talk.pause(1)
    member.share_fetch(1, [0], acks=[(7, 9, 1)]).answered(acks={0: 121}, responses=handed((0, 10, 12)))
    return talk


def said(capsys: pytest.CaptureFixture[str], main: Any, *words: str) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    capsys.readouterr()
    code = main([*words])
    return code, capsys.readouterr().out


def both(capsys: pytest.CaptureFixture[str], given: list[str], to_spark: list[str] | None = None) -> None:
    """kshark check and kshark-spark check print the same, to the letter."""
    expected = said(capsys, kshark.cli.main, "check", *given)
    assert said(capsys, kshark_spark.cli.main, "check", *(to_spark or given), "--master", "local[2]") == expected


@pytest.mark.parametrize("name", sample_of(CHECKED, 3, seed=2))
def test_tables_give_the_findings_that_packets_give(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    capture = str(CAPTURES / f"{name}.pcap")
    assert said(capsys, kshark.cli.main, "export", capture, "-o", str(tmp_path))[0] == 0
    both(capsys, [capture, "-T", "json"], [str(tmp_path), "-T", "json"])


def test_tables_tell_the_name_that_the_time_line_told_first(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of two, that of an earlier packet was known late."""
    capture = tmp_path / "late.pcap"
    capture.write_bytes(pcap(packet for _, packet in told_late(also_early=True).packets()))
    assert said(capsys, kshark.cli.main, "export", str(capture), "-o", str(tmp_path / "tables"))[0] == 0
    assert "topic early" in said(capsys, kshark.cli.main, "check", "-V", str(capture))[1]
    both(capsys, ["-V", str(capture)], ["-V", str(tmp_path / "tables")])


def test_a_member_with_most_of_the_exchanges_is_named(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number of tasks makes its part of the check faster. Of few exchanges there is nothing to note, nor of packets
    that became tables."""
    assert said(capsys, kshark.cli.main, "export", str(CAPTURES / "adv-epochs.pcap"), "-o", str(tmp_path))[0] == 0
    told = []
    for many in (kshark_spark.suspects._MANY, 3):
        monkeypatch.setattr(kshark_spark.suspects, "_MANY", many)
        kshark_spark.cli.main(["check", str(tmp_path), "--master", "local[2]"])
        told.append(capsys.readouterr().err)
    who = "member (6L2wg8gJQne7ftm-XDlUYw of group g)"
    assert told == [
        "",
        f"kshark-spark: one {who} has 64 of 82 exchanges to judge: one task judged them while others had little\n",
    ]


@pytest.mark.slow
def test_a_member_with_half_of_the_requests_is_judged_as_by_one_process(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In either way, by several tasks; nothing stays on the disks of Spark's workers."""
    from benchmarks.share_tables import NAME, Group, make
    from benchmarks.spark_tables import by_one_process
    from kshark_spark import slices
    from kshark_spark.check import check
    from kshark_spark.tables import exported as tables_in

    make(tmp_path / "tables", Group(20, 100, heavy=True))
    monkeypatch.setattr(slices, "ROWS", 1000)
    run, outcomes = by_one_process(spark, tmp_path / "tables"), []
    for everybody in (False, True):
        checked = check(tables_in(spark, tmp_path / "tables"), [NAME], 4, outcomes=everybody)[NAME]
        assert checked.findings == [*run.findings]
        assert checked.observed == run.observed
        outcomes.append(checked.outcomes)
    assert outcomes[1] == run.outcomes
    assert len(outcomes[0]) < len(outcomes[1]) == 21
    assert [entry.name() for entry in spark._jsc.sc().getRDDStorageInfo()] == []


def test_text_is_the_same_too(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    both(capsys, [str(CAPTURES / "adv-epochs.pcap")])


def test_two_captures_are_one_unless_told(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    captures = [str(CAPTURES / "adv-epochs.pcap"), str(CAPTURES / "adv-sessions-4.2.1.pcap")]
    both(capsys, [*captures, "-T", "json"])
    both(capsys, [*captures, "--each"])


def test_a_folder_with_files_that_are_no_captures_is_checked_the_same(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each such file is named, and the others are read."""
    folder = odd_files(tmp_path / "odd")
    for words in ([], ["--each"], ["--each-folder"]):
        printed = []
        for who, main in (("kshark", kshark.cli.main), ("kshark-spark", kshark_spark.cli.main)):
            assert main(["check", str(folder), *words]) == 1
            out, err = capsys.readouterr()
            left_out = sorted(line for line in err.splitlines() if line.endswith("; the other files are read"))
            printed.append((out, [line.removeprefix(f"{who}: ") for line in left_out]))
        assert printed[0] == printed[1]
        assert [line.split(":")[0] for line in printed[0][1]] == [
            f"{folder}/{name}.pcap" for name in ("empty", "random", "short")
        ]


def test_selected_findings_are_the_same(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    both(capsys, [str(CAPTURES / "adv-epochs.pcap"), "--ignore", "NO_RECOVERY,SESSION_REOPEN", "-T", "json"])


def test_coverage_is_the_same(spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """From tables too: whoever asks for it has everybody judged."""
    capture = str(CAPTURES / "adv-members.pcap")
    both(capsys, [capture, "-q", "--coverage"])
    assert said(capsys, kshark.cli.main, "export", capture, "-o", str(tmp_path))[0] == 0
    both(capsys, [capture, "-q", "--coverage", "-T", "json"], [str(tmp_path), "-q", "--coverage", "-T", "json"])


def test_what_puts_rules_about_bytes_to_the_test_is_counted_the_same(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Also where tables were made of opened records: then a check that opens them is what they come to."""
    capture, coverage = str(CAPTURES / "hostile-records.pcap"), ["-q", "--coverage", "-T", "json"]
    both(capsys, [capture, *coverage])
    for opened, folder in (([], tmp_path / "closed"), (["--records"], tmp_path / "opened")):
        assert said(capsys, kshark.cli.main, "export", capture, *opened, "-o", str(folder))[0] == 0
        both(capsys, [capture, *coverage, *opened], [str(folder), *coverage])


def test_the_exit_code_says_whether_a_rule_was_broken(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    clean = str(CAPTURES / "share-java-explicit.pcap")
    assert said(capsys, kshark_spark.cli.main, "check", clean, "-T", "json", "--master", "local[2]")[0] == 0


def test_an_export_from_spark_holds_the_same_rows(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    captures = [str(CAPTURES / "adv-epochs.pcap"), str(CAPTURES / "seed-messy.pcap")]
    assert (
        said(capsys, kshark.cli.main, "export", *captures, "--each", "--records", "-o", str(tmp_path / "one"))[0] == 0
    )
    words = ["export", *captures, "--each", "--records", "-o", str(tmp_path / "two"), "--master", "local[2]"]
    assert said(capsys, kshark_spark.cli.main, *words)[0] == 0

    one, two = (read_manifest(tmp_path / folder) for folder in ("one", "two"))
    assert one.captures == two.captures
    assert {name: table.rows for name, table in one.tables.items()} == {
        name: table.rows for name, table in two.tables.items()
    }
    for name in one.tables:
        found = [pq.read_table(tmp_path / folder / name) for folder in ("one", "two")]
        if name == "captures":
            found = [rows.drop_columns(["seconds"]) for rows in found]
        rows = [sorted(map(str, each.to_pylist())) for each in found]
        assert rows[0] == rows[1], name
    assert len(list((tmp_path / "two" / "exchanges").iterdir())) == 2


# -- what goes wrong


def test_bad_usage_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words, sentence in (
        (["chekc", "a.pcap"], 'no command "chekc"; did you mean "check"?'),
        (["check", str(tmp_path / "absent.pcap")], "no such file"),
        (["check", "-"], "standard input"),
        (["export", str(CAPTURES / "adv-epochs.pcap")], "name one with -o"),
        (["check", str(CAPTURES / "README.md")], "no capture"),
    ):
        assert kshark_spark.cli.main(words) == 2
        said_there = capsys.readouterr()
        assert said_there.out == ""
        assert sentence in said_there.err
        assert len(said_there.err.strip().splitlines()) == 1


def test_an_export_that_was_not_finished_is_named_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "exchanges").mkdir()
    assert kshark_spark.cli.main(["check", str(tmp_path)]) == 2
    assert "did not finish" in capsys.readouterr().err


def test_a_folder_of_tables_stands_alone(spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    exported(tmp_path, {})
    assert kshark_spark.cli.main(["check", str(tmp_path), "a.pcap"]) == 2
    assert kshark_spark.cli.main(["export", str(tmp_path), "-o", str(tmp_path / "x")]) == 2
    assert said(capsys, kshark_spark.cli.main, "check", str(tmp_path), "-T", "json", "--master", "local[2]")[0] == 0


def test_a_complete_capture_is_for_one_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kshark_spark.cli.main(["check", str(tmp_path), "--complete"]) == 2
    assert capsys.readouterr().err == (
        "kshark-spark: --complete needs all connections in one process; use kshark check FILE --complete\n"
    )


def test_tables_that_lack_columns_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Who is suspicious is told by columns that earlier exports do not have."""
    manifest = read_manifest(exported(tmp_path, {}))
    requests = msgspec.structs.replace(manifest.tables["share_requests"], version=1)
    tables = {**manifest.tables, "share_requests": requests}
    (tmp_path / "manifest.json").write_bytes(msgspec.structs.replace(manifest, tables=tables).written())
    for command in (["check"], ["report", "-o", str(tmp_path / "report")]):
        assert kshark_spark.cli.main([*command, str(tmp_path)]) == 2
        assert (
            "whose table share_requests has no column previous_epoch, which a check needs; export"
            in capsys.readouterr().err
        )


@pytest.mark.spark
def test_tables_of_an_earlier_version(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns that may be null are; a new export is added to them, with other columns."""
    folder = tmp_path / "t"
    words = ["--each", "-q", "-o", str(folder)]
    assert kshark.cli.main(["export", str(EARLIER[0]), *words]) == 0
    made_earlier(folder, {"exchanges": 2, "flows": 2, "weirds": 1, "findings": 1})
    assert kshark.cli.main(["export", str(EARLIER[1]), *words, "--append"]) == 0
    expected = said(capsys, kshark.cli.main, "check", *map(str, EARLIER), "--each", "-T", "json")[1]
    capsys.readouterr()
    assert kshark_spark.cli.main(["check", str(folder), "-T", "json"]) == 1
    out, err = capsys.readouterr()
    assert "was written by an earlier kshark and lacks exchanges.proxy, exchanges.request_knows_packet" in err
    assert {*violations(out)} < {*violations(expected)}
    assert len(violations(out)) == 27  # of 31
    flows = table(spark, "flows", folder).collect()
    assert {row["capture"] for row in flows} == {file.name for file in EARLIER}
    assert kshark_spark.cli.main(["report", str(folder), "-q", "-o", str(tmp_path / "report")]) == 1


def violations(lines: str) -> list[int]:
    """The packets of violations: with less knowledge, a request may break a more general rule."""
    found = map(json.loads, lines.splitlines())
    return [each["packet"] for each in found if each.get("verdict") == "violation"]


def test_a_request_log_is_judged_alike_with_its_lines(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    both(capsys, ["-V", str(CAPTURES / "share-restart.requests.jsonl.gz")])


def test_tables_of_a_request_log_give_its_findings(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Tables number its messages, and have no lines."""
    log = str(CAPTURES / "share-restart.requests.jsonl.gz")
    assert said(capsys, kshark.cli.main, "export", log, "-o", str(tmp_path))[0] == 0
    by_log = said(capsys, kshark.cli.main, "check", "-T", "json", log)[1]
    by_tables = said(capsys, kshark_spark.cli.main, "check", "-T", "json", str(tmp_path), "--master", "local[2]")[1]
    kept = ("code", "verdict", "cause", "blame", "packet", "time_ns", "until_ns", "client", "member_id")

    def findings(lines: str) -> list[list[Any]]:
        found = map(json.loads, lines.splitlines())
        return [[finding.get(name) for name in kept] for finding in found if "code" in finding]

    assert findings(by_tables) == findings(by_log) != []
