"""The Python face: messages and findings of captures, on real traffic."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kshark
from tests.cli.command import Run, runner
from tests.patience import PATIENCE_S
from tests.shared import CAPTURES, ROOT

EPOCHS = CAPTURES / "adv-epochs.pcap"
LOCKS = CAPTURES / "share-locks.pcap"


def is_plain(value: object) -> bool:
    """Dicts and lists of them, down to what Python itself has."""
    if type(value) is dict:
        return all(type(name) is str and is_plain(inner) for name, inner in value.items())
    return (
        all(map(is_plain, value))
        if type(value) in (list, tuple)
        else type(value) in (str, int, float, bool, bytes, type(None))
    )


@pytest.mark.sweep(quick=5)
@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_every_message_has_a_body_of_plain_values_or_none(capture: Path) -> None:
    bodies = [message.body for message in kshark.read(capture, records=False)]
    assert bodies
    assert {type(body) for body in bodies} <= {dict, type(None)}
    assert all(map(is_plain, bodies))


def test_several_files_are_one_capture() -> None:
    whole = list(kshark.read(CAPTURES / "adv-epochs.pcap", CAPTURES / "adv-acks.pcap", records=False))
    times = [message.time_ns for message in whole]
    assert times == sorted(times)
    assert len({message.flow for message in whole}) > 10


def test_findings_come_by_packet() -> None:
    found = list(kshark.check(CAPTURES / "adv-epochs.pcap"))
    assert [finding.packet for finding in found] == sorted(finding.packet for finding in found)


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_text("no packets")
    with pytest.raises(kshark.UnreadableInput):
        list(kshark.read(tmp_path / "x.pcap"))


def test_a_body_goes_there_and_back() -> None:
    message = next(
        m for m in kshark.read(CAPTURES / "adv-epochs.pcap") if m.api == "ShareFetch" and m.kind == "request"
    )
    data = kshark.encode(78, message.version, "request", message.body)
    assert kshark.decode(78, message.version, "request", data) == message.body


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def lines(of: Iterable[Any]) -> list[Any]:
    """What a program gets that writes the objects as JSON."""
    return [json.loads(msgspec.json.encode(it.to_dict())) for it in of]


def printed(command: Run, *words: str | Path) -> list[Any]:
    """The JSON lines of a command, without headlines and the summary."""
    found = [json.loads(line) for line in command(*map(str, words), "-T", "json").out.splitlines()]
    return [line for line in found if not line.keys() & {"summary", "headline"}]


def test_python_and_the_command_say_the_same(command: Run) -> None:
    assert lines(kshark.read(EPOCHS)) == printed(command, "read", EPOCHS)
    assert lines(kshark.check(EPOCHS)) == printed(command, "check", EPOCHS)
    assert lines(kshark.sessions(EPOCHS)) == printed(command, "sessions", EPOCHS)
    assert lines(kshark.sessions(EPOCHS, steps=True)) == printed(command, "sessions", EPOCHS, "-V")
    assert lines(kshark.deliveries(LOCKS)) == printed(command, "deliveries", LOCKS)
    assert lines(kshark.groups(LOCKS)) == printed(command, "groups", LOCKS)
    assert lines(kshark.groups(LOCKS, rebalances=True)) == printed(command, "groups", LOCKS, "--rebalances")
    assert lines(kshark.events(LOCKS)) == printed(command, "events", LOCKS)


def test_of_several_files_python_names_the_files_as_the_command_does(command: Run) -> None:
    files = EPOCHS, CAPTURES / "aimed.pcap"
    assert lines(kshark.read(*files, records=False)) == printed(command, "read", "--no-records", *files)
    found = lines(kshark.check(*files))
    assert found == printed(command, "check", *files)
    assert {place["file"] for it in found for witness in it["witness"] for place in witness["places"]} == {
        *map(str, files)
    }


def test_the_tables_are_those_of_an_export(command: Run, tmp_path: Path) -> None:
    assert command("export", str(LOCKS), "-o", str(tmp_path), "--records").code == 0
    made = kshark.tables(LOCKS, records=True)
    for name, table in made.items():
        files = sorted((tmp_path / name).rglob("*.parquet"))
        exported = pa.concat_tables([pq.read_table(file) for file in files])
        dropped = ["seconds"] if name == "captures" else []
        assert table.schema.names == exported.schema.names
        assert table.drop_columns(dropped).to_pylist() == exported.drop_columns(dropped).to_pylist(), name
    assert {name for name, table in made.items() if table.num_rows} >= {"exchanges", "records", "flows", "captures"}


def test_only_some_tables_have_the_same_rows() -> None:
    every = kshark.tables(EPOCHS)
    some = kshark.tables(EPOCHS, only=["findings", "exchanges"])
    assert [*some] == ["findings", "exchanges"]
    assert all(some[name].equals(every[name]) for name in some)
    assert "records" not in every


def test_findings_are_selected_by_their_codes() -> None:
    every = [it.code for it in kshark.check(EPOCHS)]
    chosen = [it.code for it in kshark.check(EPOCHS, select="EPOCH_REPLAY,TWO_COUNTERS")]
    assert chosen == [code for code in every if code in ("EPOCH_REPLAY", "TWO_COUNTERS")]
    rest = [it.code for it in kshark.check(EPOCHS, ignore=["EPOCH_REPLAY", "TWO_COUNTERS"])]
    assert len(rest) == len(every) - len(chosen)
    assert {*rest}.isdisjoint(chosen)


def test_that_nothing_could_be_judged_is_a_warning() -> None:
    with pytest.warns(kshark.NothingJudged, match="only requests"):
        assert {it.verdict for it in kshark.check(CAPTURES / "tcp-var-oneside.pcap")} == {"note"}
    with pytest.warns(kshark.NothingJudged, match="only requests"):
        assert [*kshark.check(CAPTURES / "tcp-var-oneside.pcap", select="EPOCH_REPLAY")] == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [*kshark.check(CAPTURES / "tcp-var-base.pcap")] == []


def test_rules_about_records_need_them() -> None:
    codes = {it.code for it in kshark.check(CAPTURES / "hostile-records.pcap", records=True)}
    assert codes > {it.code for it in kshark.check(CAPTURES / "hostile-records.pcap")}


def test_findings_of_a_request_log_name_its_lines(command: Run) -> None:
    log = CAPTURES / "adv-epochs.requests.jsonl.gz"
    findings = lines(kshark.check(log))
    assert findings == printed(command, "check", log)
    assert any("(line " in it["argument"] for it in findings)


@pytest.mark.parametrize("name", ["aborts-4.4.0", "hanging-4.4.0"])
def test_deliveries_pass_aborted_records_as_the_command_does(command: Run, name: str) -> None:
    capture = CAPTURES / "transactions" / f"{name}.pcap.gz"
    changes = lines(kshark.deliveries(capture))
    assert changes == printed(command, "deliveries", capture)
    assert any(it.get("start_source") in ("aborted", "seen") for it in changes)


def test_deliveries_and_events_are_selected() -> None:
    every = [*kshark.deliveries(LOCKS)]
    assert {it.topic for it in every} == {"work"}
    assert [*kshark.deliveries(LOCKS, topic="work", partition=1)] == [it for it in every if it.partition == 1]
    assert [*kshark.deliveries(LOCKS, topic=every[0].topic_id)] == every
    assert not [*kshark.deliveries(LOCKS, group="other")]
    assert {it.kind for it in kshark.events(LOCKS, kinds=["member", "group"])} == {"member", "group"}


def test_an_api_of_ones_own_is_read(tmp_path: Path) -> None:
    file = tmp_path / "telemetry.py"
    file.write_text(
        "from kshark.schema import api, int32, struct\n"
        'DISSECTOR = api(1000, "Own", versions="0", flexible="none", request=struct(int32("n")), response=struct())\n'
    )
    options: kshark.Options = {"dissectors": [file]}
    assert len([*kshark.check(EPOCHS, **options)]) == len([*kshark.check(EPOCHS)])
    with pytest.raises(kshark.SchemaError):
        kshark.check(EPOCHS, dissectors=[EPOCHS])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: kshark.check(EPOCHS, select="EPOCH_REPLY"), 'no code "EPOCH_REPLY"; did you mean "EPOCH_REPLAY"?'),
        (lambda: kshark.events(EPOCHS, kinds=["even"]), 'no kind "even"; did you mean "event"?'),  # type: ignore[list-item]
        (lambda: kshark.tables(EPOCHS, only=["exchange"]), 'no table "exchange"; did you mean "exchanges"?'),
        (lambda: kshark.tables(EPOCHS, only=["records"]), "the table records needs the records of batches"),
        (lambda: next(kshark.check()), "no capture is named"),
        (lambda: next(kshark.sessions("/nowhere.pcap")), "/nowhere.pcap"),
    ],
)
def test_bad_usage_is_one_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(kshark.Error, match=re.escape(sentence)):
        call()


def test_a_misspelt_option_is_an_error_at_once() -> None:
    with pytest.raises(TypeError, match="no option 'tls_key'; did you mean \"tls_keys\""):
        kshark.check(EPOCHS, tls_key="keys.log")  # type: ignore[call-arg]


def test_objects_are_shown_in_one_line() -> None:
    found = next(kshark.check(EPOCHS, select="TWO_COUNTERS"))
    assert repr(found) == "<Finding TWO_COUNTERS violation, packet 215, client 'A'>"
    assert repr(found.witness[0]) == "Witness(flow=4, correlation_id=28, request_packet=200, response_packet=204)"
    message = next(it for it in kshark.read(EPOCHS) if it.api == "ShareFetch")
    assert repr(message) == "<Message ShareFetch v2 request 12, packet 154, 127.0.0.1:51786 > 127.0.0.1:20092>"
    shown = [*kshark.sessions(LOCKS), *kshark.deliveries(LOCKS), *kshark.groups(LOCKS), *kshark.events(LOCKS)]
    assert all(re.fullmatch(r"<(ShareSession|Delivery|Group|Entry) .{20,180}>", repr(it)) for it in shown)


@pytest.mark.parametrize("first", ["import kshark.groups.table, kshark.tables", "import kshark.face", "kshark.groups"])
def test_a_package_of_the_same_name_does_not_hide_a_function(first: str) -> None:
    code = f"import kshark\n{first}\nprint(kshark.groups.__module__, kshark.tables.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout == "kshark.face kshark.face\n"


def test_the_import_of_kshark_imports_nothing_heavy() -> None:
    code = "import sys, kshark\nkshark.Error, kshark.__version__, dir(kshark)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    loaded = {*done.stdout.split()}
    assert {name for name in loaded if name.startswith("kshark.")} <= {"kshark.errors", "kshark._version"}
    assert not loaded & {"numpy", "msgspec", "pyarrow", "rich", "re2", "importlib.metadata"}


def test_every_public_name_exists() -> None:
    assert {*kshark.__all__} <= {*dir(kshark)}
    assert all(getattr(kshark, name) is not None for name in kshark.__all__)
    with pytest.raises(AttributeError, match="no attribute 'chek'"):
        kshark.chek  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_of_an_unbuilt_checkout_is_that_of_the_build() -> None:
    told = re.search(r'fallback_version = "(.+?)"', (ROOT / "pyproject.toml").read_text())
    assert told is not None
    assert f'_UNBUILT = "{told[1]}"' in (ROOT / "kshark/__init__.py").read_text()
