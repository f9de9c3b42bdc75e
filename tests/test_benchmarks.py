"""The benchmarks' inputs: whole conversations without a hole, the same on every day."""

from __future__ import annotations

import io
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import kshark
from benchmarks import hostile
from benchmarks.conversations import OLD_VERSIONS, ZSTD, Shape, converse
from benchmarks.inputs import INPUTS
from benchmarks.making import late, make
from benchmarks.measure import Command, Run, found
from benchmarks.repeating import continued
from benchmarks.report import markdown, table
from benchmarks.results import Compared, Figure, Results
from benchmarks.rows import ROWS, command
from benchmarks.stages import STAGES, measured
from benchmarks.wire import Wire
from kshark.face import pages
from kshark.model import Exchange, Gap, Message, Opened, Weird
from tests.analysis.shapes import many_ranges
from tests.shared import CAPTURES

SIZE = 300_000
SMALL = {"old": replace(OLD_VERSIONS, pool=8), "zstd": replace(ZSTD, pool=2, records=(100, 120))}


def events(path: Path) -> list[object]:
    return [event for page in pages((path,)) for event in page]


@pytest.mark.sweep(quick=1)
@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_producers_and_consumers_are_read_without_a_weird(shape: Shape, tmp_path: Path) -> None:
    path = tmp_path / "talk.pcap"
    with path.open("wb") as out:
        converse(Wire(out), shape, SIZE)
    found = events(path)
    assert not [event for event in found if isinstance(event, (Weird, Gap))]
    exchanges = [event for event in found if isinstance(event, Exchange)]
    assert {exchange.outcome for exchange in exchanges} == {"answered"}
    assert sum(isinstance(event, Opened) for event in found) == shape.connections
    records = list(records_of(path))
    assert len(records) > 100
    assert all(record["value"] for record in records)


@pytest.mark.sweep
@pytest.mark.tshark
def test_tshark_reads_old_versions_to_the_last_field_even_where_segments_come_late(tmp_path: Path) -> None:
    if found("tshark") is None:
        pytest.skip("tshark is not installed")
    path = tmp_path / "talk.pcap"
    with path.open("wb") as out:
        converse(Wire(out), SMALL["old"], SIZE, late(seed=1))
    traffic = INPUTS["reordered"]
    keys = [printed(command(name, traffic, str(path))) for name in ("fields", "tshark fields")]
    assert keys[0] == keys[1] != ""
    told = printed(command("tshark json", traffic, str(path)))
    assert "malformed" not in told.lower()
    assert told.count('"kafka.message_value"') == printed(command("json", traffic, str(path))).count('"value":')


def printed(line: Command | None) -> str:
    assert line is not None
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def records_of(path: Path) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for message in kshark.read(path):
        for topic in message.body.get("topic_data", []) if message.api == "Produce" else []:
            for partition in topic["partition_data"]:
                out += [record for batch in partition["records"]["batches"] for record in batch["records"]]
    return out


def test_a_play_that_goes_on_says_every_message_again_in_the_same_connections(tmp_path: Path) -> None:
    source = CAPTURES / "seed-messy.pcap"
    path = tmp_path / "on.pcap"
    with path.open("wb") as out:
        continued(source, Wire(out), 3 * source.stat().st_size)
    once, often = events(source), events(path)
    said = Counter((event.api, event.version, event.kind) for event in once if isinstance(event, Message))
    again = Counter((event.api, event.version, event.kind) for event in often if isinstance(event, Message))
    copies = again.total() // said.total()
    assert copies >= 3
    assert again == Counter({what: count * copies for what, count in said.items()})
    assert sum(isinstance(event, Opened) for event in often) == sum(isinstance(event, Opened) for event in once)
    assert not [event for event in often if isinstance(event, Gap)]


@pytest.mark.sweep
def test_late_segments_change_no_message(tmp_path: Path) -> None:
    shape, read = SMALL["old"], []
    for order in ({}, {"order": late(seed=1)}):
        path = tmp_path / "late.pcap"
        with path.open("wb") as out:
            converse(Wire(out), shape, SIZE, **order)
        assert not [event for event in events(path) if isinstance(event, Gap)]
        read.append(
            [(message.api, message.correlation_id, message.client, message.body) for message in kshark.read(path)]
        )
    assert read[0] == read[1]
    assert late(seed=1)(1000) != list(range(1000))
    assert sorted(late(seed=1)(1000)) == list(range(1000))


def test_an_input_is_the_same_on_every_day() -> None:
    made = [io.BytesIO(), io.BytesIO()]
    for out in made:
        make("short-connections", out, SIZE)
    assert made[0].getvalue() == made[1].getvalue()


def test_stages_account_for_every_packet_message_and_record() -> None:
    path = CAPTURES / "small-zstd.pcap"
    sizes, least = measured(str(path), rounds=1)
    assert (sizes.packets, sizes.messages, sizes.records) == (
        532,
        sum(isinstance(event, Message) for event in events(path)),
        2100,
    )
    assert list(least) == list(STAGES)
    assert least["framing"] > 0


def test_every_row_names_an_input_and_commands() -> None:
    for row in ROWS:
        own = command(row.own, INPUTS[row.input], "FILE")
        assert own is not None
        assert own[-1] == "FILE"
        command(row.peer, INPUTS[row.input], "FILE")


def test_a_missed_target_is_said() -> None:
    results = Results(rounds=2)
    fast, slow = [Run(1.0, 1.0, 50), Run(1.1, 1.1, 60)], [Run(4.0, 4.0, 200), Run(5.5, 5.5, 210)]
    results.compared.append(Compared.of(ROWS[0], fast, slow))
    results.figures += [Figure("memory", 100, "MB", 200), Figure("floor", 1, "s")]
    results.left_out.append("DuckDB: not here")
    one = results.compared[0]
    assert (one.ratio, one.lowest, one.highest, one.met) == (4.0, 4.0, 5.0, False)
    assert "MISSED" in table(results)
    text = markdown(results)
    assert "1 of 2 targets met" in text
    assert "**4.00x**" in text
    assert "DuckDB: not here" in text
    assert results.plain()["compared"][0]["ratio"] == 4.0


def test_a_capture_that_is_hard_to_judge_is_as_large_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "WORK", tmp_path)
    file = hostile.made(many_ranges, 0.1)
    assert 80_000 < file.stat().st_size < 120_000
    seconds, megabytes = hostile.measured(file)
    assert seconds > 0
    assert megabytes > 0
