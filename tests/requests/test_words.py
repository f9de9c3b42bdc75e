"""A request log has lines: no text about it speaks of packets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshark.capture.log_lines import LogLines
from kshark.cli import main
from tests.requests.test_request_log import log_of

#: A request and its response are one line.
ONE = LogLines(lambda packet: ("a.log", (packet + 1) // 2) if packet < 1000 else None, ["a.log"])
TWO = LogLines(lambda packet: (("b/r.log", "a/request.log")[packet % 2], packet), ["a/request.log", "b/r.log"])


@pytest.mark.parametrize(
    ("text", "one", "two"),
    [
        ("(packets 85, 86); (packets 87, 88)", "(line 43); (line 44)",
         "(line 85 of request.log, line 86 of r.log); (line 87 of request.log, line 88 of r.log)"),
        ("packet 3 until packet 8", "line 2 until line 4", "line 3 of request.log until line 8 of r.log"),
        ("(packets 1 to 9)", "(lines 1 to 5)", "(lines 1 to 9 of request.log)"),
        ("packets 5 and 7", "lines 3 and 4", "lines 5 and 7 of request.log"),
        ("packet 2000: forgotten", "message 2000: forgotten", "line 2000 of r.log: forgotten"),
        ("12 packets, of any kind", "12 packets, of any kind", "12 packets, of any kind"),
    ],
)  # fmt: skip
def test_packets_are_named_by_their_lines(text: str, one: str, two: str) -> None:
    assert (ONE.text(text), TWO.text(text)) == (one, two)


def test_cells_of_tables_name_the_log_where_there_are_several() -> None:
    assert (ONE.cell(9), TWO.cell(9), TWO.cell(8)) == ("5", "1:9", "2:8")


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "kafka-request.log"
    path.write_bytes(log_of("share-restart"))
    return str(path)


@pytest.mark.parametrize(
    "command",
    ["check", "check -V", "sessions -V", "deliveries -V", "deliveries --holders", "groups -V", "events", "stats",
     "stats --share", "stats --by api", "read -V"],
)  # fmt: skip
def test_no_screen_speaks_of_packets(command: str, log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), log]) == 0
    out, err = capsys.readouterr()
    assert "packet" not in (out + err).lower()


def test_sentences_in_json_name_lines_and_numbers_stay(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "-T", "json", log])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    findings = [line for line in lines if "code" in line]
    assert all("packet" not in finding["argument"] for finding in findings)
    (down, *_) = (it for it in findings if it["code"] == "BROKER_DOWN")
    assert "(line 99 until line 109, when it accepted one)" in down["argument"]
    assert down["witness"][0]["places"][0]["frame"] == 99
    assert down["packet"] == 195
    assert all("packet" not in line["headline"]["text"] for line in lines if "headline" in line)


def test_a_moment_may_be_a_line(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["deliveries", "--at", "97", log])
    before = capsys.readouterr().out
    main(["deliveries", "--at", "98", log])
    assert capsys.readouterr().out != before
    assert before.startswith("at 03:45:38.524")


def test_reports_for_other_tools_name_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kafka-request.log"
    path.write_bytes(log_of("adv-epochs"))
    assert main(["check", "-T", "github", str(path)]) == 1
    annotations = capsys.readouterr().out
    assert "%0Alines 69%0A" in annotations
    assert "%0Apackets" not in annotations
    main(["check", "-T", "sarif", str(path)])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    found = next(result for result in run["results"] if result["ruleId"] == "ACK_IN_INITIAL_FETCH")
    assert found["locations"][0]["physicalLocation"]["region"] == {"startLine": 69}
