"""A check in the formats of CI: JUnit, SARIF, annotations of GitHub. Schemas are not at hand everywhere, so what
readers of these formats rely on is checked by hand; a parser of JUnit is an oracle where it is installed."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kshark.output.github import annotation_lines
from tests.cli.command import Run, runner
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation
from tests.packets import pcap
from tests.shared import CAPTURES

EPOCHS = CAPTURES / "adv-epochs.pcap"
#: A client id that tries to break out of every format.
EVIL = "a%,:]]><!--&\"'\n::error::\x1b[31m\u202eé"


@pytest.fixture
def kshark(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A capture of a client with that id, which skips an epoch."""
    talk = Conversation()
    connection = talk.connection(introduced=False)
    connection.client_id = EVIL
    connection.api_versions("4.2")
    a = talk.member("a", group=EVIL, connection=connection)
    a.share_fetch(0).answered()
    a.share_fetch(7).answered(INVALID_SHARE_SESSION_EPOCH)
    connection.close()
    path = tmp_path / "evil,100%.pcap"
    path.write_bytes(pcap(talk.wire.packets))
    return path


# -- JUnit


def suites(text: str) -> dict[str, ET.Element]:
    root = ET.fromstring(text)
    assert (root.tag, {child.tag for child in root}) == ("testsuites", {"testsuite"})
    return {suite.attrib["name"]: suite for suite in root}


def cases(suite: ET.Element) -> dict[str, str]:
    """By rule: passed, failure or skipped."""
    return {
        case.attrib["name"]: next((child.tag for child in case if child.tag != "system-out"), "passed")
        for case in suite.iter("testcase")
    }


def test_junit_has_a_suite_for_each_client_and_a_case_for_each_rule(kshark: Run) -> None:
    done = kshark("check", EPOCHS, "-T", "junit", "--by", "client")
    assert done.code == 1
    found = suites(done.out)
    assert [*found] == ["adv-epochs.pcap: A", "adv-epochs.pcap: admin"]
    of_a = cases(found["adv-epochs.pcap: A"])
    assert of_a["EPOCH_REPLAY"] == "failure"
    assert of_a["EPOCH_WRAP_ERROR"] == "skipped"
    assert of_a["FETCH_OVERTAKEN"] == "passed"
    assert "failure" not in cases(found["adv-epochs.pcap: admin"]).values()


def test_junit_counts_what_it_has(kshark: Run) -> None:
    """Jenkins and GitLab read the attributes, others count the elements."""
    for suite in suites(kshark("check", EPOCHS, "-T", "junit", "--by", "client").out).values():
        counts = Counter(cases(suite).values())
        said = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
        assert said == {
            "tests": counts.total(), "failures": counts["failure"], "errors": 0, "skipped": counts["skipped"]
        }  # fmt: skip
        assert all(set(case.attrib) == {"classname", "name", "time"} for case in suite.iter("testcase"))
        order = [child.tag for child in suite]
        assert order == ["properties", *["testcase"] * counts.total()]


def test_a_failure_says_what_happened_and_what_to_do(kshark: Run) -> None:
    suite = suites(kshark("check", EPOCHS, "-T", "junit", "--by", "client").out)["adv-epochs.pcap: A"]
    failure = suite.find("testcase[@name='EPOCH_STALE']/failure")
    assert failure is not None
    assert failure.attrib == {"type": "violation", "message": "The epoch is older than the last used one."}
    assert "ShareFetch #23 (epoch 3) was accepted (packets 188, 190), so 4 was due" in (failure.text or "")
    assert "advice: Keep one count per broker, group and member." in (failure.text or "")
    skipped = suite.find("testcase[@name='EPOCH_WRAP_ERROR']/skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "never tested; what it asks for: The epoch after 2147483647 is 1."


def test_what_is_not_proved_is_skipped_unless_it_shall_fail(kshark: Run) -> None:
    select = (
        "check",
        EPOCHS,
        "-T",
        "junit",
        "--since",
        "03:37:45",
        "--until",
        "03:37:45.42",
        "--select",
        "NO_RECOVERY",
    )
    suite = suites(kshark(*select).out)["adv-epochs.pcap"]
    assert cases(suite) == {"NO_RECOVERY": "skipped"}
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert "Not proved: " in skipped.attrib["message"]
    assert suite.find("testcase/system-out") is not None
    failing = kshark(*select, "--fail-on", "unknown")
    assert (failing.code, cases(suites(failing.out)["adv-epochs.pcap"])) == (1, {"NO_RECOVERY": "failure"})


def test_required_rules_that_were_not_tested_fail(kshark: Run) -> None:
    select = ("check", EPOCHS, "-T", "junit", "--select", "EPOCH_WRAP_ERROR,FETCH_OVERTAKEN")
    done = kshark(*select, "--require", "EPOCH_WRAP_ERROR,FETCH_OVERTAKEN")
    assert (done.code, done.err) == (1, "kshark: never tested: EPOCH_WRAP_ERROR (--require)\n")
    assert cases(suites(done.out)["adv-epochs.pcap"]) == {"EPOCH_WRAP_ERROR": "failure", "FETCH_OVERTAKEN": "passed"}


def test_known_findings_are_skipped(kshark: Run, tmp_path: Path) -> None:
    known = tmp_path / "known.jsonl"
    kshark("check", EPOCHS, "-q", "--write-baseline", known)
    done = kshark("check", EPOCHS, "-T", "junit", "--by", "client", "--baseline", known)
    suite = suites(done.out)["adv-epochs.pcap: A"]
    assert (done.code, suite.attrib["failures"]) == (0, "0")
    skipped = suite.find("testcase[@name='EPOCH_STALE']/skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "1 known finding left out: --baseline"


def test_faults_of_brokers_are_no_faults_of_clients(kshark: Run) -> None:
    found = suites(kshark("check", CAPTURES / "aimed-4.1.2.pcap", "-T", "junit", "--by", "client").out)
    assert cases(found["aimed-4.1.2.pcap: brokers and network"]) == {"SESSION_KILLED_BY_OLD_CONNECTION": "failure"}
    assert cases(found["aimed-4.1.2.pcap: A3"])["DUPLICATE_PARTITION_ENTRY"] == "failure"


def test_several_captures_are_one_document(kshark: Run) -> None:
    captures = (EPOCHS, CAPTURES / "adv-members.pcap")
    found = suites(kshark("check", *captures, "--each", "-T", "junit", "--jobs", "2").out)
    assert [*found] == ["adv-epochs.pcap", "adv-members.pcap"]
    log = json.loads(kshark("check", *captures, "--each", "-T", "sarif").out)
    assert [run["artifacts"][0]["location"]["uri"] for run in log["runs"]] == ["adv-epochs.pcap", "adv-members.pcap"]


def test_a_parser_of_junit_reads_the_same(kshark: Run, evil: Path) -> None:
    junitparser = pytest.importorskip("junitparser", reason="it compares with junitparser (pip install junitparser)")
    for capture in (EPOCHS, evil):
        text = kshark("check", capture, "-T", "junit", "--by", "client").out
        read = junitparser.JUnitXml.fromstring(text.encode())
        assert {suite.name: (suite.tests, suite.failures, suite.skipped) for suite in read} == {
            name: tuple(int(suite.attrib[key]) for key in ("tests", "failures", "skipped"))
            for name, suite in suites(text).items()
        }


# -- SARIF


def sarif_run(text: str) -> dict[str, Any]:
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run  # type: ignore[no-any-return]


def test_sarif_has_what_its_readers_require(kshark: Run, evil: Path) -> None:
    """SARIF 2.1.0, 3.27 (result), 3.49 (reportingDescriptor), and what GitHub asks for."""
    for capture in (EPOCHS, evil):
        run = sarif_run(kshark("check", capture, "-T", "sarif").out)
        rules = run["tool"]["driver"]["rules"]
        assert len({rule["id"] for rule in rules}) == len(rules)
        for rule in rules:
            assert rule["shortDescription"]["text"].endswith(".")
            assert rule["help"]["text"]
            assert rule["help"]["markdown"]
            assert rule["defaultConfiguration"]["level"] in ("error", "note")
        assert run["results"]
        for result in run["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["level"] in ("error", "warning", "note")
            assert result["message"]["text"]
            (location,) = result["locations"]
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"[\w.%~-]+", uri)
            assert run["artifacts"][0]["location"]["uri"] == uri
            names = [place["fullyQualifiedName"] for place in location["logicalLocations"]]
            assert all(later.startswith(f"{before}/") for before, later in pairwise(names))
            assert result["properties"]["packets"]


def test_sarif_has_a_result_for_each_finding(kshark: Run) -> None:
    found = kshark("check", EPOCHS, "-T", "json").findings
    run = sarif_run(kshark("check", EPOCHS, "-T", "sarif").out)
    levels = {"violation": "error", "unknown": "warning", "note": "note"}
    assert [(result["ruleId"], result["level"], result["properties"]["packet"]) for result in run["results"]] == [
        (finding["code"], levels[finding["verdict"]], finding["packet"]) for finding in found
    ]
    (rule,) = (rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "EPOCH_REPLAY")
    assert rule["properties"]["tickets"] == ["twmb/franz-go#922"]


def test_fingerprints_are_stable_and_distinct(kshark: Run, tmp_path: Path) -> None:
    """The same mistakes at other packets and times have the same fingerprints: the capture again without its first
    second, in which nothing is found."""

    def prints(*options: object) -> list[str]:
        run = sarif_run(kshark("check", EPOCHS, "-T", "sarif", *options).out)
        return [result["partialFingerprints"]["kshark/v1"] for result in run["results"]]

    whole = prints()
    assert len(set(whole)) == len(whole)
    assert prints("--since", "+1s") == whole == prints()


# -- GitHub


def annotations(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Read annotations as the runner does."""
    read = []
    for line in text.splitlines():
        level, properties, message = re.fullmatch(r"::(\w+) (.*?)::(.*)", line).groups()  # type: ignore[union-attr]
        pairs = [pair.partition("=")[::2] for pair in properties.split(",")]
        read.append((level, {key: unescaped(value) for key, value in pairs}, unescaped(message)))
    return read


def unescaped(text: str) -> str:
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def test_annotations_name_the_capture_the_rule_and_the_client(kshark: Run) -> None:
    done = kshark("check", EPOCHS, "-T", "github", "--select", "EPOCH_STALE,NO_RECOVERY")
    read = annotations(done.out)
    assert [(level, properties["title"]) for level, properties, _ in read] == [
        ("error", "EPOCH_STALE: client A"),
        ("error", "NO_RECOVERY: client A"),
        ("warning", "NO_RECOVERY: not proved"),
    ]
    assert {properties["file"] for _, properties, _ in read} == {"adv-epochs.pcap"}
    stale = read[0][2].splitlines()
    assert stale[0] == "The epoch is older than the last used one."
    assert "packets 193" in stale
    assert stale[-1] == "kshark explain EPOCH_STALE"
    assert read[1][2].splitlines()[1].startswith("3 times; first: ")


def test_annotations_name_what_was_not_tested(kshark: Run) -> None:
    done = kshark("check", EPOCHS, "-T", "github", "--select", "FETCH_OVERTAKEN,EPOCH_WRAP_ERROR", "--require",
                  "EPOCH_WRAP_ERROR")  # fmt: skip
    assert (done.code, annotations(done.out)) == (
        1,
        [("error", {"file": "adv-epochs.pcap", "title": "never tested"}, "never tested: EPOCH_WRAP_ERROR (--require)")],
    )


def test_nothing_of_a_capture_breaks_out_of_an_annotation(kshark: Run, evil: Path) -> None:
    done = kshark("check", evil, "-T", "github")
    (read,) = annotations(done.out)
    assert read[1]["file"] == "evil,100%.pcap"
    assert read[1]["title"].startswith("EPOCH_SKIP_AHEAD: client a%,:]]>")
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert annotation_lines.__doc__


# -- captures that hurt


@pytest.mark.parametrize("format", ["junit", "sarif"])
def test_evil_names_stay_names(format: str, kshark: Run, evil: Path) -> None:
    done = kshark("check", evil, "-T", format, *(["--by", "client"] if format == "junit" else []))
    assert done.code == 1
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", done.out)
    if format == "junit":
        (name,) = suites(done.out)
        assert name.startswith("evil,100%.pcap: a%,:]]><!--&\"'")
    else:
        result = sarif_run(done.out)["results"][-1]
        assert result["locations"][0]["logicalLocations"][0]["name"].startswith("a%,:]]><!--&\"'")


@pytest.mark.parametrize("format", ["junit", "sarif", "github"])
def test_a_capture_without_kafka_says_so(format: str, kshark: Run, tmp_path: Path) -> None:
    path = tmp_path / "none.pcap"
    path.write_bytes(pcap([]))
    done = kshark("check", path, "-T", format)
    assert done.code == 3
    assert "nothing could be judged" in done.err
    if format == "junit":
        assert [*suites(done.out)] == ["none.pcap"]
    elif format == "sarif":
        assert sarif_run(done.out)["results"] == []
    else:
        assert done.out == ""
