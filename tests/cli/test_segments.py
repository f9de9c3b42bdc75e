"""Commands on log segments of a broker."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.cli.command import Run
from tests.shared import CAPTURES, shared

FOLDER = CAPTURES / "segments"
BESIDE = FOLDER / "beside"
SHARE = FOLDER / "__share_group_state-0" / "00000000000000000000.log"
OFFSETS = FOLDER / "__consumer_offsets-1" / "00000000000000000000.log"


def test_read_prints_a_line_for_each_record(kshark: Run) -> None:
    done = kshark("read", OFFSETS)
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) == 110
    assert done.out.splitlines()[-1].endswith("GroupMetadata group=classics  tombstone")


def test_read_json_prints_batches_with_decoded_records(kshark: Run) -> None:
    lines = [json.loads(line) for line in kshark("read", SHARE, "-T", "json", "-c", "3").out.splitlines()]
    assert [(line["topic"], line["partition"], line["batch"]["base_offset"]) for line in lines] == [
        ("__share_group_state", 0, offset) for offset in range(3)
    ]
    record = lines[2]["batch"]["records"][0]
    assert record["key_decoded"]["data"]["group_id"] == "billing"
    assert record["value_decoded"]["name"] == "ShareUpdateValue"


def test_read_v_prints_every_field(kshark: Run) -> None:
    out = kshark("read", SHARE, "-V", "-c", "1").out
    assert "  partition_leader_epoch: 0\n" in out
    assert '        group_id: "billing"\n' in out


def test_a_folder_stands_for_its_segments(kshark: Run) -> None:
    assert kshark("read", SHARE.parent).out == kshark("read", SHARE).out


def test_a_folder_with_captures_stands_for_these(kshark: Run) -> None:
    done = kshark("read", FOLDER, "-c", "1")
    assert "ApiVersions" in done.out


def test_deliveries_prints_the_state_by_the_log(kshark: Run) -> None:
    done = kshark("deliveries", SHARE.parent, "--group", "mailers")
    assert done.code == 0
    assert "mailers · Pcn_1qfSTk6gEwyL2_83tw[0]  start offset 34  state epoch 2" in done.out
    state = json.loads(kshark("deliveries", SHARE, "-T", "json", "--group", "mailers").out)
    assert (state["start_offset"], state["snapshot_epoch"], state["batches"][0]) == (34, 6, [34, 34, 2, 5])


def test_a_group_that_the_log_lacks_is_said_to_be_missing(kshark: Run) -> None:
    done = kshark("deliveries", SHARE, "--group", "mailer")
    assert (done.code, done.out) == (0, "")
    assert "no share partition matches" in done.err
    assert "mailers · Pcn_1qfSTk6gEwyL2_83tw[0]" in done.err


def test_a_log_without_share_state_is_said_to_have_none(kshark: Run) -> None:
    assert "no state of share partitions" in kshark("deliveries", OFFSETS).out


def test_damage_is_a_note(kshark: Run, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(SHARE.read_bytes()[:-5])
    done = kshark("read", path)
    assert done.code == 0
    assert "SEGMENT_CUT ×1" in done.err


def test_an_empty_segment_is_named(kshark: Run, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"")
    done = kshark("read", path)
    assert (done.code, done.out) == (0, "")
    assert "no batch" in done.err


@pytest.mark.parametrize("options", [("-Y", "kafka.api == Fetch"), ("-w", "x.pcapng"), ("--since", "+1s"), ("--each",)])
def test_options_that_need_packets_are_refused(kshark: Run, options: tuple[str, ...]) -> None:
    done = kshark("read", SHARE, *options)
    assert done.code == 2
    assert "needs packets, and log segments have none" in done.err


def test_other_commands_name_the_commands_for_segments(kshark: Run) -> None:
    done = kshark("check", SHARE)
    assert done.code == 2
    assert "a log segment of a Kafka broker" in done.err
    assert "kshark read" in done.err


def test_a_capture_among_segments_is_left_out(kshark: Run) -> None:
    done = kshark("read", SHARE, CAPTURES / "share-loss.pcap", "-q")
    assert done.code == 2
    assert "name log segments and captures in separate commands" in done.err


def test_state_by_the_log_beside_state_by_packets(kshark: Run) -> None:
    """Two share groups at work, and the coordinator's log copied afterwards: ranges and start offsets are the same."""
    done = kshark("deliveries", BESIDE / "consumed.pcap.gz", "--log", BESIDE)
    assert done.code == 0
    assert "3 share partitions: start offsets equal in 2, different in 0, known from one side only in 1" in done.out
    text = kshark("deliveries", BESIDE / "consumed.pcap.gz", "--log", BESIDE, "-T", "json").out
    both = [line for line in map(json.loads, text.splitlines()) if line["by_packets"] and line["by_log"]]
    states = {0: "available", 2: "acknowledged", 4: "archived"}
    for line in both:
        by_packets = [
            (kept["first_offset"], kept["last_offset"], kept["state"], kept["delivery_count"])
            for kept in line["by_packets"]["ranges"]
        ]
        by_log = [(first, last, states[state], count) for first, last, state, count in line["by_log"]["batches"]]
        assert by_packets == by_log
        assert line["by_packets"]["start_offset"] == line["by_log"]["start_offset"]
    assert [(line["topic"], line["by_log"]["start_offset"]) for line in both] == [("orders", 80), ("jobs", 85)]


def test_the_log_counts_up_to_the_moment_of_at(kshark: Run) -> None:
    out = kshark("deliveries", BESIDE / "consumed.pcap.gz", "--log", BESIDE, "--group", "mailers", "--at", "+1s").out
    assert "by the log  start offset 35 (stored 34)" in out


def test_export_writes_the_records_of_segments(kshark: Run, tmp_path: Path) -> None:
    done = kshark("export", SHARE, OFFSETS, FOLDER / "__transaction_state-1", "-o", tmp_path / "tables")
    assert done.code == 0
    rows = parquet.read_table(tmp_path / "tables" / "coordinator_records").to_pylist()
    assert Counter(row["log"] for row in rows) == {
        "__share_group_state": 97,
        "__consumer_offsets": 110,
        "__transaction_state": 7,
    }
    last = [row for row in rows if row["log"] == "__share_group_state" and row["group_id"] == "mailers"][-1]
    assert (last["packet"], last["ts"], last["api"]) == (None, None, None)
    assert (last["record_type"], last["snapshot_epoch"], last["start_offset"]) == ("ShareSnapshot", 6, 34)
    assert len({row["capture"] for row in rows}) == 3


def test_log_needs_segments(kshark: Run) -> None:
    done = kshark("deliveries", BESIDE / "consumed.pcap.gz", "--log", CAPTURES / "share-loss.pcap")
    assert done.code == 2
    assert "is no log segment" in done.err


@pytest.mark.parametrize(("moment", "equal"), [("+12s", 9), ("+25s", 9), ("+50s", 8)])
def test_state_by_the_log_that_followers_fetch(kshark: Run, moment: str, equal: int) -> None:
    """Three brokers replicate __share_group_state. By packets, a start offset is unknown after the leader moved."""
    done = kshark("deliveries", shared("captures/kafka-4/groups-share.pcap"), "--log", "capture", "--at", moment)
    assert f"9 share partitions: start offsets equal in {equal}, different in 0" in done.out


def test_a_capture_without_replication_has_no_such_log(kshark: Run) -> None:
    done = kshark("deliveries", CAPTURES / "seed-messy.pcap", "--log", "capture")
    assert "no follower fetches __share_group_state in this capture" in done.err
    done = kshark("deliveries", CAPTURES / "seed-messy.pcap", "--log", "capture", "--log", SHARE)
    assert (done.code, "leave out the segments" in done.err) == (2, True)
