"""`kshark stats --share` and `kshark explain metrics`: what a person reads, and what jq does."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshark.metrics import METRICS
from kshark.output.metrics import metric_lines
from kshark.output.spans import plain
from tests.analysis.states.partition.test_aborted import opened
from tests.analysis.talks import handed, sets
from tests.cli.conftest import Run
from tests.cli.incident import written
from tests.conversation import TOPIC, Conversation
from tests.metrics.talks import told
from tests.shared import CAPTURES

EPOCHS = CAPTURES / "adv-epochs.pcap"


def test_who_gets_nothing_comes_first(kshark: Run) -> None:
    done = kshark("stats", "--share", CAPTURES / "share-java-explicit-4.1.2.pcap")
    head, _, group, trouble, *_ = done.lines
    assert head.endswith("25.5 s · 1 share group")
    assert group == "sg-orders  4 members, 0 at the end · 4 share partitions · sessions: 4 final_epoch"
    assert trouble == (
        "  sd got no records: 14 fetches returned none, others acquired 306 records of its partitions and hold none now"
    )


def test_metrics_of_a_group_its_members_and_its_partitions(kshark: Run, trace: Path) -> None:
    lines = kshark("stats", "--share", trace).lines
    assert "billing  1 member, 1 at the end · 2 share partitions · sessions: 1 connection_closed" in lines
    assert any(line.split() == ["fetches-with-records", "1"] for line in lines)
    assert any(line.split() == ["share", "partitions", "AAAAAAAA…[0]", "AAAAAAAA…[1]"] for line in lines)
    assert any(line.split() == ["records-redelivered", "0", "1"] for line in lines)
    assert not any(line.endswith(" ") for line in lines)


def test_as_json(kshark: Run, trace: Path) -> None:
    (found,) = kshark("stats", "--share", trace, "-T", "json").json
    assert list(found) == ["first_time_ns", "last_time_ns", "metrics", "groups"]
    billing = found["groups"][1]
    assert (billing["group_id"], billing["metrics"]["share-acknowledgement-count"]) == ("billing", 10)
    (member,) = billing["members"]
    assert member["trouble"] == "got records, but 1 of 3 fetches failed with 123 INVALID_SHARE_SESSION_EPOCH ×1"
    assert (member["fetches"]["records"], member["fetches"]["failed"], member["errors"]) == (1, 1, {"123": 1})
    assert member["metrics"]["records-fetched-total"] == 11
    assert [(one["partition"], one["metrics"]["records-acquired"]) for one in billing["partitions"]] == [
        (0, 10),
        (1, 1),
    ]


def test_a_filter_counts_what_passes(kshark: Run) -> None:
    (found,) = kshark("stats", "--share", EPOCHS, "-T", "json", "-Y", "kafka.group_id == g").json
    assert [(group["group_id"], group["metrics"]["fetch-requests"]) for group in found["groups"]] == [("g", 40)]


def test_a_period_counts_what_is_in_it(kshark: Run, trace: Path) -> None:
    (found,) = kshark("stats", "--share", trace, "-T", "json", "--since", "+4s").json
    assert {group["group_id"]: group["metrics"]["fetch-requests"] for group in found["groups"]} == {
        "audit": 0,
        "billing": 1,
    }


def test_nothing_to_tell(kshark: Run, tmp_path: Path) -> None:
    talk = Conversation()
    talk.connection()
    assert kshark("stats", "--share", written(tmp_path, talk.wire.packets)).lines == ["the capture has no share group"]


@pytest.mark.parametrize("width", [80, 140])
def test_as_many_members_as_there_is_room_for_those_in_trouble_first(width: int) -> None:
    talk = Conversation()
    for number in range(40):
        connection = talk.connection()
        connection.client_id = f"client-{number}"
        member = talk.member(f"m{number}", connection=connection)
        if number < 39:
            member.share_fetch(0, [number]).answered(responses=handed((number, 0, 0)))
    lines = [plain(line) for line in metric_lines(told(talk), width)]
    assert max(map(len, lines)) <= width
    titles = next(line.split() for line in lines if line.startswith("  members"))
    assert titles[:4] == ["members", "all", "client-39", "client-0"]
    assert f"  {41 - (len(titles) - 1)} members more: -T json" in lines


def test_explained(kshark: Run) -> None:
    lines = kshark("explain", "metrics").lines
    for metrics in METRICS.values():
        for metric in metrics:
            assert any(line.strip().startswith(f"{metric.name} ") for line in lines)


def test_one_explained(kshark: Run) -> None:
    assert (
        kshark("explain", "Fetch-Work-Max", "ShareSessionsCount").lines[0]
        == "fetch-work-max  of a member · kshark · ms"
    )
    assert kshark("explain", "partition-load-time-max").lines == [
        "partition-load-time-max  of a group · KIP-932 · group-coordinator-metrics · ms",
        "  ReadShareGroupState, if the capture has requests of brokers to share coordinators",
        "partition-load-time-max  of a group · KIP-932 · share-coordinator-metrics · ms",
        "  a share coordinator reads its log from its own disk: no message shows it",
    ]
    assert 'did you mean "fetch-latency-avg"' in kshark("explain", "fetch-latncy-avg").err


def test_a_group_waits_for_an_open_transaction(tmp_path: Path, kshark: Run) -> None:
    talk, _ = opened()
    path = written(tmp_path, talk.wire.packets)
    producer = "producer 7 (transactional id tx, client c1, 10.0.0.1)"
    words = f"{TOPIC}[0] waits at offset 5 for the open transaction of {producer}"
    assert f"  {words}" in kshark("stats", "--share", path).lines
    (found,) = kshark("stats", "--share", path, "-T", "json").json
    assert found["groups"][0]["waits"] == words


def test_a_member_gets_nothing_because_of_an_open_transaction(tmp_path: Path, kshark: Run) -> None:
    talk, _ = opened()
    a = talk.member("b")
    for epoch in range(6):
        a.share_fetch(epoch, [0] if epoch == 0 else ()).answered()
        talk.pause(1)
    (found,) = kshark("stats", "--share", written(tmp_path, talk.wire.packets), "-T", "json").json
    trouble = [member["trouble"] for member in found["groups"][0]["members"]]
    assert any("got no records" in (it or "") and "waits at offset 5 for the open transaction" in it for it in trouble)


def test_a_group_that_reads_uncommitted_records_waits_for_none(tmp_path: Path, kshark: Run) -> None:
    talk, _ = opened()
    sets(talk.connection(), "share.isolation.level", "read_uncommitted", group="g")
    (found,) = kshark("stats", "--share", written(tmp_path, talk.wire.packets), "-T", "json").json
    assert found["groups"][0]["waits"] is None
