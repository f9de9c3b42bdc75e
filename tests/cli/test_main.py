"""The command itself: help, bad usage in one sentence, a closed pipe, nothing heavy."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kshark.analysis import Rule
from kshark.cli import COMMANDS
from kshark.cli.described import commands
from kshark.cli.parser import ELSEWHERE as OPTIONS_ELSEWHERE
from kshark.output.catalogue import CODES
from tests.cli.command import Run
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT, pythonpath


def test_help_lists_every_command(kshark: Run) -> None:
    for asked in ("--help", "-h", "help"):
        done = kshark(asked)
        assert done.code == 0
        assert all(f"  {name} " in done.out for name in COMMANDS)


def test_the_help_ends_with_where_to_report_a_bug(kshark: Run) -> None:
    url = "https://github.com/kshark/kshark/issues"
    assert kshark("--help").lines[-1] == f"Report bugs and wrong findings at {url}"
    for page in ("README.md", "docs/index.md", "man/kshark.1", "man/kshark-spark.1"):
        assert url in (ROOT / page).read_text().replace("\\-", "-"), page
    spark = subprocess.run(
        [sys.executable, "-m", "kshark_spark", "--help"],
        env={**os.environ, "PYTHONPATH": pythonpath(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert spark.stdout.endswith(f"{url}\n")


def test_texts_name_pages_by_their_address_since_a_wheel_has_no_docs(kshark: Run) -> None:
    texts = [kshark("--help").out, *(kshark(command, "--help").out for command in COMMANDS)]
    texts += [text for entry in CODES.values() for text in (entry.text, entry.advice)]
    texts += [text for entry in CODES.values() if isinstance(entry, Rule) for text in (entry.must, entry.provoked_by)]
    address = "https://github.com/kshark/kshark/blob/main/"
    pages = {page for text in texts for page in re.findall(rf"{address}([\w/.-]+\.md)", text)}
    assert pages
    assert all((ROOT / page).exists() for page in pages)
    assert [text for text in texts if re.search(rf"(?<!{address})docs/[\w-]+\.md", text)] == []


def test_help_of_a_command_is_its_help(kshark: Run) -> None:
    assert kshark("help", "check").out == kshark("check", "--help").out


def test_each_hint_at_an_option_can_be_shown() -> None:
    """Some command has the option that is meant, and not the one that was typed."""
    options = [{name for option in command.options for name in option.names} for command in commands()]
    for mistaken, meant in OPTIONS_ELSEWHERE.items():
        assert any(meant.split()[0] in names and mistaken not in names for names in options), mistaken


def test_without_a_command_the_help_goes_to_stderr(kshark: Run) -> None:
    done = kshark()
    assert (done.code, done.out) == (2, "")
    assert "usage: kshark COMMAND" in done.err


def test_the_version_is_told(kshark: Run) -> None:
    assert kshark("--version").out.startswith("kshark ")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_with_examples(kshark: Run, command: str) -> None:
    done = kshark(command, "--help")
    assert done.code == 0
    assert f"usage: kshark {command}" in done.out
    assert f"  kshark {command} " in done.out.partition("examples:")[2]
    assert max(map(len, done.lines)) <= 120


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["version"], 'no command "version"; kshark --version prints it (kshark --help lists them)'),
        (["record"], 'no command "record"; to record packets: kshark live -i eth0 -w trace.pcap (kshark --help '),
        (["capture", "-i", "lo"], 'no command "capture"; to record packets: kshark live -i eth0 -w trace.pcap ('),
        (["help", "nope"], 'no command "nope" (kshark --help lists them)'),
        (["live", "lo"], '"lo" is one argument too many; an interface is named with -i, a file with -r ('),
        (["check", "x", "--json"], 'no option "--json"; did you mean "-T json"? (kshark check --help shows them all)'),
        (["check", "x", "--format", "junit"], 'no option "--format"; did you mean "-T"? (kshark check --help shows '),
        (["stats", "x", "--interface=lo"], 'no option "--interface" (kshark stats --help shows them all)'),
        (["reed"], 'no command "reed"; did you mean "read"? (kshark --help lists them)'),
        (
            ["-r", "x"],
            "the command comes first, then its options, as in: kshark read -r ... (kshark --help lists them)",
        ),
        (["read", "x", "-W", "out.pcapng"], 'no option "-W" (kshark read --help shows them all)'),
        (
            ["check", "x", "--evidence", "-"],
            "the output has several files and cannot be written to standard output (-)",
        ),
        (["annotate", "x"], "the following arguments are required: -o"),
        (
            ["live", "-i", "lo", "--exports", "d"],
            'no option "--exports"; did you mean "--export"? (kshark live --help shows them all)',
        ),
        (["live", "-i", "lo", "-b", "packets:9"], "-b is about the files of -w; name one with -w FILE"),
        (["live", "-i", "lo", "--record", "9s"], "--record needs a folder for what it saves; add --on-violation save="),
        (
            ["check", "x", "--select", "EPOCH_SKIP"],
            'no code "EPOCH_SKIP"; did you mean "EPOCH_SKIP_AHEAD"? (kshark explain lists them)',
        ),
        (
            ["read", "x", "--no-playload"],
            'no option "--no-playload"; did you mean "--no-payload"? (kshark read --help shows them all)',
        ),
        (
            ["read", "x", "-T", "yaml"],
            "argument -T: invalid choice: 'yaml' (choose from 'text', 'json', 'fields') (kshark read --help shows "
            "them all)",
        ),
        (["read", "x", "-c", "0"], 'argument -c: "0" is not a number from 1 (kshark read --help shows them all)'),
        (["read", "x", "-e", "kafka.api"], "-e needs -T fields"),
        (["read", "x", "-T", "fields"], "-T fields needs -e FIELD; kshark explain fields lists them"),
        (
            ["read", "x", "-d", "udp.port==1,kafka"],
            '"udp.port==1,kafka" is not a rule for -d; write -d tcp.port==9092,kafka',
        ),
        (
            ["read", "x", "--since", "soon"],
            '"soon" is not a time; write +10s, 14:03:07, 2026-11-21T14:03:07Z or seconds since 1970',
        ),
        (["read"], "no capture is named; give a file, a folder, or - for standard input"),
        (
            ["check", "x", "--select", "EPOCH_SKP_AHEAD"],
            'no code "EPOCH_SKP_AHEAD"; did you mean "EPOCH_SKIP_AHEAD"? (kshark explain lists them)',
        ),
        (
            ["check", "x", "--select", ""],
            "--select, --ignore and --details accept codes, as in: --select EPOCH_REPLAY,DOUBLE_ACK",
        ),
        (
            ["check", "x", "--select", "BYTES_SKIPPED"],
            "BYTES_SKIPPED is a note about a capture, not a rule; name a rule",
        ),
        (
            ["check", "x", "--jobs", "0"],
            'argument --jobs: "0" is not a number of processes; write 2, or auto for one per core',
        ),
        (
            ["export", "x", "-o", "-"],
            "the output has several files and cannot be written to standard output (-); name a folder with -o DIR",
        ),
        (
            ["report", "x", "-o", "-"],
            "the output has several files and cannot be written to standard output (-); name a folder with -o DIR",
        ),
        (["export", "x"], "no folder given for the tables; name one with -o DIR"),
        (["export", "x", "-o", ""], "no folder given for the tables; name one with -o DIR"),
        (["report", "x", "-o", ""], "no folder given for the report; name one with -o DIR"),
        (["live"], "no interface given; name one with -i (kshark live -D lists them, any stands for all)"),
        (
            ["decode", "ShareFetsh", "1", "request"],
            'no API "ShareFetsh"; did you mean "ShareFetch"? (names and keys are Kafka\'s)',
        ),
        (
            ["decode", "ShareFetch", "9", "request"],
            "ShareFetch has versions 0-2, not 9 (kshark explain ShareFetch shows them)",
        ),
        (["explain", "ShareFetsh"], 'nothing is called "ShareFetsh"; did you mean "ShareFetch"?'),
        (["explain", "999"], "Kafka has no error 999 (errors are numbered from -1 to 136)"),
    ],
)
def test_bad_usage_is_one_sentence_with_the_next_step(kshark: Run, words: list[str], sentence: str) -> None:
    done = kshark(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"kshark: {sentence}")
    assert done.err.count("\n") == 1


def test_a_file_that_is_not_there_is_one_sentence(kshark: Run) -> None:
    done = kshark("read", "/nowhere/a.pcap")
    assert (done.code, done.out) == (2, "")
    assert "/nowhere/a.pcap" in done.err
    assert done.err.count("\n") == 1


def test_a_closed_pipe_ends_quietly() -> None:
    command = (
        f"{sys.executable} -m kshark explain Fetch ShareFetch Produce Metadata Fetch Fetch Fetch Fetch | head -1; echo "
        f"${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout.splitlines()[0].startswith("Fetch  API 1")
    assert done.stdout.splitlines()[1] in ("141", "0")
    assert done.stderr == ""


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kshark", "explain", "0"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout == "0 NONE  no error\n\nAPI 0 is Produce: kshark explain Produce\n"


def test_a_closed_stdout_is_one_sentence() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kshark explain 0 >&-"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        2,
        "kshark: standard output is closed; redirect it to a file, or to /dev/null\n",
    )


def test_a_closed_stdin_is_an_empty_one() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kshark check - <&-"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    said = "kshark: nothing could be judged: -: no capture (pcap or pcapng), but an empty file\n"
    assert (done.returncode, done.stderr) == (3, said)


def test_with_a_closed_stderr_nothing_else_comes_to_stdout() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kshark read /nowhere 2>&-"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")


def test_a_fault_of_kshark_is_no_violation(monkeypatch: pytest.MonkeyPatch, kshark: Run) -> None:
    def wrong(_: object) -> int:
        raise TypeError("not\nso")

    monkeypatch.setattr("kshark.cli.explain.run", wrong)
    done = kshark("explain", "0")
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(
        r"kshark: a bug in kshark, at test_main\.py:\d+: TypeError: not so; please report it, with the output of "
        r"KSHARK_TRACEBACK=1\n",
        done.err,
    )
    monkeypatch.setenv("KSHARK_TRACEBACK", "1")
    with pytest.raises(TypeError):
        kshark("explain", "0")


@pytest.mark.parametrize("name", ["dissectors", "spark_analysis", "tools"])
def test_a_package_of_a_common_name_is_not_taken_for_ksharks_own(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise RuntimeError('this is not kshark')")
    done = subprocess.run(
        [sys.executable, "-m", "kshark", "explain", "ShareFetch"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": pythonpath()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ShareFetch  API 78")


def test_records_without_payload_are_sizes_in_the_tables(kshark: Run, tmp_path: Path) -> None:
    done = kshark(
        "export", ROOT / "captures/produce-mix.pcap", "--records", "--no-payload", "-o", tmp_path / "tables", "-q"
    )
    assert done.code == 0
    records = pq.read_table(tmp_path / "tables/records").to_pylist()
    assert {record["key"] for record in records} == {record["value"] for record in records} == {None}
    assert max(record["value_size"] or 0 for record in records) > 500
    assert {header["value"] for record in records for header in record["headers"] or ()} == {None}


def test_the_first_example_of_decode_works(kshark: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = re.search(
        r"echo '([0-9a-f ]+)' \| kshark decode ShareAcknowledge 1 request", kshark("decode", "--help").out
    )
    assert digits is not None
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(digits[1].encode())))
    done = kshark("decode", "ShareAcknowledge", "1", "request")
    assert (done.code, done.err) == (0, "")
    assert done.json == [{"group_id": "g", "member_id": "m", "share_session_epoch": 5, "topics": []}]


def test_findings_of_rotated_files_name_file_and_frame(kshark: Run, tmp_path: Path) -> None:
    data = (CAPTURES / "adv-epochs.pcap").read_bytes()
    at, cut = 24, 0
    for number in range(1, 211):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        cut = at if number == 209 else cut
    (tmp_path / "1.pcap").write_bytes(data[:cut])
    (tmp_path / "2.pcap").write_bytes(data[:24] + data[cut:])
    asked = ("check", tmp_path / "1.pcap", tmp_path / "2.pcap", "--details", "TWO_COUNTERS")
    step = next(line for line in kshark(*asked).lines if "kshark explain" in line)
    assert step.endswith(
        f"packets 200 204 207 212 213 215 · {tmp_path}/1.pcap: frames 200 204 207 · {tmp_path}/2.pcap: frames 3 4 6"
    )
    findings = kshark(*asked, "-T", "json").findings
    finding = next(finding for finding in findings if finding["code"] == "TWO_COUNTERS")
    assert finding["witness"][1]["places"] == [
        {"packet": 207, "file": f"{tmp_path}/1.pcap", "frame": 207},
        {"packet": 212, "file": f"{tmp_path}/2.pcap", "frame": 3},
    ]
    alone = kshark("check", CAPTURES / "adv-epochs.pcap", "--select", "TWO_COUNTERS", "-T", "json").json[0]
    assert all("places" not in witness for witness in alone["witness"])


@pytest.mark.parametrize(
    "way",
    [
        ("-T", "json"),
        ("-T", "json", "--no-records"),
        ("-T", "fields", "-e", "kafka.api_key", "-e", "kafka.correlation_id"),
    ],
    ids=" ".join,
)
def test_what_a_capture_does_not_need_is_not_loaded(way: tuple[str, ...]) -> None:
    unneeded = {
        *("hashlib", "importlib.metadata", "signal", "multiprocessing", "cryptography", "pyarrow"),
        *("kshark.analysis", "kshark.conditions", "kshark.output.lines", "kshark.output.tree"),
        *("kshark.reassembly.measuring", "kshark.tls.connection"),
    }
    arguments = ["read", *way, str(CAPTURES / "share-restart.pcap")]
    program = (
        f"import sys; from kshark.cli import main; main({arguments}); print(sorted({unneeded} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
