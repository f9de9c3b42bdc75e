"""`-Y` on every command: what is left out, what is judged all the same, and that several processes leave out the
same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kshark.errors import UsageError
from tests.cli.command import Run
from tests.shared import CAPTURES

EPOCHS = CAPTURES / "adv-epochs.pcap"
RESTART = CAPTURES / "share-restart.pcap"
REFUSED = "kafka.error_code == INVALID_SHARE_SESSION_EPOCH"


def messages(kshark: Run, capture: Path, *words: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = kshark("read", capture, "-T", "json", *words).json
    return lines


@pytest.mark.parametrize(
    "text", ["kafka.api == Fetch", REFUSED, "kafka.weird || kafka.latency_ms > 100ms", "kafka.batches.count > 1"]
)
def test_lines_of_messages_are_those_of_the_whole_capture(kshark: Run, text: str) -> None:
    whole = kshark("read", RESTART, "-T", "json").lines
    passed = kshark("read", RESTART, "-T", "json", "-Y", text).lines
    assert len(passed) < len(whole)
    assert set(passed) <= set(whole)


def test_a_count_counts_what_passes(kshark: Run) -> None:
    assert messages(kshark, EPOCHS, "-Y", REFUSED, "-c", "3") == messages(kshark, EPOCHS, "-Y", REFUSED)[:3]


def test_text_trees_and_fields_are_filtered_too(kshark: Run) -> None:
    number = len(messages(kshark, EPOCHS, "-Y", REFUSED))
    assert len(kshark("read", EPOCHS, "-Y", REFUSED).lines) == number
    assert len(kshark("read", EPOCHS, "-Y", REFUSED, "-T", "fields", "-e", "kafka.api").lines) == number
    assert kshark("read", EPOCHS, "-Y", REFUSED, "-V").out.count("123 INVALID_SHARE_SESSION_EPOCH") == number
    assert kshark("read", EPOCHS, "-Y", REFUSED, "-q").out == ""
    assert kshark("read", EPOCHS, "-Y", "kafka.api == Vote", "-T", "json").out == ""


def test_a_period_and_a_filter(kshark: Run) -> None:
    late = messages(kshark, EPOCHS, "--since", "+1s")
    assert messages(kshark, EPOCHS, "--since", "+1s", "-Y", "kafka.request") == [
        line for line in late if line["kind"] == "request"
    ]


@pytest.mark.sweep(quick=2)
@pytest.mark.parametrize(
    "words",
    [
        ("-T", "json", "-Y", "kafka.api == ShareFetch"),
        ("-T", "json", "-Y", "kafka.error_code > 0"),
        (
            "-T",
            "fields",
            "-e",
            "kafka.api",
            "-e",
            "kafka.error_code",
            "-Y",
            "kafka.share_session_epoch > 1 || kafka.response",
        ),
        ("-T", "text", "-Y", "kafka.api_key in {76..79} && kafka.request"),
        ("-T", "text", "-Y", "kafka.error_code > 0"),
        (
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-e",
            "kafka.member_id",
            "-Y",
            "kafka.response && kafka.group_id == sg-rs",
        ),
        ("-V", "-Y", "kafka.error_code > 0"),
    ],
    ids=str,
)
def test_several_processes_show_the_same(kshark: Run, words: tuple[str, ...]) -> None:
    alone, together = (kshark("read", RESTART, EPOCHS, "--each", *words, "--jobs", jobs) for jobs in (1, 2))
    assert alone.out
    assert (together.out, together.err, together.code) == (alone.out, alone.err, alone.code)


@pytest.mark.parametrize("text", [REFUSED, "kafka.api == ShareAcknowledge && kafka.request", "tcp.port == 1"])
def test_a_check_judges_everything_and_shows_what_rests_on_a_message_that_passes(kshark: Run, text: str) -> None:
    every = kshark("check", EPOCHS, "-T", "json")
    shown = kshark("check", EPOCHS, "-T", "json", "-Y", text)
    whole, seen, found, said = every.findings, every.json[-1], shown.findings, shown.json[-1]
    packets = {line["packet"] for line in messages(kshark, EPOCHS, "-Y", text)}

    rests = [
        {each["request_packet"] for each in one["witness"]} | {each["response_packet"] for each in one["witness"]}
        for one in whole
    ]
    assert found == [one for one, on in zip(whole, rests, strict=True) if on & packets]
    assert bool(found) == (text != "tcp.port == 1")
    assert said["summary"]["sessions"] == seen["summary"]["sessions"]
    assert said["summary"]["violations"] == sum(one["verdict"] == "violation" for one in found)


def test_only_what_is_shown_of_a_check_counts(kshark: Run) -> None:
    assert kshark("check", EPOCHS, "-Y", REFUSED).code == 1
    assert kshark("check", EPOCHS, "-Y", "kafka.api == Vote").code == 0


@pytest.mark.parametrize("text", [REFUSED, "kafka.share_session_epoch == -1", "kafka.api == Metadata"])
def test_sessions_with_a_request_or_an_answer_that_passes(kshark: Run, text: str) -> None:
    passed = messages(kshark, EPOCHS, "-Y", text)
    requests = {line.get("request_packet", line["packet"]) for line in passed if line["api_key"] in (78, 79)}
    whole = kshark("sessions", EPOCHS, "-T", "json", "-V").json
    expected = [session for session in whole if requests & {step["packet"] for step in session["steps"]}]

    assert kshark("sessions", EPOCHS, "-T", "json", "-V", "-Y", text).json == expected
    for session in expected:
        del session["steps"]
    assert kshark("sessions", EPOCHS, "-T", "json", "-Y", text).json == expected


def test_statistics_count_what_passes(kshark: Run) -> None:
    (whole,) = kshark("stats", EPOCHS, "-T", "json").json
    (found,) = kshark("stats", EPOCHS, "-T", "json", "-Y", "kafka.api == ShareAcknowledge").json
    assert found["apis"] == [row for row in whole["apis"] if row["api"] == "ShareAcknowledge"]
    assert found["messages"] == len(messages(kshark, EPOCHS, "-Y", "kafka.api == ShareAcknowledge"))
    assert [flow["connections"] for flow in found["flows"]] == [1]
    assert [(client["client_id"], client["software"]) for client in found["clients"]] == [("A", "raw-share-client")]

    (refused,) = kshark("stats", EPOCHS, "-T", "json", "-Y", REFUSED).json
    assert refused["exchanges"]["answered"] == refused["messages"] == len(messages(kshark, EPOCHS, "-Y", REFUSED))


def test_an_export_holds_exchanges_with_a_message_that_passes(kshark: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    from kshark.output.manifest import whole_captures

    answers = messages(kshark, EPOCHS, "-Y", REFUSED)
    done = kshark("export", EPOCHS, "-o", tmp_path, "-Y", REFUSED)
    assert done.code == 0

    def column(table: str, name: str) -> list[Any]:
        return list(parquet.read_table(tmp_path / table)[name].to_pylist())

    requests = sorted(line["request_packet"] for line in answers)
    assert sorted(column("exchanges", "request_packet")) == requests
    assert sorted(column("share_requests", "packet")) == requests
    assert sorted(column("steps", "packet")) == requests
    assert len(column("sessions", "packet")) == len(kshark("sessions", EPOCHS, "-T", "json").json)
    assert set(column("acknowledgements", "packet")) <= set(requests)
    findings = kshark("check", EPOCHS, "-T", "json", "-Y", REFUSED).findings
    assert sorted(column("findings", "code")) == sorted(finding["code"] for finding in findings)
    assert len(column("flows", "packet")) == len({line["flow"] for line in messages(kshark, EPOCHS)})
    assert [capture["options"] for capture in json.loads((tmp_path / "manifest.json").read_text())["captures"]] == [
        {"filter": REFUSED}
    ]
    with pytest.raises(UsageError, match="contains only messages that passed -Y"):
        whole_captures(tmp_path)


@pytest.mark.parametrize("command", ["read", "check", "sessions", "stats", "export", "live"])
def test_a_filter_that_cannot_be_read_stops_every_command_before_it_begins(
    kshark: Run, tmp_path: Path, command: str
) -> None:
    tables = tmp_path / "tables"
    words = {"export": (EPOCHS, "-o", tables), "live": ("-i", "lo")}.get(command, (EPOCHS,))
    done = kshark(command, *words, "-Y", "kafka.request && kafka.share_epoch > 3")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        'kshark: unknown field "kafka.share_epoch"; did you mean "kafka.share_session_epoch"? (character 18 of the '
        "filter; kshark explain fields lists the common fields, kshark explain ShareFetch the fields of an API)\n"
    )
    assert not tables.exists()


def test_the_tests_that_are_explained_are_filters(kshark: Run) -> None:
    lines = kshark("explain", "fields").lines
    assert any(line.startswith("  tcp.srcport  ") for line in lines)
    at = next(number for number, line in enumerate(lines) if line.startswith("filters"))
    tests = [line.strip().partition("  ")[0] for line in lines[at + 1 : -1]]
    assert len(tests) > 9
    for test in (*tests, lines[at].partition("'")[2].rstrip("'")):
        assert kshark("read", EPOCHS, "-q", "-Y", test).err == ""


def test_an_export_of_a_period_holds_its_requests_and_the_sessions_that_were_there(kshark: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    kshark("export", RESTART, "-o", tmp_path, "--since", "+20s")
    rows = {table: parquet.read_table(tmp_path / table).to_pylist() for table in ("sessions", "steps", "exchanges")}
    told = kshark("sessions", RESTART, "-T", "json", "--since", "+20s").json
    assert 0 < len(told) < len(kshark("sessions", RESTART, "-T", "json").json)
    assert sorted(row["opened_packet"] for row in rows["sessions"]) == sorted(
        session["opened"]["packet"] for session in told
    )
    shared = [row["packet"] for row in rows["exchanges"] if row["api"] in ("ShareFetch", "ShareAcknowledge")]
    assert sorted(row["packet"] for row in rows["steps"]) == sorted(shared)
