"""`kshark groups`: for a person, and as data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kshark.output.groups import group_lines
from kshark.output.spans import plain
from tests.cli.command import Run
from tests.groups.test_witness import listed
from tests.shared import CAPTURES, shared

MEMBERS = CAPTURES / "adv-members.pcap"
ADMINISTRATORS = shared("captures", "kafka-4", "admin-tools.pcap")
EXPLICIT = CAPTURES / "share-java-explicit.pcap"


def test_a_group_has_a_head_its_states_and_a_row_for_each_member(kshark: Run) -> None:
    done = kshark("groups", CAPTURES / "share-librdkafka.pcap")
    head, states, settings, titles, first, *_ = done.lines
    assert head == "rg-exp  share group · coordinator 127.0.0.1:20092 (node 1) · assignment epoch 5"
    assert states == "  state Stable 03:45:15.142 → Empty 03:45:28.496"
    assert settings == "  settings share.auto.offset.reset earliest · share.record.lock.duration.ms 2000"
    assert titles.split("  ")[1:3] == ["member", ""]
    assert "rk-a" in first
    assert "rk:0 " in first
    assert first.endswith("left 03:45:23.416      4  rk:0        explicit: released 41, rejected 6")
    assert done.lines[-1] == "2 groups: 2 share; 4 members, 4 left"
    assert done.code == 0


def test_every_change_says_who_knows_it(kshark: Run) -> None:
    lines = kshark("groups", "-V", EXPLICIT).lines
    assert lines[1].split() == ["packet", "time", "state", "members", "group", "epoch", "assignment", "epoch", "known"]
    changes = lines[2 : next(at for at, line in enumerate(lines) if line.startswith("  settings "))]
    assert {line.split()[-1] for line in changes} == {"inferred", "described", "deleted"}


def test_what_is_odd_stands_there(kshark: Run) -> None:
    lines = kshark("groups", MEMBERS).lines
    assert any("never in it" in line and "81 ×1" in line for line in lines)
    assert lines[-1] == "3 groups: 2 share, 1 consumer; 8 members, 1 left"


def test_moves_of_the_coordinator_are_shown(kshark: Run) -> None:
    done = kshark("groups", shared("captures", "kafka-4", "groups-share.pcap"))
    (move,) = [line for line in done.lines if line.startswith("  coordinator")]
    assert move == "  coordinator 127.0.0.1:21220 (node 3) 03:53:30.363 → 127.0.0.1:21200 (node 1) 03:54:16.630"


def test_members_of_streams_groups_have_tasks(kshark: Run) -> None:
    """By their subtopologies, as kafka-streams-groups tells them."""
    lines = kshark("groups", CAPTURES / "streams-groups.pcap").lines
    members = [line for line in lines if "StreamThread" in line]
    assert [line.partition("  4  " if "  4  " in line else "  6  ")[2].rstrip() for line in members[:2]] == [
        "0:0,1 1:0 standby 1:1,2"
    ] * 2
    assert members[2].rstrip().endswith("  7  0:0,1,2 1:0,1,2")
    assert lines[-1] == "1 group: 1 streams; 3 members, 3 left"


def test_what_administrators_did_stands_below_the_members(kshark: Run) -> None:
    lines = kshark("groups", ADMINISTRATORS).lines
    at = next(at for at, line in enumerate(lines) if line.startswith("gs  share group"))
    at = next(number for number, line in enumerate(lines) if number > at and line.startswith("  packet "))
    changes = [re.split(" {2,}", line.strip()) for line in lines[at + 1 : at + 6]]
    assert [[*line[2:6], line[-1]] for line in changes[1:-1]] == [
        ["assign", "sc", "t1:0,1,2", "3 initialized", "done"],
        ["alter offsets", "adm", "t1:1→0,0→1", "2 initialized, state epoch 2 → 4", "done"],
        ["delete offsets", "adm", "t1:0,1,2", "3 deleted", "done"],
    ]
    assert [*changes[-1][2:4], changes[-1][-1]] == ["delete group", "adm", "done"]
    assert lines[at + 6] == "  described 1 time, offsets described 2 times"
    assert any(
        line.endswith("unfinished: no member was assigned tool-a[0], tool-a[1], tool-a[2], tool-a[3]") for line in lines
    )


def test_operations_as_data_are_in_the_order_of_their_requests(kshark: Run) -> None:
    groups = {group["group_id"]: group for group in kshark("groups", "-T", "json", ADMINISTRATORS).json}
    operations = groups["gs"]["operations"]
    assert [one["operation"] for one in operations] == [
        *(
            "create",
            "assign",
            "describe",
            "describe_offsets",
            "describe_offsets",
            "alter_offsets",
            "delete_offsets",
            "delete_group",
        ),
    ]
    assert {row["topic"] for one in operations for row in one["partitions"]} == {"t1"}
    assert groups["gs"]["operations_left_out"] == 0
    assert groups["g848"]["operations"] == []


def test_a_filter_takes_what_an_administrator_asked(kshark: Run) -> None:
    done = kshark("groups", "-q", ADMINISTRATORS, "-Y", 'kafka.api == "AlterShareGroupOffsets"')
    assert done.lines == ["1 group: 1 share; 1 member, 1 left"]
    asked = kshark("groups", "-T", "json", ADMINISTRATORS, "-Y", 'kafka.api == "DescribeShareGroupOffsets"').json
    assert [group["group_id"] for group in asked] == ["console-share-consumer", "gs"]


def test_many_changes_are_shortened(kshark: Run) -> None:
    done = kshark("groups", shared("captures", "kafka-4", "groups-connect.pcap"))
    assert done.lines[0].startswith("connect-cluster  classic group of protocol type connect · coordinator ")
    assert done.lines[1].startswith("  state … 3 changes before (-V) … CompletingRebalance ")


def test_as_data_every_key_is_there(kshark: Run) -> None:
    (group,) = kshark("groups", "-T", "json", EXPLICIT).json
    assert (group["group_id"], group["type"], group["state"], group["assignor"]) == (
        "sg-orders",
        "share",
        "Dead",
        "simple",
    )
    assert list(group["members"][0]) == [
        *(
            "member_id",
            "instance_id",
            "client_id",
            "software",
            "software_version",
            "address",
            "rack_id",
            "present",
            "joined",
            "joins",
        ),
        *("last", "ended", "epoch", "topics", "assigned", "assignment", "rejected", "acknowledges"),
    ]
    assert group["members"][0]["assignment"] == [
        {"topic_id": "c-kSVc6hT1-UGTcyE6BeQQ", "topic": "cmp", "partitions": [0]},
        {"topic_id": "1vK3aJYjTuqkp-t8-s45jw", "topic": "orders", "partitions": [2]},
    ]


def test_a_filter_chooses_groups_and_leaves_them_whole(kshark: Run) -> None:
    every = {group["group_id"]: group for group in kshark("groups", "-T", "json", MEMBERS).json}
    assert kshark("groups", "-T", "json", MEMBERS, "-Y", "kafka.error_code == 81").json == [every["g"]]
    assert kshark("groups", MEMBERS, "-Y", "kafka.error_code == 999").lines == ["0 groups"]


def test_until_shows_a_moment(kshark: Run) -> None:
    (early,) = kshark("groups", "-T", "json", EXPLICIT, "--until", "+10s").json
    assert (early["state"], [member["present"] for member in early["members"]]) == ("Stable", [True, True])


def test_quiet_leaves_the_count(kshark: Run) -> None:
    assert kshark("groups", "-q", MEMBERS).lines == ["3 groups: 2 share, 1 consumer; 8 members, 1 left"]
    assert kshark("groups", "-q", "-T", "json", MEMBERS).out == ""


def test_each_capture_is_told_apart(kshark: Run) -> None:
    lines = kshark("groups", "--each", "-q", MEMBERS, EXPLICIT).lines
    assert [line for line in lines if line.startswith("==")] == [f"== {MEMBERS}", f"== {EXPLICIT}"]


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_a_terminal(width: int) -> None:
    for group in listed(MEMBERS):
        for verbose in (False, True):
            assert max(len(plain(line)) for line in group_lines(group, width, verbose=verbose)) <= width


def test_a_capture_without_kafka_has_no_groups(kshark: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes((CAPTURES / "nano-sll2.pcap").read_bytes()[:24])
    assert kshark("groups", empty).lines == ["0 groups"]


def test_a_real_group_has_what_its_administrator_set(kshark: Run) -> None:
    """A person sees what is set; data has the packet too."""
    capture = CAPTURES / "share-java-explicit.pcap"
    assert kshark("groups", capture).lines[2] == (
        "  settings share.auto.offset.reset earliest · share.delivery.count.limit 3 · share.isolation.level "
        "read_committed · share.record.lock.duration.ms 2000"
    )
    (line,) = kshark("groups", capture, "-T", "json").json
    shown = [(setting["name"], setting["value"], setting["source"], setting["packet"]) for setting in line["settings"]]
    assert shown[1] == ("share.delivery.count.limit", "3", "group", 127)


def test_verbose_shows_defaults_and_their_packets(kshark: Run) -> None:
    capture = shared("captures", "kafka-4", "ver-4.1.2.pcap")
    lines = kshark("groups", "-V", capture).lines
    assert any("share.delivery.count.limit 5 (the brokers' default, packet 1108)" in line for line in lines)


def test_records_of_the_coordinators_logs_stand_beside_what_wrote_them(kshark: Run) -> None:
    """As followers fetch them, each once. A deletion begins and ends with a record about the group's partitions."""
    done = kshark("groups", "-V", "-T", "json", shared("captures", "kafka-4", "admin-tools.pcap"))
    (group,) = (group for group in map(json.loads, done.lines) if group["group_id"] == "gs")
    wrote = {it["operation"]: it["records"] for it in group["operations"] if it["records"]}
    kinds = {
        operation: [(it["log"].strip("_"), it["type"], it["tombstone"], it["state_epoch"]) for it in records]
        for operation, records in wrote.items()
    }
    about = ("consumer_offsets", "ShareGroupStatePartitionMetadata", False, None)
    assert (
        sorted(kinds["alter_offsets"], key=str) == [about] * 2 + [("share_group_state", "ShareSnapshot", False, 4)] * 2
    )
    assert (
        sorted(kinds["delete_offsets"], key=str)
        == [about] * 2 + [("share_group_state", "ShareSnapshot", True, None)] * 3
    )
    deleted = {kind for log, kind, tombstone, _ in kinds["delete_group"] if tombstone}
    assert deleted == {
        "ShareGroupTargetAssignmentMetadata", "ShareGroupStatePartitionMetadata", "ShareGroupMetadata",
    }  # fmt: skip
    text = kshark("groups", "-V", shared("captures", "kafka-4", "admin-tools.pcap")).out
    assert "__share_group_state[4]: 2 ShareSnapshot t1[1] state epoch 4" in text
    assert all(it["records"] is None for it in json.loads(kshark(
        "groups", "-T", "json", shared("captures", "kafka-4", "admin-tools.pcap")).lines[0])["operations"])  # fmt: skip
