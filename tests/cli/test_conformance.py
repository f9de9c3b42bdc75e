"""`kshark check` for authors of clients: coverage by client, required rules, known findings, complete captures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshark.analysis import OF_CLIENTS
from tests.cli.command import Done, Run
from tests.conversation import INVALID_SHARE_SESSION_EPOCH, Conversation
from tests.packets import pcap
from tests.shared import CAPTURES

EPOCHS = CAPTURES / "adv-epochs.pcap"
#: One client with two names, and a member that does everything right.
Rows = dict[tuple[str, str], dict[str, int]]


@pytest.fixture
def two_clients(tmp_path: Path) -> Path:
    """Client `wild` (fancy 1.2) counts a refused request; client `tame` (fancy 1.3) is right."""
    talk = Conversation()
    for name, version, epochs in (("wild", "1.2", (0, 1, 5)), ("tame", "1.3", (0, 1, 2))):
        connection = talk.connection(introduced=False)
        connection.client_id = name
        connection.api_versions("4.2", "fancy", version)
        member = talk.member(name, connection=connection)
        for epoch in epochs:
            member.share_fetch(epoch).answered(INVALID_SHARE_SESSION_EPOCH if epoch == 5 else 0)
        connection.close()
    path = tmp_path / "two.pcap"
    path.write_bytes(pcap(talk.wire.packets))
    return path


def rows(done: Done, by: str = "client") -> Rows:
    (summary,) = (line["summary"] for line in done.json if "summary" in line)
    return {(row[by], row["code"]): row for row in summary["coverage"]}


# -- coverage by client


def test_each_client_has_the_counts_of_its_own_requests(kshark: Run, two_clients: Path) -> None:
    found = rows(kshark("check", two_clients, "-q", "-T", "json", "--coverage", "--by", "client"))
    counts = {key: [row["tested"], row["held"], row["broken"]] for key, row in found.items()}
    assert counts["wild", "EPOCH_SKIP_AHEAD"] == [2, 1, 1]
    assert counts["tame", "EPOCH_SKIP_AHEAD"] == [2, 2, 0]
    assert counts["tame", "FRAME_LENGTH_INVALID"] == [5, 5, 0]
    assert {row["software"] for (client, _), row in found.items() if client == "wild"} == {"fancy 1.2"}


def test_the_counts_of_clients_add_up(kshark: Run, two_clients: Path) -> None:
    apart = rows(kshark("check", two_clients, "-q", "-T", "json", "--coverage", "--by", "client"))
    together = kshark("check", two_clients, "-q", "-T", "json", "--coverage").json[-1]["summary"]["coverage"]
    about_answers = {"TRAILING_BYTES", "UNDECODABLE_BODY", "TAG_OF_OTHER_VERSION"}  # a client answers for its requests alone
    for row in together:
        if row["code"] in OF_CLIENTS - about_answers:
            assert sum(apart[client, row["code"]]["tested"] for client in ("wild", "tame")) == row["tested"]


def test_software_is_counted_by_version(kshark: Run, two_clients: Path) -> None:
    found = rows(kshark("check", two_clients, "-q", "-T", "json", "--coverage", "--by", "software"), "software")
    assert {name for name, _ in found} == {"fancy 1.2", "fancy 1.3"}
    assert found["fancy 1.2", "EPOCH_SKIP_AHEAD"]["broken"] == 1
    assert "client" not in found["fancy 1.2", "EPOCH_SKIP_AHEAD"]


def test_only_rules_that_can_blame_a_client_count(kshark: Run) -> None:
    found = rows(kshark("check", EPOCHS, "-q", "-T", "json", "--coverage", "--by", "client"))
    codes = {code for _, code in found}
    assert codes == OF_CLIENTS
    assert not codes & {"BROKER_ACCEPTED_WRONG_EPOCH", "WRITE_BEFORE_READ", "STATE_EPOCH_FENCED", "SHARE_KEY_MALFORMED"}


def test_brokers_are_no_clients(kshark: Run) -> None:
    """The capture has a share coordinator's clients, Persister-client-1 and -2."""
    assert {
        client for client, _ in rows(kshark("check", EPOCHS, "-q", "-T", "json", "--coverage", "--by", "client"))
    } == {
        "A",
        "admin",
    }


def test_a_filter_restricts_coverage(kshark: Run, two_clients: Path) -> None:
    only = ("-Y", "kafka.client_id == tame")
    of_tame = rows(kshark("check", two_clients, "-q", "-T", "json", "--coverage", "--by", "client", *only))
    assert {client for client, _ in of_tame} == {"tame"}
    (summary,) = kshark("check", two_clients, "-q", "-T", "json", "--coverage", *only).json
    row = next(row for row in summary["summary"]["coverage"] if row["code"] == "EPOCH_SKIP_AHEAD")
    assert (row["tested"], row["broken"]) == (2, 0)
    frames = next(row for row in summary["summary"]["coverage"] if row["code"] == "FRAME_LENGTH_INVALID")
    assert frames["tested"] == 5


def test_the_text_begins_with_a_row_for_each_client(kshark: Run, two_clients: Path) -> None:
    done = kshark("check", two_clients, "-q", "--coverage", "--by", "client")
    assert [line.split()[:3] for line in done.lines[1:3]] == [["tame", "fancy", "1.3"], ["wild", "fancy", "1.2"]]
    assert "client wild (fancy 1.2)" in done.lines
    assert any(line.split() == ["20", "EPOCH_SKIP_AHEAD", "2", "1", "1"] for line in done.lines)


def test_recipes_say_how_to_test_what_was_not_tested(kshark: Run, two_clients: Path) -> None:
    done = kshark("check", two_clients, "-q", "--coverage", "--recipes", "--select", "USE_AFTER_FINAL,EPOCH_SKIP_AHEAD")
    at = done.lines.index("USE_AFTER_FINAL  rule 26")
    text = "\n".join(done.lines[at:])
    assert "test it by Close the consumer, and open it again in the same process." in text
    assert "ShareAcknowledge epoch -1 → 0" in text
    assert "EPOCH_SKIP_AHEAD  rule" not in text  # it was tested


# -- required rules


def test_rules_that_must_be_tested(kshark: Run, two_clients: Path) -> None:
    clean = ("check", two_clients, "-q", "--select", "EPOCH_REPLAY,NO_RECOVERY,USE_AFTER_FINAL")
    assert kshark(*clean, "--require", "EPOCH_REPLAY").code == 0
    done = kshark(*clean, "--require", "EPOCH_REPLAY,NO_RECOVERY", "--require", "use_after_final")
    assert done.code == 1
    assert done.lines[-1] == "never tested: USE_AFTER_FINAL, NO_RECOVERY (--require)"
    assert kshark(*clean, "--require", "NO_RECOVERY", "-T", "json").json[-1]["summary"]["untested"] == [
        {"client": None, "codes": ["NO_RECOVERY"]}
    ]


def test_each_client_must_test_them(kshark: Run, tmp_path: Path) -> None:
    done = kshark("check", EPOCHS, "-q", "--require", "NO_RECOVERY,EMPTY_IDS", "--by", "client")
    assert done.lines[-1] == "never tested by client admin: NO_RECOVERY, EMPTY_IDS (--require)"
    of_a = ("--by", "client", "-Y", "kafka.client_id == A")
    assert not any("never tested" in line for line in kshark("check", EPOCHS, "--require", "NO_RECOVERY", *of_a).lines)
    nobody = kshark("check", EPOCHS, "--require", "NO_RECOVERY", "--by", "client", "-Y", "kafka.client_id == nobody")
    assert (nobody.code, nobody.lines[-1]) == (1, "never tested: NO_RECOVERY (--require)")


def test_all_rules_of_a_client_may_be_required(kshark: Run) -> None:
    line = kshark("check", EPOCHS, "-q", "--require", "all", "--by", "client", "-Y", "kafka.client_id == A").lines[-1]
    assert line.startswith("never tested by client A: SASL_SEQUENCE, EPOCH_WRAP_ERROR, ")
    assert "EPOCH_REPLAY" not in line


# -- known findings


def test_known_findings_change_nothing_but_a_count(kshark: Run, two_clients: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.jsonl"
    assert kshark("check", two_clients, "-q", "--write-baseline", known).code == 1
    assert [json.loads(line) for line in known.read_text().splitlines()] == [
        {"code": "EPOCH_SKIP_AHEAD", "cause": "skip_ahead", "blame": "client", "client": "fancy", "api": "ShareFetch",
         "count": 1}
    ]  # fmt: skip
    done = kshark("check", two_clients, "--baseline", known)
    assert done.code == 0
    assert "EPOCH_SKIP_AHEAD" not in done.out
    assert done.lines[-1] == "1 known finding is left out: --baseline"
    summary = kshark("check", two_clients, "--baseline", known, "-T", "json").json[-1]["summary"]
    assert (summary["known"], summary["violations"]) == (1, 0)
    assert "known" not in kshark("check", two_clients, "-T", "json").json[-1]["summary"]


def test_the_lines_of_a_check_are_a_baseline(kshark: Run, tmp_path: Path) -> None:
    known = tmp_path / "known.jsonl"
    known.write_text(kshark("check", EPOCHS, "-T", "json").out)
    done = kshark("check", EPOCHS, "-q", "--baseline", known)
    assert (done.code, done.lines[-1]) == (0, "37 known findings are left out: --baseline")


def test_another_mistake_is_new(kshark: Run, two_clients: Path, tmp_path: Path) -> None:
    """Packets and times do not matter; what went wrong and by whom does."""
    known = tmp_path / "known.jsonl"
    kshark("check", EPOCHS, "-q", "--write-baseline", known, "--ignore", "DOUBLE_ACK")
    done = kshark("check", EPOCHS, "-q", "--baseline", known)
    assert done.code == 1
    assert any(line.startswith("1 violation: DOUBLE_ACK") for line in done.lines)
    other = kshark("check", two_clients, "-q", "--baseline", known)  # the same rule, another software
    assert other.code == 1
    assert any(line.startswith("1 violation: EPOCH_SKIP_AHEAD") for line in other.lines)


def test_a_newer_version_has_the_same_known_findings(kshark: Run, two_clients: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.jsonl"
    line = kshark("check", two_clients, "-T", "json").out.replace("fancy 1.2", "fancy v1.1.0-rc1")
    known.write_text(line)
    assert kshark("check", two_clients, "-q", "--baseline", known).code == 0


def test_known_findings_that_are_gone_are_named(kshark: Run, two_clients: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.jsonl"
    kshark("check", EPOCHS, "-q", "--select", "DOUBLE_ACK,TWO_COUNTERS", "--write-baseline", known)
    done = kshark("check", two_clients, "-q", "--baseline", known)
    assert done.lines[-1] == (
        "known findings that no longer occur: DOUBLE_ACK (raw-share-client), TWO_COUNTERS (raw-share-client); take "
        "them out of --baseline"
    )
    as_json = kshark("check", two_clients, "-q", "-T", "json", "--baseline", known)
    assert "no longer occur: DOUBLE_ACK" in as_json.err
    each = kshark("check", EPOCHS, two_clients, "--each", "-q", "--baseline", known)  # one of the captures has them
    assert "no longer occur" not in each.out


# -- complete captures


def test_hidden_traffic_is_no_excuse_in_a_complete_capture(kshark: Run) -> None:
    said = [kshark("check", EPOCHS, "-q", "--select", "NO_RECOVERY", *how).lines[0] for how in ((), ("--complete",))]
    assert said == ["3 violations: NO_RECOVERY 3 · 6 not proved: NO_RECOVERY 6", "9 violations: NO_RECOVERY 9"]


# -- bad usage


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "client"], "--by groups coverage: use it with --coverage, --require or -T junit"),
        (["--recipes"], "--recipes belongs to the text of --coverage: kshark check FILE --coverage --recipes"),
        (["--require", "NO_RECOVER"], '--require: no rule "NO_RECOVER" with coverage; did you mean "NO_RECOVERY"?'),
        (["--require", "EPOCH_REFUSED"], '--require: no rule "EPOCH_REFUSED" with coverage'),
        (["--require", ","], "--require accepts codes of rules, or all"),
        (
            ["--require", "STATE_LOST", "--by", "client"],
            "--require: STATE_LOST is not about requests of clients; leave out --by to require it",
        ),
        (["--baseline", "nowhere.jsonl"], "--baseline: nowhere.jsonl: No such file or directory"),
        (["--write-baseline", "no/where.jsonl"], "--write-baseline: no/where.jsonl: No such file or directory"),
    ],
)
def test_bad_usage_is_one_sentence(options: list[str], said: str, kshark: Run, two_clients: Path) -> None:
    done = kshark("check", two_clients, "-q", *options)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        b"# known findings",
        b"[]",
        b"{}",
        b'{"code": "X"}',
        b'{"code": 1, "verdict": "violation"}',
        b"\xff\xfe",
        b"null",
        b'{"code": ["X"], "cause": null, "blame": "client", "client": null, "api": null}',
    ],
)
def test_a_file_that_is_no_baseline(line: bytes, kshark: Run, two_clients: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.jsonl"
    known.write_bytes(b'{"summary": {}}\n\n' + line + b"\n")
    done = kshark("check", two_clients, "--baseline", known)
    assert done.code == 2
    assert f"{known}, line 3 is no finding" in done.err
